/** A small curve at the top of a page that scrolls, while its timeline is above what is in sight: where the cursor is, and the total there. */

import { momentText } from "../../lib/data/moment"
import { formatBytes } from "../../lib/text/format"
import type { Store } from "../../store"
import { cursorCurve } from "../shared/cursor_curve"
import { h } from "../shared/dom"

/** `timeline`: the element whose place it takes. */
export function curveStrip(store: Store, timeline: Element): HTMLElement {
  const total = h("b")
  const { element, say } = cursorCurve(store, "Cursor", () => {
    const { counted, whole, state } = store
    const text = `${formatBytes(counted.at(state.curve, state.cursor))} ${momentText(counted, state.curve, state.cursor)}`
    total.textContent = text
    return { curve: counted.curves[state.curve], top: whole.y1, text }
  })
  element.classList.add("curve-strip")
  element.append(total)
  element.hidden = true
  store.watch(["cursor", "curve", "axis", "filters"], () => element.hidden || say())
  new IntersectionObserver(([{ isIntersecting, boundingClientRect }]) => {
    element.hidden = isIntersecting || boundingClientRect.bottom > 0 || !boundingClientRect.height
    if (!element.hidden) say()
  }).observe(timeline)
  return element
}
