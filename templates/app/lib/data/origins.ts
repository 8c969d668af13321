/** Where allocations come from: their call stack, or the reason why they have none. */

import type { Device, Stacks } from "./device"

/** A number for each allocation that says where it came from. */
export interface Origins {
  /** Stack ids, followed by one id for each of `missingReasons`. */
  ofAllocation: Int32Array
  /** The origins that occur, ascending. */
  used: Int32Array
  /** Number of stacks: the first origin that is a reason. */
  stacks: number
  /** Length of an array with an element for every origin. */
  length: number
}

const known = new WeakMap<Device, Origins>()

/** The origins of a device's allocations, computed once. */
export function originsOf(device: Device, stacks: Stacks): Origins {
  const before = known.get(device)
  if (before) return before
  const first = stacks.stackNode.length
  const length = first + device.missingReasons.length
  const seen = new Uint8Array(length)
  const ofAllocation = new Int32Array(device.count)
  for (let i = 0; i < device.count; i++) seen[(ofAllocation[i] = device.missing[i] ? first + device.missing[i] : device.stack[i])] = 1
  const used = Int32Array.from(seen.keys()).filter((origin) => seen[origin])
  const origins = { ofAllocation, used, stacks: first, length }
  known.set(device, origins)
  return origins
}
