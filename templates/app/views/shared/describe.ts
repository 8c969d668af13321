/** Words about one allocation, for the tooltip, the details and the screen reader, and the colour of its strip. */

import { formatBytes, formatDuration, formatEvent, plural } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import { cssColour, groupColours, type Rgb } from "../../lib/picture/colours"
import { isDark } from "../../lib/picture/theme"
import { groupBy } from "../../lib/tables/grouping"
import type { Store } from "../../store"
import { swatch } from "./dom"
import type { Site } from "../../lib/data/sites"
import { stagePath } from "../../lib/picture/bands"
import { lifetimeOf } from "../../lib/tables/live_table"
import { stageAt } from "../../lib/tables/stage_groups"

export function siteOf(history: History, allocation: number): Site {
  const { rows, ofAllocation } = history.sites
  return rows[ofAllocation[allocation]]
}

/** An event with its time after the first event. */
export function whenText(history: History, event: number): string {
  const time = history.timeOf(event)
  return time === null ? formatEvent(event) : `${formatEvent(event)}, ${formatDuration(time)}`
}

/** From when until when it lived, and how long, in events and time where known. */
export function lifeText(history: History, allocation: number) {
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

/** The stages in which an allocation was made, outermost first: `step \u203a forward`; "" outside of all. */
export function stageText({ device }: History, allocation: number): string {
  const { stages } = device.summary
  return stagePath(stages, stageAt(stages, device.allocEvent[allocation])).join(" \u203a ")
}

/** `2.00 MiB block, 1.13 MiB requested` when the two differ by more than can be seen. */
export function sizeText(history: History, allocation: number): string {
  const block = formatBytes(history.device.block[allocation])
  const requested = formatBytes(history.device.requested[allocation])
  return block === requested ? block : `${block} block, ${requested} requested`
}

export function stripColour({ history, state }: Store, allocation: number): Rgb {
  const grouping = groupBy(history, state.colouring)
  return groupColours(grouping, isDark())[grouping.ofAllocation[allocation]]
}

/** A strip's colour, where it is named. */
export function stripSwatch(store: Store, allocation: number): HTMLElement {
  return swatch(cssColour(stripColour(store, allocation)))
}
