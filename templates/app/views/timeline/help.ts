/** The list of keys and gestures, for each panel that a recording has; and that of the page's words. */

import type { History } from "../../lib/data/history"
import { h } from "../shared/dom"
import { keysEverywhere, setKeysEverywhere } from "../shared/keys"
import { tabsOf } from "../panels/panels"

type Key = [keys: string, what: string]

const TIMELINE: Key[] = [
  ["Drag, WASD, arrows", "move"],
  ["Wheel, + and \u2212, two fingers", "zoom; over an axis, or with Shift or Alt, along one axis only"],
  ["Shift and drag, B", "zoom to a box"],
  ["Double-click, 0", "show everything"],
  ["Click", "move the cursor there, and pin the allocation"],
  ["Drag on the axis", "move the cursor"],
  ["[ and ]", "cursor to the event before or after"],
  ["{ and }", "cursor to the birth or the end of the pinned allocation"],
  ["P", "go to the peak"],
  ["R", "ruler along the curve: drag with it, or move the cursor by [ and ]; Alt and drag measures between any two points"],
  ["Esc", "unpin, and remove the ruler"],
  ["?", "this list"],
]
const EVERYWHERE: Key[] = [
  ["/", "search in the open tab, or else in call stacks"],
  ["G", "what the words on this page mean"],
]
const LISTS: Key[] = [
  ["\u2191 and \u2193", "the row before or after"],
  ["Page Up, Page Down", "a page of rows"],
  ["Home, End", "the first, the last row"],
]
const STACKS: Key[] = [
  ["\u2192 and \u2190", "open and close a row, or go down and up"],
  ["E and C", "expand all, collapse"],
  ["F and B", "focus on the selected row, go back"],
  ["H", "hide or show library-internal frames"],
  ["/", "search"],
  ["N and Shift N", "the next and the previous match"],
  ["Esc", "clear the selection"],
]
const FLAME: Key[] = [
  ["Arrows", "to the caller, a callee or a sibling"],
  ["Enter, double-click", "zoom in"],
  ["Home", "to the top"],
  ["F, B, H, / and N", "as in call stacks"],
]
const SEARCHED: Key[] = [
  ["/", "search"],
  ["Esc", "clear the selection"],
]
const EQUAL: Key[] = [
  ["\u2192 and \u2190", "open and close equal rows"],
  ["Enter, double-click", "the same"],
]
const STAGES: Key[] = [
  ["\u2192 and \u2190", "open and close repeated stages"],
  ["Enter, double-click", "the same"],
]
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
const TABS: Key[] = [
  ["\u2190 and \u2192", "the tab before or after"],
  ["Home, End", "the first, the last tab"],
]

/** Shows what the words mean that the page explains where they stand. */
export function showWords(): void {
  const meanings = new Map<string, string>()
  for (const tip of document.querySelectorAll("[role=tooltip]")) {
    const [word, meaning] = [tip.previousSibling, tip].map((node) => node?.textContent?.trim() ?? "")
    const title = `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`
    // At its first place: there it may be said with figures, which are those of the device in sight.
    if (tip.closest("article[hidden]") || meanings.has(title) || [...meanings.values()].includes(meaning)) continue
    meanings.set(title, meaning)
  }
  const words = [...meanings].sort(([a], [b]) => a.localeCompare(b))
  const dialog = h(
    "dialog",
    { class: "help", "aria-labelledby": "words-title", close: () => dialog.remove() },
    h("header", {}, h("h2", { id: "words-title" }, "Words"), h("form", { method: "dialog" }, h("button", {}, "Close"))),
    h("dl", { class: "words" }, ...words.map(([word, meaning]) => h("div", {}, h("dt", {}, word), h("dd", {}, meaning)))),
  )
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close())
  document.body.append(dialog)
  dialog.showModal()
}

export class Help {
  readonly element = h("dialog", { class: "help", "aria-labelledby": "help-title" })

  constructor(private readonly history: History) {
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close())
  }

  toggle(): void {
    if (this.element.open) return this.element.close()
    this.element.replaceChildren(...contents(this.history))
    this.element.showModal()
  }
}

function contents(history: History): HTMLElement[] {
  const everywhere = h("input", { type: "checkbox", checked: keysEverywhere(), change: () => setKeysEverywhere(everywhere.checked) })
  return [
    h("header", {}, h("h2", { id: "help-title" }, "Keys"), h("form", { method: "dialog" }, h("button", {}, "Close"))),
    h(
      "div",
      { class: "help-groups" },
      ...groupsOf(history).map(([title, keys]) =>
        h("section", {}, h("h3", {}, title), h("dl", {}, ...keys.map(([key, what]) => h("div", {}, h("dt", {}, key), h("dd", {}, what))))),
      ),
    ),
    h("label", { class: "check" }, everywhere, "The timeline's keys work without the focus, too"),
  ]
}

function groupsOf(history: History): [title: string, keys: Key[]][] {
  const tabs = tabsOf(history).map(({ id }) => id)
  const all: [title: string, keys: Key[], there: boolean][] = [
    ["In the timeline", TIMELINE, true],
    ["Wherever no text is typed", EVERYWHERE, true],
    ["In call stacks", STACKS, true],
    ["In the flame graph", FLAME, true],
    ["In every list", LISTS, true],
    ["In lines and allocations", SEARCHED, true],
    ["In allocations", EQUAL, true],
    ["In stages", STAGES, tabs.includes("stages")],
    ["In steps", STEPS, tabs.includes("steps")],
    ["In the allocator", ALLOCATOR, history.hasReserved],
    ["On the tabs", TABS, true],
  ]
  return all.filter(([, , there]) => there).map(([title, keys]) => [title, keys])
}
