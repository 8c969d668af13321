/** Allocations grouped by the source line that made them, in the order of the summary's sites. */

import type { Device, Stacks } from "./device"
import { type Line, siteText, withoutFrame } from "./frames"
import { amountsLive } from "./questions"
import { originsOf } from "./origins"

export interface Site extends Line {
  /** Block bytes live at the allocated peak. */
  bytes: number
  count: number
}

/** Every call site of a device, most bytes at the peak first, and each allocation's row in it. */
export interface Sites {
  rows: Site[]
  ofAllocation: Int32Array
}

/** Groups allocations by the call site of their stack, or by the reason why they have none.
 *
 * Those live at the peak come first, in the order of `summary.sites`, so that row numbers are the same
 * there and here: by bytes, then by frame, with reasons after frames.
 */
export function groupBySite(device: Device, stacks: Stacks, peakEvent: number): Sites {
  const origins = originsOf(device, stacks)
  const frames = stacks.frameName.length
  /** A frame, or a reason after all frames. */
  const keyOf = (origin: number) => (origin < origins.stacks ? stacks.stackSite[origin] : frames + origin - origins.stacks)
  const live = amountsLive(device, "allocated", peakEvent, origins.ofAllocation, origins.length)
  const rows = new Map<number, Site>()
  for (const origin of origins.used) {
    const key = keyOf(origin)
    const text = () => (key < frames ? siteText(stacks, key) : withoutFrame(device.missingReasons[key - frames]))
    const row = rows.get(key) ?? { ...text(), bytes: 0, count: 0 }
    rows.set(key, row)
    row.bytes += live.bytes[origin]
    row.count += live.count[origin]
  }
  const order = [...rows].sort(
    ([a, { bytes, count }], [b, other]) => other.bytes - bytes || Math.sign(other.count) - Math.sign(count) || a - b,
  )
  const rank = new Map(order.map(([key], place) => [key, place]))
  const rankOf = new Int32Array(origins.length)
  for (const origin of origins.used) rankOf[origin] = rank.get(keyOf(origin))!
  const ofAllocation = new Int32Array(device.count)
  for (let i = 0; i < device.count; i++) ofAllocation[i] = rankOf[origins.ofAllocation[i]]
  return { rows: order.map(([, row]) => row), ofAllocation }
}
