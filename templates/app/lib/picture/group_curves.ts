/** The curves of the largest groups in a window, from a pass over births and deaths: no group has a history of its own. */

import type { Curve, Ints, Strips } from "../data/curves"
import { type Device, stripsOf } from "../data/device"
import { livesOf } from "../data/lives"
import { amountsLive } from "../data/questions"
import { oncePer } from "../data/known"
import { byEvent, firstPlace } from "../data/places"
import type { Scale } from "../data/scale"
import type { Window } from "./window"

/** One group, or all the others together. */
export interface GroupCurve {
  /** A row of the groups; -1 for the others. */
  group: number
  /** The most bytes in each column; NaN outside the recording. */
  columns: Float64Array
  /** The most of all columns. */
  most: number
}

/** The curves of the groups with the most bytes at any event of a window, the largest first, and that of `others` groups together. */
export function groupCurves(
  device: Device,
  curve: Curve,
  { ofAllocation, groups }: { ofAllocation: Ints; groups: { length: number } },
  scale: Scale,
  w: Window,
  width: number,
  most: number,
): { curves: GroupCurve[]; others: number } {
  const [first, end] = scale.eventsIn(w.x0, w.x1)
  if (end <= first) return { curves: [], others: 0 }
  const { bytes } = amountsLive(device, curve, first, ofAllocation, groups.length)
  const highest = bytes.slice()
  new Sweep(
    device,
    curve,
    ofAllocation,
    Int32Array.from(groups, (_, row) => row),
    first,
    bytes.slice(),
  ).to(end - 1, highest)
  const rows = [...highest.keys()].filter((row) => highest[row] > 0).sort((a, b) => highest[b] - highest[a] || a - b)
  const shown = rows.length > most ? rows.slice(0, most - 1) : rows
  const slotOf = new Int32Array(groups.length).fill(shown.length)
  shown.forEach((row, slot) => (slotOf[row] = slot))
  const curves = [...shown, ...(shown.length < rows.length ? [-1] : [])].map((group) => ({
    group,
    columns: new Float64Array(width).fill(NaN),
    most: 0,
  }))
  const column = new Float64Array(shown.length + 1)
  bytes.forEach((each, row) => (column[slotOf[row]] += each))
  const some = new Sweep(device, curve, ofAllocation, slotOf, first, column.slice())
  const perColumn = (w.x1 - w.x0) / width
  for (let x = 0; x < width; x++) {
    const [begin, to] = scale.eventsIn(w.x0 + x * perColumn, w.x0 + (x + 1) * perColumn)
    if (to <= begin) continue
    some.to(begin)
    column.set(some.now)
    some.to(to - 1, column)
    curves.forEach((each, slot) => {
      each.columns[x] = column[slot]
      each.most = Math.max(each.most, column[slot])
    })
  }
  return { curves, others: rows.length - shown.length }
}

/** Later than every event. */
const NEVER = 2 ** 31 - 1

/** Bytes of some slots, event after event. */
class Sweep {
  private readonly strips: Strips
  private readonly deaths: Int32Array
  private born: number
  private died: number

  /** `slotOf`: of each group; `now`: their bytes after event `at`, which it takes on from there. */
  constructor(
    device: Device,
    curve: Curve,
    private readonly ofAllocation: Ints,
    private readonly slotOf: Int32Array,
    private at: number,
    readonly now: Float64Array,
  ) {
    const { death, events } = (this.strips = stripsOf(device, curve))
    const deaths = (this.deaths = inOrderOfDeath(death, events))
    this.born = livesOf(device).bornBy(at)
    this.died = firstPlace(0, deaths.length, (k) => death[deaths[k]] > at)
  }

  /** Goes to an event; raises `highest` to the most after each one on the way. */
  to(event: number, highest: Float64Array | null = null): void {
    const { rest } = this.strips
    if (!rest) return this.merge(event, highest)
    const slot = this.slotOf[this.ofAllocation[rest.row]]
    for (let s = this.at + 1; s <= event; s++) {
      this.merge(s, highest)
      this.now[slot] += rest.height[s + 1] - rest.height[s]
      if (highest && this.now[slot] > highest[slot]) highest[slot] = this.now[slot]
    }
    this.at = Math.max(this.at, event)
  }

  private merge(event: number, highest: Float64Array | null): void {
    const { now, deaths, ofAllocation, slotOf } = this
    const { birth, death, height } = this.strips
    let { born, died } = this
    let next = born < birth.length ? birth[born] : NEVER
    let dying = deaths[died]
    let gone = died < deaths.length ? death[dying] : NEVER
    while (next <= event || gone <= event) {
      // At one event deaths go first: what is in between is then no maximum.
      if (gone <= next) {
        if (birth[dying] < gone) now[slotOf[ofAllocation[dying]]] -= height[dying] // else it was never live
        dying = deaths[++died]
        gone = died < deaths.length ? death[dying] : NEVER
      } else {
        if (death[born] > next) {
          const slot = slotOf[ofAllocation[born]]
          now[slot] += height[born]
          if (highest && now[slot] > highest[slot]) highest[slot] = now[slot]
        }
        born++
        next = born < birth.length ? birth[born] : NEVER
      }
    }
    Object.assign(this, { born, died })
  }
}

/** Allocations in the order of their deaths, sorted once for each column of these. */
const inOrderOfDeath = oncePer(byEvent)
