/** Events other than allocations, gathered by pixel for the rug under the timeline. */

import type { Device } from "../data/device"
import { formatBytes, formatCount, formatEvent, plural } from "../text/format"
import { firstPlace } from "../data/places"
import type { Scale } from "../data/scale"
import type { Window } from "./window"

/** What a mark stands for, the most important of its events first. */
export type MarkKind = "oom" | "snapshot" | "grow" | "shrink" | "other"
const ORDER: readonly MarkKind[] = ["oom", "snapshot", "grow", "shrink", "other"]

const KINDS: Record<string, MarkKind> = {
  oom: "oom",
  snapshot: "snapshot",
  segment_alloc: "grow",
  segment_map: "grow",
  segment_free: "shrink",
  segment_unmap: "shrink",
}

/** All events that fall on one pixel. */
export interface Mark {
  /** Pixels from the plot's left edge. */
  pixel: number
  kind: MarkKind
  /** Rows of the device's events, as [first, end). */
  first: number
  end: number
}

/** The marks of a window, at most one per pixel, from left to right. */
export function marksIn(device: Device, scale: Scale, w: Window, width: number): Mark[] {
  const { eventIndex, eventAction, actions } = device
  const kinds = actions.map((action) => ORDER.indexOf(KINDS[action] ?? "other"))
  const perUnit = width / (w.x1 - w.x0)
  const [firstEvent, endEvent] = scale.eventsIn(w.x0, w.x1)
  const end = firstPlace(0, eventIndex.length, (k) => eventIndex[k] >= endEvent)
  const marks: Mark[] = []
  let last: Mark | undefined
  for (let k = firstPlace(0, end, (row) => eventIndex[row] >= firstEvent); k < end; k++) {
    const pixel = Math.floor((scale.xOf(eventIndex[k]) - w.x0) * perUnit)
    const kind = kinds[eventAction[k]]
    if (last?.pixel !== pixel) {
      last = { pixel, kind: ORDER[kind], first: k, end: k + 1 }
      if (pixel >= 0 && pixel < width) marks.push(last)
    }
    last.end = k + 1
    if (kind < ORDER.indexOf(last.kind)) last.kind = ORDER[kind]
  }
  return marks
}

/** One line for each action of a mark: `3 segment_alloc, 60.00 MiB`; the first says when. */
export function markLines(device: Device, mark: Mark): string[] {
  const { eventIndex, eventAction, eventSize, actions } = device
  const [from, to] = [eventIndex[mark.first], eventIndex[mark.end - 1]]
  const lines = [
    from === to ? formatEvent(from) : `${plural(mark.end - mark.first, "event")} from ${formatCount(from)} to ${formatCount(to)}`,
  ]
  const sums = new Map<number, { count: number; bytes: number }>()
  for (let k = mark.first; k < mark.end; k++) {
    const sum = sums.get(eventAction[k]) ?? { count: 0, bytes: 0 }
    sums.set(eventAction[k], { count: sum.count + 1, bytes: sum.bytes + eventSize[k] })
  }
  for (const [action, { count, bytes }] of sums) {
    lines.push(`${count > 1 ? `${formatCount(count)} ` : ""}${actions[action]}${bytes > 0 ? `, ${formatBytes(bytes)}` : ""}`)
  }
  return lines
}
