/** Two recordings as one, for what is asked of both: as if NEW began where BASE ended. */

import { unitOf } from "../data/curves"
import type { Device, Stacks } from "../data/device"

/** The columns that both recordings share, in one; no allocation of one is live while one of the other is.
 *
 * So what changed between an event of BASE and one of NEW is what is live in NEW, less what is live in BASE. Only what this takes is there:
 * sizes, lives and call stacks. */
export function joined(base: Device, later: Device): Device {
  const begins = beginOf(base)
  const life = (name: "allocEvent" | "freeRequestedEvent" | "freeEvent") => concat(Int32Array, base[name], later[name], begins)
  const [requested, block, blockMax] = (["requested", "block", "blockMax"] as const).map((name) =>
    concat(Float64Array, base[name], later[name]),
  )
  const peak = (curve: "allocated" | "requested" | "active") => ({
    bytes: Math.max(base.summary.peaks[curve].bytes, later.summary.peaks[curve].bytes),
  })
  const peaks = { allocated: peak("allocated"), requested: peak("requested"), active: peak("active") }
  return {
    ...later,
    events: begins + later.events,
    count: base.count + later.count,
    summary: { ...later.summary, recorded: true, reserved_from: null, peaks, stages: [], ooms: [] },
    requested,
    block,
    blockMax,
    unit: { allocated: unitOf(peaks.allocated.bytes, block), requested: unitOf(peaks.requested.bytes, requested) },
    allocEvent: life("allocEvent"),
    freeRequestedEvent: life("freeRequestedEvent"),
    freeEvent: life("freeEvent"),
    stack: concat(Int32Array, base.stack, later.stack),
    missing: concat(Int32Array, base.missing, later.missing),
    timed: false,
    eventTime: new Float64Array(0),
    reservedEvent: new Int32Array(0),
    reservedBytes: new Float64Array(0),
    eventIndex: new Int32Array(0),
    rest: null,
    steps: null,
    replays: [],
    envelopes: [],
  }
}

/** What is added to an event of NEW; the one before is its start, by which all of BASE is freed. */
export function beginOf(base: Device): number {
  return base.events + 1
}

/** The call stacks with one frame for each place in the code that both recordings have. */
export function sameFrames(stacks: Stacks, same: Int32Array): Stacks {
  const of = (frame: number) => (frame < 0 ? frame : same[frame])
  return { ...stacks, nodeFrame: stacks.nodeFrame.map(of), stackSite: stacks.stackSite.map(of) }
}

type Column = Int32Array | Float64Array

/** One column after the other; `shift` is added to the second. */
function concat<T extends Column>(Type: new (length: number) => T, one: ArrayLike<number>, other: ArrayLike<number>, shift = 0): T {
  const out = new Type(one.length + other.length)
  for (let i = 0; i < one.length; i++) out[i] = one[i]
  for (let i = 0; i < other.length; i++) out[one.length + i] = other[i] + shift
  return out
}
