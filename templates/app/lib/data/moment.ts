/** What is live after an event, and the words for that moment. */

import type { Curve } from "./curves"
import { formatCount } from "../text/format"
import type { History } from "./history"
import { answerText, type Question } from "./questions"

/** The amounts after an event, in bytes; null where they are not known: no allocator, or missing segment events. */
export function totalsAt(history: History, event: number) {
  const [allocated, requested, active] = (["allocated", "requested", "active"] as const).map((curve) => history.at(curve, event))
  const { reserved_from } = history.device.summary
  const reserved = reserved_from === null || event < reserved_from ? null : history.at("reserved", event)
  return {
    allocated,
    requested,
    active,
    reserved,
    slack: active - requested,
    /** Reserved minus active. */
    inactive: reserved === null ? null : reserved - active,
  }
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

/** The title for the groups of an answer: `Held the peak`, `Live at event 72`, `Made between events 3 and 9`. */
export function momentTitle(history: History, question: Question): string {
  const { kind, curve, at } = question
  if (kind === "live" && at === history.all.peakEvent[curve]) return "Held the peak"
  const text = answerText(question)
  return `${text[0].toUpperCase()}${text.slice(1)}`
}
