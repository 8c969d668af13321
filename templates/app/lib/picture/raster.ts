/** Computes which allocation covers each pixel of a window: the exact picture, at a cost bounded by its pixels. */

import type { Bytes, Ints, Strips } from "../data/curves"
import { Lives } from "../data/lives"
import type { Scale } from "../data/scale"
import type { Window } from "./window"

/** One computed picture. Pixels are stored column after column, each from the bottom up. */
export interface Raster {
  window: Window
  width: number
  height: number
  /** Allocation id + 1, or 0 where nothing is live; pixel (x, y) is ids[x * height + y].
   * EDGE is added on the top row and the first column of strips thick enough to show one. */
  ids: Uint32Array
  /** The event that each column shows; NO_EVENT outside the recording. */
  events: Int32Array
}

export const EDGE = 0x80000000
/** The mask of the allocation in a pixel: `(pixel & ID) - 1`. */
export const ID = 0x7fffffff
/** Strips of fewer rows have no edges, as they would be nothing but edge. */
export const EDGED_ROWS = 4

export const NO_EVENT = -2
const NO_ID = -1
/** Runs up to this long are filled faster one by one. */
const SHORT = 12
/** A fraction of a byte, more than the rounding error of offsets below 2^40. */
const HAIR = 1 / 512

/** The events that a pixel column touches, as [first, end); empty outside the recording. */
export function eventsOfColumn(scale: Scale, w: Window, width: number, column: number): [number, number] {
  const perColumn = (w.x1 - w.x0) / width
  return scale.eventsIn(w.x0 + column * perColumn, w.x0 + (column + 1) * perColumn)
}

/** Rasters strips by one sweep over the window's events, keeping the live ones in an array.
 *
 * The array is in birth order. A death leaves a gap that is closed later: skipping gaps is several times
 * as fast as following a linked list. */
export class Rasteriser {
  /** For each event, an allocation that dies at it; for each allocation, the next one that dies at the same event: ids + 1, or 0. */
  private readonly dying: Int32Array
  private readonly dyingToo: Int32Array
  private readonly lives: Lives
  /** The live allocations, NO_ID in the gaps, and their heights, 0 in the gaps; longer when more are live. */
  private stack = new Int32Array(1024)
  private heights = new Float64Array(1024)
  /** Bytes below each place of the stack, right for the first `summed` places and the one after them. */
  private below = new Float64Array(1025)
  private summed = 0
  /** Where each live allocation is in the stack. */
  private readonly placeOf: Int32Array
  private size = 0
  private gaps = 0
  /** No gap is before this place. */
  private firstGap = 0
  /** The row that the last column's topmost strip took over, and what was there. */
  private topRow = -1
  private underTop = 0

  /** `curve`: of the totals of these strips. */
  constructor(
    private readonly strips: Strips,
    private readonly curve: Bytes,
    private readonly scale: Scale,
  ) {
    const { birth, death, events } = strips
    this.lives = new Lives(birth, death)
    this.placeOf = new Int32Array(birth.length)
    this.dying = new Int32Array(events)
    this.dyingToo = new Int32Array(birth.length)
    const { dying, dyingToo } = this
    for (let i = 0; i < death.length; i++) {
      if (death[i] < 0 || death[i] >= events) continue
      dyingToo[i] = dying[death[i]]
      dying[death[i]] = i + 1
    }
  }

  /** Paints one window. Each column shows the event in it at which most bytes are live.
   *
   * A pixel belongs to the strip that covers its centre; the pixel that holds the column's top
   * belongs to the topmost strip, so neither the maximum nor the newest strip is lost.
   * Costs O(blocks of allocations + events in the window + live strips of each distinct column).
   */
  paint(window: Window, width: number, height: number, recycled?: Uint32Array): Raster {
    const size = width * height
    const ids = recycled && recycled.length === size ? recycled.fill(0) : new Uint32Array(size)
    const events = new Int32Array(width).fill(NO_EVENT)
    let event = NO_EVENT
    let birth = 0
    for (let column = 0; column < width; column++) {
      const [from, end] = eventsOfColumn(this.scale, window, width, column)
      if (end <= from) continue
      const shown = this.curve.firstMax(from + 1, end + 1) - 1
      if (event === NO_EVENT) {
        birth = this.start(shown)
      } else if (shown > event) {
        birth = this.advance(event, shown, birth)
      } else {
        ids.copyWithin(column * height, (column - 1) * height, column * height)
      }
      if (shown > event) this.paintColumn(ids, column * height, height, window, shown)
      events[column] = event = shown
      markEdges(ids, column * height, height)
    }
    return { window, width, height, ids, events }
  }

  /** Stacks what is live after an event; returns the first allocation not yet born. */
  private start(event: number): number {
    this.size = this.gaps = this.summed = this.firstGap = 0
    for (const i of this.lives.at(event)) this.append(i)
    return this.lives.bornBy(event)
  }

