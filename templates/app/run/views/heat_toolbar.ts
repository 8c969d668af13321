/** The controls of the heat map (axis, quantity, order, filter and scale) and the key of its colours. */

import { onTheme } from "../../lib/picture/theme"
import { formatCount } from "../../lib/text/format"
import { button, choiceOf, type Option, searchField, selection } from "../../views/shared/controls"
import { type Attributes, h } from "../../views/shared/dom"
import { zoomButtons } from "../../views/shared/gestures"
import type { SortKey } from "../data/row_order"
import type { Quantity, RunAxis } from "../data/run_data"
import { heatScale, heatStops } from "../picture/heat_colours"
import type { RunStore } from "../run_store"
import { sortBy } from "./rank_table"
import { valueText } from "./run_words"

const AXES: Option<RunAxis>[] = [
  ["time", "Time", "Since the start of the run, by the clocks of the hosts"],
  ["event", "Event", "Each rank's own events, from its first"],
  ["step", "Step", "The peak of each training step"],
]
const QUANTITIES: Option<Quantity>[] = [
  ["allocated", "Allocated", "Bytes of the blocks in use"],
  ["reserved", "Reserved", "Bytes that PyTorch got from the driver"],
  ["share", "Of the card", "Reserved bytes as a share of the card\u2019s capacity; for steps, allocated bytes"],
]
const SORTS: [SortKey, string][] = [
  ["rank", "rank"],
  ["peak", "peak"],
  ["group", "group"],
  ["host", "host"],
  ["odd", "odd first"],
  ["versus", "difference from group"],
  ["reserved", "reserved"],
  ["failed", "failed first"],
]

export class HeatToolbar {
  readonly element: HTMLElement
  readonly legend = h("p.heat-legend")
  private readonly shown = h("span.found", { "aria-live": "polite" })

  constructor(private readonly store: RunStore) {
    const { data } = store
    const kinds = Object.keys(data.scales)
    const options = kinds.map((each): [string, string, Attributes] => [each, each, { selected: each === store.state.kind }])
    this.element = h(
      "div",
      h(
        "div.toolbar",
        choiceOf(
          store,
          "axis",
          "Axis",
          refusing(AXES, (axis) => (data.axes.includes(axis) ? "" : `No rank has ${axis}s`)),
        ),
        choiceOf(
          store,
          "quantity",
          "Quantity",
          refusing(QUANTITIES, (each) => (data.quantities(store.state.axis).includes(each) ? "" : "Not known on this axis")),
          undefined,
          ["axis", "quantity"],
        ),
        this.sorting(),
        kinds.length > 1 &&
          h(
            "label.colour-by",
            "Memory ",
            selection("Memory", options, (kind) => store.set({ kind })),
          ),
        h("div.buttons", ...zoomButtons(store)),
      ),
      h("div.toolbar", ...this.filters(), this.shown),
      this.legend,
    )
    store.watch(["order"], () => this.count())
    store.watch(["quantity", "full", "kind", "axis"], () => this.explain())
    onTheme(() => this.explain())
  }

  private sorting(): HTMLElement {
    const { store } = this
    const select = selection("Sort by", SORTS, (key) => sortBy(store, key))
    const turn = button("", "Reverse the order", () => sortBy(store, store.state.sort))
    store.watch(["sort", "descending"], () => {
      select.value = store.state.sort
      turn.textContent = store.state.descending ? "\u2193" : "\u2191"
    })
    return h("label.colour-by", "Sort ", select, turn)
  }

  private filters(): HTMLElement[] {
    const { store } = this
    const { data } = store
    const search = searchField("Search for ranks, hosts or groups; terms between commas", (query) => store.set({ query }), {
      placeholder: "17, 40-47, node003",
    })
    const groups = ["all groups", ...data.groups].map((name, k): [string, string] => [String(k - 1), name])
    const group = selection("Group", groups, (row) => store.set({ group: Number(row) }))
    const odd = h("input", { type: "checkbox", change: () => store.set({ onlyOdd: odd.checked }) })
    const clear = button("Show all", null, () => store.set({ query: "", group: -1, onlyOdd: false }), { hidden: true })
    store.on(({ query, group: chosen, onlyOdd }) => {
      if (search.value !== query) search.value = query
      group.value = String(chosen)
      odd.checked = onlyOdd
      clear.hidden = !query && chosen < 0 && !onlyOdd
    })
    return [search, ...(data.groups.length > 1 ? [group] : []), ...(data.odd.size ? [h("label.check", odd, "only odd ones")] : []), clear]
  }

  private count(): void {
    const { data, state } = this.store
    const all = data.kind.filter((kind) => kind === state.kind).length
    this.shown.textContent =
      state.order.length === all ? `${formatCount(all)} rows` : `${formatCount(state.order.length)} of ${formatCount(all)} rows`
  }

  /** Explains the colours, and what is above the scale. */
  private explain(): void {
    const { data, state } = this.store
    const { kind, quantity, full } = state
    const scale = heatScale(data, kind, quantity, full)
    const clipped = heatScale(data, kind, quantity, false)
    const bar = h("i.heat-bar", { "aria-hidden": "true" })
    const stops = heatStops(document.documentElement)
    bar.style.background = `linear-gradient(to right in oklab, ${stops.join(", ")})`
    if (!bar.style.background) bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`
    const over = scale.most > scale.high
    this.legend.replaceChildren(
      valueText(quantity, scale.low),
      bar,
      valueText(quantity, scale.high),
      ...(over ? [h("span", h("i.heat-over", { "aria-hidden": "true" }), `above that, up to ${valueText(quantity, scale.most)}`)] : []),
      ...(clipped.most > clipped.high ? [this.stretch()] : []),
      h("span.heat-empty", "empty: nothing recorded"),
      h("span", "Each cell shows its highest value."),
    )
  }

  private stretch(): HTMLElement {
    const { store } = this
    const input = h("input", { type: "checkbox", checked: store.state.full, change: () => store.set({ full: input.checked }) })
    return h("label.check", input, "extend the scale to the highest value")
  }
}

/** The options, of which some cannot be chosen now: `why` says why, or nothing. */
function refusing<T extends string>(options: Option<T>[], why: (value: T) => string): Option<T>[] {
  return options.map(([value, label, title]) => [value, label, title, () => why(value)])
}
