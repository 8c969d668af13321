/** Works out which allocation covers each pixel of a window: the exact picture, bounded by pixels. */

import type { Extremes, Strips } from "./curves"
import type { Scale } from "./scale"
import type { Window } from "./window"

/** One worked-out picture. Pixels stand column after column, each from the bottom up. */
export interface Raster {
  window: Window
  width: number
  height: number
  /** Allocation id + 1, or 0 where nothing is live; pixel (x, y) is ids[x * height + y].
   * EDGE is added on the top row and the first column of strips thick enough to show one. */
  ids: Uint32Array
  /** The step that each column shows; NO_STEP outside the recording. */
  steps: Int32Array
}

export const EDGE = 0x80000000
/** Takes the allocation out of a pixel: `(pixel & ID) - 1`. */
export const ID = 0x7fffffff
/** Strips of fewer rows have no edges drawn, or they would be all edge. */
export const EDGED_ROWS = 4

export const NO_STEP = -2

/** The steps that a pixel column touches, as [first, end); empty outside the recording. */
export function stepsOfColumn(scale: Scale, w: Window, width: number, column: number): [number, number] {
  const perColumn = (w.x1 - w.x0) / width
  return scale.stepsIn(w.x0 + column * perColumn, w.x0 + (column + 1) * perColumn)
}

/** Rasters strips by one sweep over the window's steps, keeping the live ones in a linked list. */
export class Rasteriser {
  private readonly prev: Int32Array
  private readonly next: Int32Array
  /** Allocation ids by step of death. */
  private readonly byDeath: Int32Array
  /** How many allocations die before or at each step. */
  private readonly deathsUpTo: Int32Array
  private first = -1
  private last = -1

  /** `extremes`: of the totals of these strips. */
  constructor(private readonly strips: Strips, private readonly extremes: Extremes, private readonly scale: Scale) {
    const n = strips.birth.length
    this.prev = new Int32Array(n)
    this.next = new Int32Array(n)
    const ends = new Int32Array(strips.events + 3)
    for (let i = 0; i < n; i++) ends[strips.death[i] + 2]++
    for (let s = 1; s < ends.length; s++) ends[s] += ends[s - 1]
    this.deathsUpTo = ends.slice(1)
    this.byDeath = new Int32Array(n)
    for (let i = 0; i < n; i++) this.byDeath[ends[strips.death[i] + 1]++] = i
  }

  /** Paints one window. Each column shows the step in it at which most bytes are live.
   *
   * A pixel belongs to the strip that covers its centre; the pixel that holds the column's top
   * belongs to the topmost strip, so neither the maximum nor the newest strip is lost.
   * Costs O(allocations + events in the window + live strips of each distinct column).
   */
  paint(window: Window, width: number, height: number, recycled?: Uint32Array): Raster {
    const size = width * height
    const ids = recycled && recycled.length === size ? recycled.fill(0) : new Uint32Array(size)
    const steps = new Int32Array(width).fill(NO_STEP)
    let step = NO_STEP
    let birth = 0
    let deaths = 0
    for (let column = 0; column < width; column++) {
      const [from, end] = stepsOfColumn(this.scale, window, width, column)
      if (end <= from) continue
      const shown = this.extremes.firstMax(from + 1, end + 1) - 1
      if (step === NO_STEP) {
        birth = this.start(shown)
        deaths = this.deathsUpTo[shown + 1]
      } else if (shown > step) {
        birth = this.advance(shown, birth, deaths)
        deaths = this.deathsUpTo[shown + 1]
      } else {
        ids.copyWithin(column * height, (column - 1) * height, column * height)
      }
      if (shown > step) this.paintColumn(ids, column * height, height, window)
      steps[column] = step = shown
      markEdges(ids, column * height, height)
    }
    return { window, width, height, ids, steps }
  }

  /** Makes the list of what is live after a step; returns the first allocation not yet born. */
  private start(step: number): number {
    const { birth, death } = this.strips
    this.first = this.last = -1
    let i = 0
    for (; i < birth.length && birth[i] <= step; i++) if (death[i] > step) this.append(i)
    return i
  }

  private advance(step: number, born: number, dead: number): number {
    const { birth, death } = this.strips
    const deadEnd = this.deathsUpTo[step + 1]
    // What is born after the last column and gone by this one was never in the list.
    for (let k = dead; k < deadEnd; k++) if (this.byDeath[k] < born) this.remove(this.byDeath[k])
    let i = born
    for (; i < birth.length && birth[i] <= step; i++) if (death[i] > step) this.append(i)
    return i
  }

  private append(i: number): void {
    this.prev[i] = this.last
    this.next[i] = -1
    if (this.last < 0) this.first = i
    else this.next[this.last] = i
    this.last = i
  }

  private remove(i: number): void {
    const before = this.prev[i]
    const after = this.next[i]
    if (before < 0) this.first = after
    else this.next[before] = after
    if (after < 0) this.last = before
    else this.prev[after] = before
  }

  private paintColumn(ids: Uint32Array, base: number, rows: number, window: Window): void {
    const heights = this.strips.height
    const { next } = this
    const bytesPerRow = (window.y1 - window.y0) / rows
    const perByte = 1 / bytesPerRow
    // Row r is covered from where its centre is: the first such row is ceil(offset - 0.5).
    const shift = -window.y0 * perByte - 0.5
    let top = 0
    let row = 0
    for (let strip = this.first; strip >= 0; strip = next[strip]) {
      top += heights[strip]
      const end = Math.ceil(top * perByte + shift)
      if (end > row) {
        const stop = end < rows ? end : rows
        ids.fill(strip + 1, base + row, base + stop)
        row = stop
      }
      if (top > window.y1) return // the column goes on above the window
    }
    const topRow = Math.ceil((top - window.y0) * perByte) - 1
    if (top > window.y0 && topRow < rows) ids[base + topRow] = this.last + 1
  }
}

/** Adds EDGE in one column, to runs of at least EDGED_ROWS pixels of one strip: to the whole run where
 * the column before shows another strip at the run's middle, else to its top unless the window cuts it. */
function markEdges(ids: Uint32Array, base: number, rows: number): void {
  const end = base + rows
  for (let from = base; from < end; ) {
    const id = ids[from] & ID
    let to = from + 1
    ids[from] = id
    while (to < end && (ids[to] & ID) === id) ids[to++] = id
    if (id && to - from >= EDGED_ROWS) {
      const middle = ((from + to) >> 1) - rows
      if (middle >= 0 && (ids[middle] & ID) !== id) ids.fill((id | EDGE) >>> 0, from, to)
      else if (to < end) ids[to - 1] = (id | EDGE) >>> 0
    }
    from = to
  }
}
