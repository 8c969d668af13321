/** What is live after a step, and the words for that moment. */

import type { Curve } from "./curves"
import { formatCount } from "./format"
import type { History } from "./history"

/** The amounts after a step, in bytes; null where no allocator is known. */
export interface Totals {
  allocated: number
  requested: number
  active: number
  reserved: number | null
  /** Active minus requested. */
  slack: number
  /** Reserved minus active; null also where segment events are missing, so that reserved is too low. */
  inactive: number | null
}

export function totalsAt(history: History, step: number): Totals {
  const [allocated, requested, active] = (["allocated", "requested", "active"] as const).map((curve) => history.at(curve, step))
  const reserved = history.hasReserved ? history.at("reserved", step) : null
  return {
    allocated, requested, active, reserved,
    slack: active - requested,
    inactive: reserved === null || reserved < active ? null : reserved - active,
  }
}

/** `at the peak (step 793)`, `at step 12`, `at the start`, `at the end (step 99)`. */
export function momentText(history: History, curve: Curve, step: number): string {
  if (!history.device.summary.recorded) return "when the snapshot was written"
  if (step === history.peakStep[curve]) return step < 0 ? "at the peak, which is the start" : `at the peak (step ${formatCount(step)})`
  if (step < 0) return "at the start"
  return step === history.device.events - 1 ? `at the end (step ${formatCount(step)})` : `at step ${formatCount(step)}`
}