  private advance(before: number, event: number, born: number): number {
    const { dying, dyingToo } = this
    const { birth, death } = this.strips
    for (let s = before + 1; s <= event; s++) {
      // What was born after the last column and died before this one never enters the stack.
      for (let i = dying[s] - 1; i >= 0; i = dyingToo[i] - 1) if (i < born) this.remove(i)
    }
    if (this.gaps > this.size / 3) this.closeGaps()
    let i = born
    for (; i < birth.length && birth[i] <= event; i++) if (death[i] > event) this.append(i)
    return i
  }

  private append(i: number): void {
    if (this.size === this.stack.length) this.grow()
    this.placeOf[i] = this.size
    this.stack[this.size] = i
    this.heights[this.size++] = this.strips.height[i]
  }

  private grow(): void {
    const { stack, heights, below } = this
    this.stack = new Int32Array(stack.length * 2)
    this.heights = new Float64Array(stack.length * 2)
    this.below = new Float64Array(stack.length * 2 + 1)
    this.stack.set(stack)
    this.heights.set(heights)
    this.below.set(below)
  }

  private remove(i: number): void {
    const place = this.placeOf[i]
    this.stack[place] = NO_ID
    this.heights[place] = 0
    if (place < this.summed) this.summed = place
    if (place < this.firstGap) this.firstGap = place
    this.gaps++
  }

  private closeGaps(): void {
    const { stack, heights, placeOf, size } = this
    const { below, summed, firstGap } = this
    let to = firstGap
    let kept = Math.min(summed, firstGap)
    for (let from = firstGap; from < size; from++) {
      const i = stack[from]
      if (i === NO_ID) continue
      if (from <= summed) below[(kept = to)] = below[from]
      stack[to] = i
      heights[to] = heights[from]
      placeOf[i] = to++
    }
    this.summed = kept
    this.size = this.firstGap = to
    this.gaps = 0
  }

  /** Paints what differs from the previous column; rows below the lowest change are copied. */
  private paintColumn(ids: Uint32Array, base: number, rows: number, window: Window, event: number): void {
    const { stack, heights, below, size } = this
    const { rest } = this.strips
    const onTop = rest ? rest.height[event + 1] : 0
    const perByte = rows / (window.y1 - window.y0)
    // Row r is covered from where its centre is: the first such row is ceil(offset - 0.5).
    const shift = -window.y0 * perByte - 0.5
    let k = this.summed
    let top = k ? below[k] : 0
    let row = 0
    if (k) {
      row = Math.min(Math.max(Math.ceil(top * perByte + shift), 0), rows)
      ids.copyWithin(base, base - rows, base - rows + row)
      if (this.topRow >= 0 && this.topRow < row) ids[base + this.topRow] = this.underTop
    }
    this.topRow = -1
    /** The bytes from which a strip covers the next row's centre. */
    let reach = (row - shift) / perByte - HAIR
    for (; k < size && top <= window.y1; k++) {
      below[k] = top
      top += heights[k]
      if (top < reach) continue
      const end = Math.ceil(top * perByte + shift)
      if (end <= row) continue
      const stop = Math.min(end, rows)
      if (stop - row > SHORT) ids.fill(stack[k] + 1, base + row, base + stop)
      else for (let r = row; r < stop; r++) ids[base + r] = stack[k] + 1
      row = stop
      // A hair less: the line above decides whether the row is covered.
      reach = (row - shift) / perByte - HAIR
    }
    below[k] = top
    this.summed = k
    if (top > window.y1) return // the column continues above the window
    let last = size - 1
    while (last >= 0 && stack[last] === NO_ID) last--
    let topmost = last < 0 ? NO_ID : stack[last]
    if (onTop > 0) {
      topmost = rest!.row
      top += onTop
      const end = Math.min(Math.ceil(top * perByte + shift), rows)
      if (end > row) ids.fill(topmost + 1, base + row, base + end)
    }
    const topRow = Math.ceil((top - window.y0) * perByte) - 1
    if (topmost === NO_ID || top <= window.y0 || topRow >= rows) return
    this.topRow = topRow
    this.underTop = ids[base + topRow]
    ids[base + topRow] = topmost + 1
  }
}

/** Adds EDGE in one column, to runs of at least EDGED_ROWS pixels of one strip: to the entire run where
 * the column before shows another strip at the run's middle, else to its top unless the window cuts it. */
function markEdges(ids: Uint32Array, base: number, rows: number): void {
  const end = base + rows
  for (let from = base; from < end;) {
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

/** Pixels of each group in a raster. `ofAllocation`: the group of each allocation. */
export function areasOf({ ids }: Pick<Raster, "ids">, ofAllocation: Ints, groups: number): Float64Array {
  const out = new Float64Array(groups)
  for (let k = 0; k < ids.length; k++) {
    const place = ids[k] & ID
    if (place) out[ofAllocation[place - 1]]++
  }
  return out
}
