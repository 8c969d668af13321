/** The list of keys and gestures. */

import { h } from "./dom"

const KEYS: [string, string][] = [
  ["Drag, WASD, arrows", "move"],
  ["Wheel, + and \u2212", "zoom; over an axis, or with Shift or Alt, along one axis only"],
  ["Shift and drag", "zoom to a box"],
  ["Double-click, 0", "show everything"],
  ["P", "go to the peak"],
  ["Click", "pin an allocation"],
  ["Esc", "unpin"],
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
