/** Allocations grouped by the source line that made them, in the order of the summary's sites. */

import type { Device, Stacks } from "./device"
import { type FrameText, siteText } from "./frames"
import { amountsLive } from "./lives"

export interface Site extends FrameText {
  /** Frame id, or -1 for allocations without frames. */
  frame: number
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
  const { count, missing, missingReasons, stack } = device
  const { stackSite } = stacks
  // Stacks and reasons, which are few, have an id each, which maps to a row.
  const reasons = missingReasons.length
  const ids = new Int32Array(count)
  const used = new Uint8Array(reasons + stackSite.length)
  for (let i = 0; i < count; i++) used[(ids[i] = missing[i] || reasons + stack[i])] = 1
  const rows = new Map<number, Site>()
  const keyOf = (id: number) => (id < reasons ? stacks.frameName.length + id : stackSite[id - reasons])
  const live = amountsLive(device, "allocated", peakEvent, ids, used.length)
  used.forEach((yes, id) => {
    if (!yes) return
    const key = keyOf(id)
    const row =
      rows.get(key) ?? (id < reasons ? withoutFrames(missingReasons[id]) : { frame: key, ...siteText(stacks, key), bytes: 0, count: 0 })
    rows.set(key, row)
    row.bytes += live.bytes[id]
    row.count += live.count[id]
  })
  const order = [...rows].sort(
    ([a, { bytes, count }], [b, other]) => other.bytes - bytes || Math.sign(other.count) - Math.sign(count) || a - b,
  )
  const rank = new Map(order.map(([key], place) => [key, place]))
  const rankOf = Int32Array.from(used, (yes, id) => (yes ? rank.get(keyOf(id))! : 0))
  for (let i = 0; i < count; i++) ids[i] = rankOf[ids[i]]
  return { rows: order.map(([, row]) => row), ofAllocation: ids }
}

function withoutFrames(reason: string): Site {
  return { frame: -1, name: reason, fullName: reason, place: "", file: "", line: null, path: "", code: "", bytes: 0, count: 0 }
}
