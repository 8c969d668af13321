/** The list of keys and gestures. */

import { h } from "./dom"

const KEYS: [string, string][] = [
  ["Drag, WASD, arrows", "move"],
  ["Wheel, + and \u2212, two fingers", "zoom; over an axis, or with Shift or Alt, along one axis only"],
  ["Shift and drag, B", "zoom to a box"],
  ["Double-click, 0", "show everything"],
  ["Click", "move the cursor there, and pin the allocation"],
  ["Drag on the axis", "move the cursor"],
  ["[ and ]", "cursor to the event before or after"],
  ["{ and }", "cursor to the birth or the end of the pinned allocation"],
  ["P", "go to the peak"],
  ["R", "ruler: drag with it, or move the cursor by [ and ]"],
  ["Esc", "unpin, and put the ruler away"],
  ["?", "this list"],
]

export function helpDialog(): HTMLDialogElement {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys" })
  dialog.append(
    h("h3", {}, "In the timeline"),
    h("dl", {}, ...KEYS.map(([key, what]) => h("div", {}, h("dt", {}, key), h("dd", {}, what)))),
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  )
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close())
  return dialog
}
