/** Words about one allocation, for the tooltip, the details and the screen reader. */

import { formatBytes, formatDuration, formatEvent, plural } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import type { Site } from "../../lib/data/sites"
import { lifetimeOf } from "../../lib/tables/live_table"

export interface LifeText {
  from: string
  until: string
  /** How long it lived, in events and time where known. */
  length: string
}

export function siteOf(history: History, allocation: number): Site {
  const { rows, ofAllocation } = history.sites
  return rows[ofAllocation[allocation]]
}

/** An event with its time after the first event. */
export function whenText(history: History, event: number): string {
  const time = history.timeOf(event)
  return time === null ? formatEvent(event) : `${formatEvent(event)}, ${formatDuration(time)}`
}

export function lifeText(history: History, allocation: number): LifeText {
  const { device } = history
  const birth = device.allocEvent[allocation]
  const death = device.freeEvent[allocation]
  const from = birth < 0 ? "before the recording" : whenText(history, birth)
  const until = death >= device.events ? "still live at the end" : whenText(history, death)
  const events = plural(lifetimeOf(device, allocation), "event")
  const [start, end] = [history.timeOf(birth), history.timeOf(death)]
  const time = start !== null && end !== null ? `, ${formatDuration(end - start)}` : ""
  const open = birth < 0 || death >= device.events ? "at least " : ""
  return { from, until, length: `${open}${events}${time}` }
}

/** `2.00 MiB block, 1.13 MiB requested` when the two differ by more than can be seen. */
export function sizeText(history: History, allocation: number): string {
  const block = formatBytes(history.device.block[allocation])
  const requested = formatBytes(history.device.requested[allocation])
  return block === requested ? block : `${block} block, ${requested} requested`
}
