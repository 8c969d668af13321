/** A curve as a line through the maximum of each pixel column. */

import type { Bytes } from "../data/curves"
import type { Scale } from "../data/scale"
import type { Window } from "./window"

/** Horizontal pieces of a line, three numbers each: from x, to x (in pixels from the left), value. */
export type Outline = Float64Array

/** The curve over a window: event by event if there is room, else the maximum of each pixel column. Before the event `known` there is none. */
export function outline(curve: Bytes, scale: Scale, w: Window, width: number, known = -1): Outline {
  const [low, end] = scale.eventsIn(w.x0, w.x1)
  const first = Math.max(low, known)
  const perUnit = width / (w.x1 - w.x0)
  const at = (x: number) => Math.min(Math.max((x - w.x0) * perUnit, 0), width)
  if (end - first <= width) {
    const out = new Float64Array(Math.max(end - first, 0) * 3)
    for (let event = first, k = 0; event < end; event++) {
      out[k++] = at(scale.xOf(event))
      out[k++] = at(scale.endOf(event))
      out[k++] = curve.at(event + 1)
    }
    return out
  }
  const out = new Float64Array(Math.ceil(width) * 3)
  let k = 0
  for (let x = 0; x < width; x++) {
    const [begin, to] = scale.eventsIn(w.x0 + x / perUnit, w.x0 + (x + 1) / perUnit)
    const from = Math.max(begin, known)
    if (to <= from) continue
    out[k++] = x
    out[k++] = Math.min(x + 1, width)
    out[k++] = curve.at(curve.firstMax(from + 1, to + 1))
  }
  return out.slice(0, k)
}
