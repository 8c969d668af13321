/** Allocations grouped by the source line that made them, in the order of the summary's sites. */

import type { Device, Stacks } from "./device"
import { type FrameText, siteText } from "./frames"
import { restAt } from "./rest"

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
 * Those live at the peak come first and in the order of `summary.sites`, so a row there is the same
 * row here: by bytes, then by frame, with the reasons behind the frames.
 */
export function groupBySite(device: Device, stacks: Stacks, peakEvent: number): Sites {
  const frames = stacks.frameName.length
  const rowOf = new Int32Array(frames + device.missingReasons.length).fill(-1)
  const keys: number[] = []
  const rows: Site[] = []
  const found = new Int32Array(device.count)
  const { count, missing, stack, allocEvent, freeRequestedEvent, block } = device
  for (let i = 0; i < count; i++) {
    const reason = missing[i]
    const key = reason ? frames + reason : stacks.stackSite[stack[i]]
    let row = rowOf[key]
    if (row < 0) {
      row = rowOf[key] = keys.push(key) - 1
      rows.push(reason ? withoutFrames(device.missingReasons[reason]) : { frame: key, ...siteText(stacks, key), bytes: 0, count: 0 })
    }
    found[i] = row
    if (allocEvent[i] <= peakEvent && freeRequestedEvent[i] > peakEvent) {
      rows[row].bytes += block[i]
      rows[row].count++
    }
  }
  if (device.rest && peakEvent >= -1) {
    const at = rows[found[device.rest.row]]
    const rest = restAt(device.rest, "allocated", peakEvent)
    at.bytes += rest.bytes
    at.count += rest.count
  }
  const order = rows
    .map((_, row) => row)
    .sort((a, b) => rows[b].bytes - rows[a].bytes || Math.sign(rows[b].count) - Math.sign(rows[a].count) || keys[a] - keys[b])
  const rank = new Int32Array(rows.length)
  order.forEach((row, place) => (rank[row] = place))
  for (let i = 0; i < found.length; i++) found[i] = rank[found[i]]
  return { rows: order.map((row) => rows[row]), ofAllocation: found }
}

function withoutFrames(reason: string): Site {
  return { frame: -1, name: reason, fullName: reason, place: "", file: "", line: null, bytes: 0, count: 0 }
}
