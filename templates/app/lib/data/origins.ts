/** Where allocations come from: their call stack, or the reason why they have none. */

import type { Device, Stacks } from "./device"
import { oncePer } from "./known"

export type Origins = ReturnType<typeof originsOf>

/** The origins of a device's allocations, computed once. */
export const originsOf = oncePer((device: Device, stacks: Stacks) => {
  const first = stacks.stackNode.length
  const length = first + device.missingReasons.length
  const seen = new Uint8Array(length)
  const ofAllocation = new Int32Array(device.count)
  for (let i = 0; i < device.count; i++) seen[(ofAllocation[i] = device.missing[i] ? first + device.missing[i] : device.stack[i])] = 1
  const used = Int32Array.from(seen.keys()).filter((origin) => seen[origin])
  return {
    /** Stack ids, followed by one id for each of `missingReasons`. */
    ofAllocation,
    /** The origins that occur, ascending. */
    used,
    /** Number of stacks: the first origin that is a reason. */
    stacks: first,
    /** Length of an array with an element for every origin. */
    length,
  }
})
