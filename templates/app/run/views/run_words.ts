/** Words for a row and for a moment on the page of a run. */

import { clockText } from "../../lib/picture/ticks"
import { formatBytes, formatCount, formatDuration, formatShare } from "../../lib/text/format"
import type { OddRank } from "../data/run_data"
import type { Quantity, RunAxis, RunData } from "../data/run_data"

/** A span of the axis: `1.20 s to 1.24 s`, `events 512 to 1,023`, `step 3`. `from` and `to` are places, `origin` where it begins. */
export function spanText(axis: RunAxis, from: number, to: number, origin: number): string {
  if (axis === "time") {
    const [start, end] = [sinceStart(from - origin), sinceStart(to - origin)]
    return start === end ? `at ${start}` : `${start} to ${end}`
  }
  return to - from <= 1 ? `${axis} ${formatCount(from)}` : `${axis}s ${formatCount(from)} to ${formatCount(to - 1)}`
}

/** `4 min 07 s`; from an hour on `31:05:30`. */
function sinceStart(us: number): string {
  return us < 3600e6 ? formatDuration(us) : clockText(Math.floor(us / 1e6) * 1e6)
}

/** A value of the map: bytes, or a part of the capacity. */
export function valueText(quantity: Quantity, value: number): string {
  return quantity === "share" ? formatShare(value, 1) : formatBytes(value)
}

/** `rank 17 · node002 · pipeline stage 1` */
export function whereText(data: RunData, row: number): string {
  return [data.host[row], data.place[row], data.groups[data.group[row]] ?? ""].filter(Boolean).join(" \u00b7 ")
}

/** The time of day, in UTC, to the millisecond. */
export function timeOfDay(us: number): string {
  return `${new Date(us / 1000).toISOString().replace("T", " ").slice(0, 23)} UTC`
}

export function amountText(bytes: number, [size, count]: [number, number]): string {
  return size && count ? `${formatBytes(bytes)} (${formatCount(count)} \u00d7 ${formatBytes(size)})` : formatBytes(bytes)
}

/** The style sheet's colour for an odd rank. */
export function oddColour(odd: OddRank): "danger" | "caution" {
  return odd.code === "failed" ? "danger" : "caution"
}
