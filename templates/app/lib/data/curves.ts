/** The curves over the events, and the maximum in any range of them. */

import { firstPlace } from "./places"

/** Integers in the narrowest array that holds them: a long recording has millions of each. */
export type Ints = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array

/** Numbers up to 2^53, or below 2^32 and not negative. */
export type Numbers = Float64Array | Uint32Array

/** Which strips are stacked: blocks until free_requested, or requested bytes until free_completed. */
export type Curve = "allocated" | "requested"

/** What a stacked picture needs to know about each allocation, in birth order. */
export interface Strips {
  /** Number of trace events; events run from -1 to events - 1. */
  events: number
  birth: Int32Array
  death: Int32Array
  height: Float64Array
  /** The topmost row, and its height after each event; element s + 1 belongs to event s. */
  rest?: { row: number; height: Float64Array }
  /** A power of two that divides every height, with totals below 2^31 of it; 0 if there is none. */
  unit?: number
}

/** The strips with some left out: these are never live, and the others keep their ids.
 *
 * `hidden`: 1 for each allocation that is left out. */
export function without(strips: Strips, hidden: Uint8Array): Strips {
  const rest = strips.rest && hidden[strips.rest.row] ? undefined : strips.rest
  const death = strips.death.slice()
  for (let i = 0; i < death.length; i++) if (hidden[i] && strips.birth[i] < death[i]) death[i] = strips.birth[i]
  return { ...strips, rest, death }
}

/** Bytes live after each event; element s + 1 belongs to event s, so element 0 is the start. */
export function curveOf({ events, birth, death, height, rest, unit = 0 }: Strips): Extremes {
  const changes = unit ? new Int32Array(events + 1) : new Float64Array(events + 1)
  const perUnit = 1 / (unit || 1) // a power of two
  for (let i = 0; i < birth.length; i++) {
    if (death[i] <= birth[i]) continue
    changes[birth[i] + 1] += height[i] * perUnit
    if (death[i] < events) changes[death[i] + 1] -= height[i] * perUnit
  }
  for (let s = 0, before = 0; rest && s <= events; before = rest.height[s++]) changes[s] += (rest.height[s] - before) * perUnit
  return new Extremes(changes, unit || 1, true)
}

/** The largest power of two, up to 2^31, that divides all of some numbers; 0 if `most` is 2^31 of it or more. */
export function unitOf(most: number, ...columns: (Float64Array | undefined)[]): number {
  let bits = 2 ** 31 // as a signed number: only its bits count
  for (const numbers of columns) {
    for (let i = 0; numbers && i < numbers.length; i++) bits |= numbers[i] // of large ones the lowest 32 bits
  }
  const unit = (bits & -bits) >>> 0
  return most / unit < 2 ** 31 ? unit : 0
}

/** A number of bytes for each event; element s + 1 belongs to event s. */
export interface Bytes {
  readonly length: number
  at(place: number): number
  /** Place of the first maximum in [from, to); the range must not be empty. */
  firstMax(from: number, to: number): number
}

const BLOCK = 64

/** Finds the first maximum of any range quickly, so that drawing a curve costs as much as its pixels. */
export class Extremes implements Bytes {
  private readonly blockMax: Int32Array
  /** Place of the curve's first maximum. */
  private readonly peak: number

  /** `values`: in units; `differences`: to be added up, in place. One loop does everything: compiling a loop takes longer than running it. */
  constructor(
    private readonly values: Float64Array | Int32Array,
    private readonly unit = 1,
    differences = false,
  ) {
    const blockMax = new Int32Array(Math.ceil(values.length / BLOCK))
    let peak = 0
    for (let b = 0, k = 0, value = 0; b < blockMax.length; b++) {
      let best = k
      for (const end = Math.min(k + BLOCK, values.length); k < end; k++) {
        values[k] = value = differences ? value + values[k] : values[k]
        if (value > values[best]) best = k
      }
      blockMax[b] = best
      if (values[best] > values[peak]) peak = best
    }
    this.blockMax = blockMax
    this.peak = peak
  }

  get length(): number {
    return this.values.length
  }

  at(place: number): number {
    return this.values[place] * this.unit
  }

  firstMax(from: number, to: number): number {
    const { values, blockMax, peak } = this
    if (from <= peak && peak < to) return peak
    const firstBlock = Math.ceil(from / BLOCK)
    const lastBlock = Math.floor(to / BLOCK)
    if (lastBlock <= firstBlock) return this.scan(from, to)
    let best = from
    if (from < firstBlock * BLOCK) best = this.scan(from, firstBlock * BLOCK)
    for (let b = firstBlock; b < lastBlock; b++) if (values[blockMax[b]] > values[best]) best = blockMax[b]
    if (lastBlock * BLOCK < to) {
      const tail = this.scan(lastBlock * BLOCK, to)
      if (values[tail] > values[best]) best = tail
    }
    return best
  }

  private scan(from: number, to: number): number {
    const { values } = this
    let best = from
    for (let i = from + 1; i < to; i++) if (values[i] > values[best]) best = i
    return best
  }
}

/** A value given by its few changes; it is constant between them. */
export class Changes implements Bytes {
  private readonly extremes: Extremes

  /** `events`: ascending, from -1; if empty, the value is always 0. `length`: of the curve, one more than its events. */
  constructor(
    private readonly events: Int32Array,
    private readonly bytes: Float64Array,
    readonly length: number,
  ) {
    // The usual type of curves: code that meets two types of arrays is slower, and is compiled twice.
    let most = 0
    for (const each of bytes) if (each > most) most = each
    const unit = unitOf(most, bytes)
    const values = unit ? new Int32Array(bytes.length) : bytes
    for (let k = 0; unit && k < values.length; k++) values[k] = bytes[k] / unit // `from` with a function takes 20 times as long
    this.extremes = new Extremes(values, unit || 1)
  }

  at(place: number): number {
    return this.events.length ? this.bytes[this.changeBy(place)] : 0
  }

  firstMax(from: number, to: number): number {
    if (!this.events.length) return from
    const best = this.extremes.firstMax(this.changeBy(from), this.changeBy(to - 1) + 1)
    return Math.max(from, this.events[best] + 1)
  }

  /** The last change at or before a place. */
  private changeBy(place: number): number {
    return firstPlace(1, this.events.length, (change) => this.events[change] >= place) - 1
  }
}
