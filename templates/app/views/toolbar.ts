/** The row of controls over the timeline. */

import type { Curve } from "../lib/curves"
import { formatCount } from "../lib/format"
import { zoomed } from "../lib/window"
import type { Store } from "../store"
import { h } from "./dom"

let made = 0

export function toolbar(store: Store, actions: { showPeak: () => void; showHelp: () => void }): HTMLElement {
  const group = `curve-${made++}`
  const choice = (curve: Curve, label: string, title: string) =>
    h("label", { title },
      h("input", { type: "radio", name: group, value: curve, checked: store.state.curve === curve, change: () => store.set({ curve }) }),
      h("span", {}, label))
  const button = (label: string, title: string, click: () => void) =>
    h("button", { type: "button", title, "aria-label": title, click }, label)
  const zoom = (factor: number) => store.set({ window: zoomed(store.state.window, 0.5, 0.5, factor, factor) })
  const range = h("output", { class: "range", "aria-label": "Steps shown" })
  const other = h("li", { class: "key-other" })
  const say = () => {
    other.textContent = store.state.curve === "allocated" ? "requested" : "allocated"
    const { window } = store.state
    const last = Math.min(Math.ceil(window.x1), store.history.device.events) - 1
    range.textContent = `steps ${formatCount(Math.max(Math.floor(window.x0), 0))} to ${formatCount(Math.max(last, 0))}`
  }
  store.on((state, before) => (state.window !== before.window || state.curve !== before.curve) && say())
  say()
  return h("div", { class: "toolbar", role: "toolbar", "aria-label": "Timeline" },
    h("fieldset", { class: "segmented" },
      h("legend", { class: "hidden" }, "Height of a strip"),
      choice("allocated", "Allocated", "Heights are block bytes, until free_requested: torch.cuda.memory_allocated()"),
      choice("requested", "Requested", "Heights are requested bytes, until free_completed")),
    h("ul", { class: "keys", "aria-label": "Lines" }, store.history.hasReserved && h("li", { class: "key-reserved" }, "reserved"), other),
    range,
    h("div", { class: "buttons" },
      button("\u2212", "Zoom out (\u2212)", () => zoom(1 / 0.7)),
      button("+", "Zoom in (+)", () => zoom(0.7)),
      button("Peak", "Go to the peak (P)", actions.showPeak),
      button("All", "Show everything (0)", () => store.set({ window: store.whole })),
      button("?", "Keys (?)", actions.showHelp)))
}
