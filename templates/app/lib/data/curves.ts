/** The curves over the events, and the largest value in any range of them. */

import type { Device } from "./device"

/** Whole numbers in the narrowest array that holds them: a long recording has millions of each. */
export type Ints = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array

/** Numbers up to 2^53, or below 2^32 and not negative. */
export type Numbers = Float64Array | Uint32Array

/** Which strips are stacked: blocks until free_requested, or requested bytes until free_completed. */
export type Curve = "allocated" | "requested"

/** What a stacked picture needs of each allocation, in birth order. */
export interface Strips {
  /** Number of trace events; events run from -1 to events - 1. */
  events: number
  birth: Int32Array
  death: Int32Array
  height: Float64Array
  /** A row on top of all others, and its height after each event; element s + 1 belongs to event s. */
  rest?: { row: number; height: Float64Array }
}

/** The strips of one curve. */
export function stripsOf(device: Device, curve: Curve): Strips {
  const rest = device.rest ? { row: device.rest.row, height: device.rest[curve] } : undefined
  return curve === "allocated"
    ? { events: device.events, birth: device.allocEvent, death: device.freeRequestedEvent, height: device.block, rest }
    : { events: device.events, birth: device.allocEvent, death: device.freeEvent, height: device.requested, rest }
}

/** Block bytes until free_completed: what the active curve adds up. */
export function activeStrips(device: Device): Strips {
  const strips = { ...stripsOf(device, "requested"), height: device.block }
  return device.rest ? { ...strips, rest: { row: device.rest.row, height: device.rest.active } } : strips
}

/** The strips without some of them: those are never live, and the others keep their ids.
 *
 * `hidden`: 1 for each allocation that is left out. */
export function without(strips: Strips, hidden: Uint8Array): Strips {
  const rest = strips.rest && hidden[strips.rest.row] ? undefined : strips.rest
  const death = strips.death.slice()
  for (let i = 0; i < death.length; i++) if (hidden[i] && strips.birth[i] < death[i]) death[i] = strips.birth[i]
  return { ...strips, rest, death }
}

/** Bytes live after each event; element s + 1 belongs to event s, so element 0 is the start. */
export function totals(strips: Strips): Float64Array {
  const { birth, death, height, events, rest } = strips
  const out = new Float64Array(events + 1)
  for (let i = 0; i < birth.length; i++) {
    if (death[i] <= birth[i]) continue
    out[birth[i] + 1] += height[i]
    if (death[i] < events) out[death[i] + 1] -= height[i]
  }
  for (let s = 1, sum = out[0]; s < out.length; s++) out[s] = sum += out[s]
  if (rest) for (let s = 0; s < out.length; s++) out[s] += rest.height[s]
  return out
}

/** The totals of strips, as a curve. */
export function curveOf(strips: Strips): Extremes {
  return new Extremes(totals(strips), unitOf(strips.height, strips.rest?.height))
}

/** The largest power of two, up to 2^31, that divides every one of some numbers. */
function unitOf(...columns: (Float64Array | undefined)[]): number {
  let bits = 2 ** 31 // as a signed number: only its bits count
  for (const numbers of columns) {
    for (let i = 0; numbers && i < numbers.length; i++) bits |= numbers[i] // of large ones the lowest 32 bits
  }
  return (bits & -bits) >>> 0
}

/** A number of bytes for each event; place s + 1 belongs to event s. */
export interface Bytes {
  readonly length: number
  at(place: number): number
  /** Place of the first maximum in [from, to); the range must not be empty. */
  firstMax(from: number, to: number): number
}

const BLOCK = 128

/** Finds the first maximum of any range quickly, so that a curve is drawn at a cost of its pixels. */
export class Extremes implements Bytes {
  private readonly values: Numbers
  private readonly unit: number
  private readonly blockMax: Int32Array

  /** `unit`: divides every value. Kept in such units, most curves take half the memory. */
  constructor(values: Float64Array, unit = 0) {
    const { length } = values
    const blockMax = new Int32Array(Math.ceil(length / BLOCK))
    let most = 0
    for (let b = 0, k = 0; b < blockMax.length; b++) {
      let best = k
      for (const end = Math.min(k + BLOCK, length); k < end; k++) if (values[k] > values[best]) best = k
      blockMax[b] = best
      if (values[best] > most) most = values[best]
    }
    this.blockMax = blockMax
    const narrow = unit > 0 && most / unit < 2 ** 32
    this.unit = narrow ? unit : 1
    this.values = narrow ? new Uint32Array(length) : values
    if (narrow) for (let k = 0, { values: units } = this, perUnit = 1 / unit; k < length; k++) units[k] = values[k] * perUnit // a power of two
  }

  get length(): number {
    return this.values.length
  }

  at(place: number): number {
    return this.values[place] * this.unit
  }

  firstMax(from: number, to: number): number {
    const { values, blockMax } = this
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

/** A value given at its changes, which are few: it holds from one to the next. */
export class Changes implements Bytes {
  private readonly extremes: Extremes

  /** `events`: ascending, the first is -1; without any the value is 0 throughout. `length`: of the curve, one more than its events. */
  constructor(
    private readonly events: Int32Array,
    private readonly bytes: Float64Array,
    readonly length: number,
  ) {
    this.extremes = new Extremes(bytes)
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
    let low = 0
    let high = this.events.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.events[middle] < place) low = middle
      else high = middle - 1
    }
    return low
  }
}
