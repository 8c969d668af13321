/** The list of keys and gestures, for each panel that a recording has; and that of the page's words. */

import type { Store } from "../../store"
import { h } from "../shared/dom"
import { keysEverywhere, setKeysEverywhere } from "../shared/keys"
import { tabsOf } from "../panels/panels"
import { FLAME_KEYS, TREE_KEYS } from "../panels/stacks_panel"

/** Keys, and what they do. */
type Key = string[]

const TIMELINE: Key[] = [
  ["Drag, WASD, arrows", "move"],
  ["Wheel, + and \u2212, two fingers", "zoom; over an axis, or with Shift or Alt, along one axis only"],
  ["Shift and drag, B", "zoom to a box"],
  ["Double-click, 0", "show everything"],
  ["Click", "move the cursor there, and pin the allocation"],
  ["Click on the axis, drag the cursor's number", "move the cursor"],
  ["[ and ]", "cursor to the event before or after"],
  ["{ and }", "cursor to the birth or the end of the pinned allocation"],
  ["P", "go to the peak"],
  ["Esc", "unpin"],
  ["?", "this list"],
]
/** Not where two recordings are compared: there A and B are the cursors. */
const MARKERS: Key[] = [
  ["Drag on the axis, 1 and 2", "pin A and B, to ask what happened between them; 3 pins C"],
  ["Esc, with nothing pinned", "remove A, B and C"],
]
const EVERYWHERE: Key[] = [
  ["Ctrl K, Cmd K", "find anything by its name, and go there"],
  ["/", "search in the open tab, or else in call stacks"],
  ["G", "what the words on this page mean"],
]
const LISTS: Key[] = [
  ["\u2191 and \u2193", "the row before or after"],
  ["Page Up, Page Down", "a page of rows"],
  ["Home, End", "the first, the last row"],
]
const SEARCHED: Key[] = [
  ["/", "search"],
  ["Esc", "clear the selection"],
]
const opening = (what: string): Key[] => [["\u2192 and \u2190, Enter, double-click", `open and close ${what}`]]
const STEPS: Key[] = [
  ["\u2190 and \u2192", "in the chart: move within a step"],
  ["\u2191 and \u2193", "in the chart: the step before or after"],
  ["Home, End", "in the chart: the start, the end of the step"],
  ["Enter", "show the event in the timeline"],
]
const ALLOCATOR: Key[] = [
  ["\u2190 and \u2192", "in the map: the block before or after"],
  ["\u2191 and \u2193", "in the map: the segment before or after"],
  ["Home, End", "in the map: the segment's first, last block"],
  ["Enter", "pin the block's allocation"],
  ["Arrows, Page Up, Page Down", "in the chart of fragmentation: move the cursor"],
]
const HANDLE: Key[] = [
  ["\u2191 and \u2193", "a lower, a higher timeline"],
  ["Home, End", "the lowest, the highest timeline"],
]
const TABS: Key[] = [
  ["\u2190 and \u2192", "the tab before or after"],
  ["Home, End", "the first, the last tab"],
]

/** Shows what the words mean that the page explains where they stand. */
export function showWords(): void {
  const meanings = new Map<string, string>()
  for (const tip of [...document.querySelectorAll(".figures [role=tooltip]"), ...document.querySelectorAll("[role=tooltip]")]) {
    const [word, meaning] = [tip.previousSibling, tip].map((node) => node?.textContent?.trim() ?? "")
    const title = `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`
    // First as the figures say it: with figures of their own, those of the device in sight.
    if (tip.closest("article[hidden]") || meanings.has(title) || [...meanings.values()].includes(meaning)) continue
    meanings.set(title, meaning)
  }
  const words = [...meanings].sort(([a], [b]) => a.localeCompare(b))
  const list = words.map(([word, meaning]) => h("div", h("dt", word), h("dd", meaning)))
  showDialog("Words", h("dl.words", ...list))
}

/** Shows the keys of the timeline, and of each panel that a recording has. */
export function showKeys(store: Store): void {
  const everywhere = h("input", { type: "checkbox", checked: keysEverywhere(), change: () => setKeysEverywhere(everywhere.checked) })
  const list = (keys: Key[]) => h("dl", ...keys.map(([key, what]) => h("div", h("dt", key), h("dd", what))))
  showDialog(
    "Keys",
    h("div.help-groups", ...groupsOf(store).map(([title, keys]) => h("section", h("h3", title), list(keys)))),
    h("label.check", everywhere, "The timeline's keys work without the focus, too"),
  )
}

/** Shows something over the page until it is closed. */
function showDialog(title: string, ...content: HTMLElement[]): void {
  const close = h("form", { method: "dialog" }, h("button", "Close"))
  const dialog = h("dialog.help", { "aria-label": title, close: () => dialog.remove() }, h("header", h("h2", title), close), ...content)
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close())
  document.body.append(dialog)
  dialog.showModal()
}

function groupsOf({ history, beside }: Store): [title: string, keys: Key[]][] {
  const tabs = beside ? [] : tabsOf(history).map(({ id }) => id)
  const all: [title: string, keys: Key[], there: boolean][] = [
    ["In the timeline", beside ? TIMELINE : [...TIMELINE, ...MARKERS], true],
    ["Wherever no text is typed", EVERYWHERE, true],
    ["In call stacks", TREE_KEYS, true],
    ["In the flame graph", FLAME_KEYS, true],
    ["In every list", LISTS, true],
    ["In lines and allocations", SEARCHED, true],
    ["In allocations", opening("equal rows"), !beside],
    ["In stages", opening("repeated stages"), tabs.includes("stages")],
    ["In steps", STEPS, tabs.includes("steps")],
    ["In the allocator", ALLOCATOR, tabs.includes("allocator")],
    ["On the handle", HANDLE, history.device.count > 0],
    ["On the tabs", TABS, true],
  ]
  return all.flatMap(([title, keys, there]) => (there ? [[title, keys]] : []))
}
