/** What is live after an event, and the words for that moment. */

import type { Curve } from "./curves"
import { formatCount, formatEvent } from "../text/format"
import type { History } from "./history"
import { restAt } from "./rest"

/** The amounts after an event, in bytes; null where they are not known: no allocator, or missing segment events. */
export interface Totals {
  allocated: number
  requested: number
  active: number
  reserved: number | null
  /** Active minus requested. */
  slack: number
  /** Reserved minus active. */
  inactive: number | null
}

export function totalsAt(history: History, event: number): Totals {
  const [allocated, requested, active] = (["allocated", "requested", "active"] as const).map((curve) => history.at(curve, event))
  const { reserved_from } = history.device.summary
  const reserved = reserved_from === null || event < reserved_from ? null : history.at("reserved", event)
  return { allocated, requested, active, reserved, slack: active - requested, inactive: reserved === null ? null : reserved - active }
}

/** `at the peak (event 793)`, `at event 12`, `at the start`, `at the end (event 99)`.
 *
 * The peak is that of all allocations; of a part of them it is named so. */
export function momentText(history: History, curve: Curve, event: number): string {
  if (!history.device.summary.recorded) return "when the snapshot was written"
  if (event === history.all.peakEvent[curve])
    return event < 0 ? "at the peak, which is the start" : `at the peak (event ${formatCount(event)})`
  if (event === history.peakEvent[curve] && event >= 0) return `at the peak of what is shown (event ${formatCount(event)})`
  if (event < 0) return "at the start"
  return event === history.device.events - 1 ? `at the end (event ${formatCount(event)})` : `at event ${formatCount(event)}`
}

/** The title for the groups of a moment: `Held the peak`, `Live at event 72`. */
export function momentTitle(history: History, curve: Curve, event: number): string {
  const drawn = restAt(history.device.rest, curve, event).bytes ? ", as far as drawn" : ""
  if (event === history.peakEvent[curve]) return `Held the peak${drawn}`
  return `Live at ${event < 0 ? "the start" : formatEvent(event)}${drawn}`
}
