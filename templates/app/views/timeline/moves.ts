/** Moves to some events, or to the peak. */

import type { Store } from "../../store"

/** Shows the events from one to before another with a little on each side. */
export function zoomToEvents(store: Store, start: number, end: number): void {
  const { scale, whole } = store
  const [from, to] = [scale.xOf(start), scale.xOf(Math.max(end, start))]
  const margin = Math.max((to - from) * 0.04, 2)
  store.set({ window: { ...whole, x0: from - margin, x1: to + margin } })
}

/** Brings the cursor to the peak, and the peak to the middle, at a tenth of the recording or closer. */
export function showPeak(store: Store): void {
  const { whole, counted, state, scale } = store
  const cursor = counted.peakEvent[state.curve]
  const w = state.window
  const half = Math.min(w.x1 - w.x0, (whole.x1 - whole.x0) / 10) / 2
  const middle = (scale.xOf(cursor) + scale.endOf(cursor)) / 2
  const peak = counted.at(state.curve, cursor)
  const { y0, y1 } = peak > w.y0 && peak < w.y1 ? w : whole
  store.set({ cursor, window: { y0, y1, x0: middle - half, x1: middle + half } })
}
