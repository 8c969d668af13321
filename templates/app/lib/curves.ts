/** The curves over the steps, and the largest value in any range of them. */

import type { Device } from "./device"

/** Which strips are stacked: blocks until free_requested, or requested bytes until free_completed. */
export type Curve = "allocated" | "requested"

/** What a stacked picture needs of each allocation, in birth order. */
export interface Strips {
  /** Number of trace events; steps run from -1 to events - 1. */
  events: number
  birth: Int32Array
  death: Int32Array
  height: Float64Array
}

/** The strips of one curve. */
export function stripsOf(device: Device, curve: Curve): Strips {
  return curve === "allocated"
    ? { events: device.events, birth: device.allocStep, death: device.freeRequestedStep, height: device.block }
    : { events: device.events, birth: device.allocStep, death: device.freeStep, height: device.requested }
}

/** The strips without some of them: those are never live, and the others keep their ids.
 *
 * `hidden`: 1 for each allocation that is left out. */
export function without(strips: Strips, hidden: Uint8Array): Strips {
  return { ...strips, death: strips.death.map((death, i) => (hidden[i] ? Math.min(strips.birth[i], death) : death)) }
}

/** Bytes live after each step; element s + 1 belongs to step s, so element 0 is the start. */
export function totals(strips: Strips): Float64Array {
  const out = new Float64Array(strips.events + 1)
  for (let i = 0; i < strips.birth.length; i++) {
    if (strips.death[i] <= strips.birth[i]) continue
    out[strips.birth[i] + 1] += strips.height[i]
    if (strips.death[i] < strips.events) out[strips.death[i] + 1] -= strips.height[i]
  }
  for (let s = 1; s < out.length; s++) out[s] += out[s - 1]
  return out
}

/** A value given at its changes, spread over every step (element s + 1 for step s). */
export function spread(events: number, steps: Int32Array, values: Float64Array): Float64Array {
  const out = new Float64Array(events + 1)
  for (let k = 0; k < steps.length; k++) {
    out.fill(values[k], steps[k] + 1, k + 1 < steps.length ? steps[k + 1] + 1 : out.length)
  }
  return out
}

const BLOCK = 128

/** Finds the first maximum of any range quickly, so that a curve is drawn at a cost of its pixels. */
export class Extremes {
  private readonly blockMax: Int32Array

  constructor(readonly values: Float64Array) {
    this.blockMax = new Int32Array(Math.ceil(values.length / BLOCK))
    for (let b = 0; b < this.blockMax.length; b++) {
      this.blockMax[b] = this.scan(b * BLOCK, Math.min((b + 1) * BLOCK, values.length))
    }
  }

  /** Position of the first maximum in [from, to); the range must not be empty. */
  firstMax(from: number, to: number): number {
    const firstBlock = Math.ceil(from / BLOCK)
    const lastBlock = Math.floor(to / BLOCK)
    if (lastBlock <= firstBlock) return this.scan(from, to)
    let best = from
    if (from < firstBlock * BLOCK) best = this.scan(from, firstBlock * BLOCK)
    for (let b = firstBlock; b < lastBlock; b++) {
      if (this.values[this.blockMax[b]] > this.values[best]) best = this.blockMax[b]
    }
    if (lastBlock * BLOCK < to) {
      const tail = this.scan(lastBlock * BLOCK, to)
      if (this.values[tail] > this.values[best]) best = tail
    }
    return best
  }

  private scan(from: number, to: number): number {
    let best = from
    for (let i = from + 1; i < to; i++) if (this.values[i] > this.values[best]) best = i
    return best
  }
}
