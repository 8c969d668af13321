/** What the panels answer: filters, the markers A, B and C, and the questions about them, with their bytes. */

import { formatAmount, formatBytes, formatCount, formatEvent, formatExact, formatShare, plural } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import { momentText } from "../../lib/data/moment"
import { differs } from "../../lib/data/observed"
import { type Kind, sentence, totalsOf } from "../../lib/data/questions"
import { colouringName, filterWords, groupBy, NO_FILTERS, withFilter } from "../../lib/tables/grouping"
import { type Markers, NO_MARKERS, type Store } from "../../store"
import { button, linkButton } from "../shared/controls"
import { h, setChildren } from "../shared/dom"
import { inNextFrame, onFailure } from "../shared/failure"

/** The questions about two moments, in the words of their buttons. */
const QUESTIONS: readonly [kind: Exclude<Kind, "live">, word: string][] = [
  ["change", "Change"],
  ["stayed", "Stayed"],
  ["made", "Made"],
  ["passing", "Came and went"],
  ["freed", "Freed"],
  ["throughout", "Lived through"],
]

const MARKS: readonly [name: keyof Markers, key: string, what: string][] = [
  ["a", "1", "the first moment"],
  ["b", "2", "the second moment"],
  ["c", "3", "a moment at which what was made is still alive"],
]

export function questionBar(store: Store): HTMLElement {
  const chips = h("div.chips", { role: "group", "aria-label": "Filters" })
  const marks = h("div.marks", { role: "group", "aria-label": "Moments to compare" })
  const kinds = h("div.kinds", { role: "group", "aria-label": "Questions" })
  const element = h("div.question-bar", chips, marks, kinds)
  onFailure(element, "What is asked", kinds)
  /** The totals that are shown: they change with the events, not with the question. */
  let last: { key: string; of: History; totals: ReturnType<typeof totalsOf> } | null = null
  const say = () => {
    const { state, history, counted, asked } = store
    chips.hidden = !state.filters.size
    setChildren(chips, state.filters.size ? filterChips(store) : [])
    marks.hidden = !history.device.summary.recorded
    setChildren(marks, markButtons(store))
    kinds.hidden = asked.kind === "live"
    if (kinds.hidden) return setChildren(kinds, [])
    const key = [asked.from, asked.to, asked.alive, asked.curve].join()
    if (last?.key !== key || last.of !== counted) last = { key, of: counted, totals: totalsOf(counted.device, asked) }
    setChildren(kinds, questions(store, last.totals))
  }
  const saySoon = inNextFrame({ element }, say)
  store.on((state, before) => {
    const moved = state.cursor !== before.cursor && (state.filters.size > 0 || store.asked.kind !== "live")
    if (moved || differs(state, before, "curve", "filters", "markers", "question")) saySoon()
  })
  say()
  return element
}

/** One chip for each colouring that is filtered: its words, a switch between what it keeps and what it leaves out, and a way to remove it. */
export function filterChips(store: Store): Node[] {
  const { history, counted, state } = store
  const chips = [...state.filters].map(([colouring, out]) => {
    const grouping = groupBy(history, colouring)
    const { keeps, names } = filterWords(grouping, out)
    const name = colouringName(history.device, colouring)
    const set = (rows: Iterable<number>) => store.set({ filters: withFilter(history, store.state.filters, colouring, rows) })
    const flip = () => {
      const now = store.state.filters.get(colouring)
      set([...grouping.groups.keys()].filter((row) => !now?.has(row)))
    }
    return h(
      "span.chip",
      { "data-filter": colouring, title: names.slice(0, 30).join("\n") },
      `${name} `,
      button(keeps ? "is" : "is not", "Keep what is left out, and leave out what is kept", flip, { class: "flip" }),
      ` ${names.length > 2 ? `one of ${formatCount(names.length)}` : names.join(" or ")} `,
      button("\u00d7", `Remove the filter by ${name.toLowerCase()}`, () => set([]), { class: "remove" }),
    )
  })
  const [part, all] = [counted, history].map((of) => of.at(state.curve, state.cursor))
  const much = h(
    "span.much",
    { title: `${formatExact(part)} of ${formatExact(all)} ${state.curve} ${momentText(counted, state.curve, state.cursor)}` },
    `${formatBytes(part)} of ${formatBytes(all)}, ${formatShare(part, all)} `,
  )
  return [...chips, much, linkButton("Show all", () => store.set({ filters: NO_FILTERS }))]
}

/** A button for each marker: it sets the marker at the cursor, or removes it. */
function markButtons(store: Store): Node[] {
  const { markers } = store.state
  const any = Object.values(markers).some((event) => event !== null)
  const buttons = MARKS.map(([name, key, what]) => {
    const event = markers[name]
    const title = event === null ? `Pin ${what} at the cursor (${key})` : `Remove this marker (${key} with the cursor on it)`
    const act = () =>
      store.state.markers[name] === null ? store.pinMarker(name) : store.set({ markers: { ...store.state.markers, [name]: null } })
    return button(`${name.toUpperCase()}${event === null ? "" : ` ${formatEvent(event)} \u00d7`}`, title, act, {
      class: `mark mark-${name}`,
      "aria-pressed": String(event !== null),
      "aria-label": event === null ? title : `${name.toUpperCase()} at ${formatEvent(event)}. ${title}`,
    })
  })
  return [
    h("span", "Compare"),
    ...buttons,
    any ? linkButton("Clear", () => store.set({ markers: NO_MARKERS })) : h("span.hint", "or drag along the axis"),
  ]
}

function questions(store: Store, totals: ReturnType<typeof totalsOf>): Node[] {
  const { counted, asked, state } = store
  return QUESTIONS.map(([kind, word]) => {
    const { bytes, count } = totals[kind]
    const title = `${sentence(kind, state.markers.c !== null)}\n${formatExact(bytes)} in ${plural(count, "allocation")}`
    return h(
      "button",
      { type: "button", title, "data-ask": kind, "aria-pressed": String(kind === asked.kind), click: () => store.set({ question: kind }) },
      word,
      " ",
      h("b", `${counted.device.rest && kind !== "change" ? "\u2265 " : ""}${formatAmount(bytes, kind === "change")}`),
    )
  })
}
