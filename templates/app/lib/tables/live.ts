/** Sums of what is live after an event, by call stack; `liveAt` in lives.ts lists it one by one. */

import type { Curve } from "../data/curves"
import type { Device, Stacks } from "../data/device"
import { type Amounts, amountsLive } from "../data/lives"

/** A number for each allocation that says where it came from: its stack, or why it has none. */
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
  for (let i = 0; i < device.count; i++) {
    const origin = device.missing[i] ? first + device.missing[i] : device.stack[i]
    ofAllocation[i] = origin
    seen[origin] = 1
  }
  const used: number[] = []
  for (let origin = 0; origin < length; origin++) if (seen[origin]) used.push(origin)
  const origins = { ofAllocation, used: Int32Array.from(used), stacks: first, length }
  known.set(device, origins)
  return origins
}

/** What is live after an event in one curve, by origin. */
export function sumLive(device: Device, { ofAllocation, length }: Origins, curve: Curve, event: number): Amounts {
  return amountsLive(device, curve, event, ofAllocation, length)
}

/** How many allocations came before each at its address; `version` in `device.ts` for all at once. */
export function versionsOf(device: Device): Int32Array {
  if (device.rest) return device.rest.versions
  const next = new Int32Array(device.addrValues.length)
  const versions = new Int32Array(device.count)
  for (let i = 0; i < device.count; i++) versions[i] = next[device.addr[i]]++
  return versions
}
