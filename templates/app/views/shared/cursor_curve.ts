/** A small curve over the entire recording that is also a slider for the cursor. */

import type { Bytes } from "../../lib/data/curves"
import { outline } from "../../lib/picture/outline"
import type { Store } from "../../store"
import { h } from "./dom"

/** As many pieces as the curve has at most, however wide the screen is. */
const COLUMNS = 500

/** `now`: what to draw, the value at the top, and what to say of the cursor, asked for whenever `say` draws; values below 0 count as 0. */
export function cursorCurve(
  store: Store,
  label: string,
  now: () => { curve: Bytes; top: number; text: string },
): { element: HTMLElement; say: () => void } {
  const curve = h("i.curve")
  const cursor = h("i.cursor")
  const last = store.history.device.events - 1
  const page = Math.max(Math.round(last / 20), 1)
  const drag = ({ buttons, clientX }: PointerEvent) => {
    if (!(buttons & 1)) return
    const { left, width } = element.getBoundingClientRect()
    const [x0, x1] = store.scale.whole
    store.goTo(store.scale.eventAt(x0 + ((clientX - left) / width) * (x1 - x0)))
  }
  const element = h(
    "div.cursor-curve",
    {
      role: "slider",
      tabindex: 0,
      "aria-label": label,
      "aria-valuemin": -1,
      "aria-valuemax": last,
      pointerdown: (event: PointerEvent) => {
        element.setPointerCapture(event.pointerId)
        drag(event)
      },
      pointermove: drag,
      keydown: (event: KeyboardEvent) => {
        const by = {
          ArrowLeft: -1,
          ArrowDown: -1,
          ArrowRight: 1,
          ArrowUp: 1,
          PageUp: page,
          PageDown: -page,
          Home: -Infinity,
          End: Infinity,
        }[event.key]
        if (!by || event.ctrlKey || event.metaKey || event.altKey) return
        event.preventDefault()
        event.stopPropagation()
        store.goTo(store.state.cursor + by)
      },
    },
    curve,
    cursor,
  )
  const say = () => {
    const { scale, whole, state } = store
    const [x0, x1] = scale.whole
    const drawn = now()
    const pieces = outline(drawn.curve, scale, whole, COLUMNS)
    const points: string[] = []
    for (let k = 0; k < pieces.length; k += 3) {
      const y = 100 - (100 * Math.max(pieces[k + 2], 0)) / drawn.top
      for (const x of [pieces[k], pieces[k + 1]]) points.push(`${(100 * x) / COLUMNS}% ${y}%`)
    }
    curve.style.clipPath = `polygon(0 100%, ${points}, 100% 100%)`
    cursor.style.left = `${(100 * ((scale.xOf(state.cursor) + scale.endOf(state.cursor)) / 2 - x0)) / (x1 - x0)}%`
    element.setAttribute("aria-valuenow", String(state.cursor))
    element.setAttribute("aria-valuetext", drawn.text)
  }
  return { element, say }
}
