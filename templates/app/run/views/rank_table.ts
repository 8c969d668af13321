/** All ranks as a table, in the order of the heat map. */

import { differs } from "../../lib/data/observed"
import { formatBytes, formatExact, formatSignedBytes } from "../../lib/text/format"
import { bytesCell } from "../../views/shared/frame_cells"
import { coded, h, meter } from "../../views/shared/dom"
import { type Column, VirtualList } from "../../views/shared/virtual_list"
import type { SortKey } from "../data/row_order"
import type { RunStore } from "../run_store"
import { oddColour } from "./run_words"

/** The keys that sort with the largest values first. */
const FALLING = new Set<SortKey>(["peak", "reserved", "versus", "failed"])

export class RankTable {
  readonly element: HTMLElement
  private readonly list: VirtualList
  private readonly most: number

  constructor(private readonly store: RunStore) {
    const { data } = store
    this.most = data.allocated.reduce((a, b) => Math.max(a, b), 0)
    const column = (title: string, key: SortKey, more: Partial<Column> = {}): Column => ({
      title,
      sort: () => sortBy(store, key),
      sorted: () => (store.state.sort !== key ? null : store.state.descending ? "descending" : "ascending"),
      ...more,
    })
    this.list = new VirtualList({
      label: "All ranks",
      class: "ranks-list",
      columns: [
        column("Rank", "rank"),
        column("Host", "host"),
        column("Group", "group"),
        column("Peak allocated", "peak", { class: "num" }),
        { title: "Bar", quiet: true, class: "bar" },
        column("vs. group", "versus", { class: "num" }),
        column("Peak reserved", "reserved", { class: "num" }),
        column("Unlike the others", "odd"),
      ],
      count: () => store.state.order.length,
      row: (place) => this.row(store.state.order[place]),
      rowAttributes: (place) => ({ "data-rank": String(store.state.order[place]) }),
      rowClass: (place) => (store.state.kept.includes(store.state.order[place]) ? "now" : null),
      onSelect: (place) => store.look(store.state.order[place]),
      onKey: (event, place) => {
        if (event.key.toLowerCase() !== "k" || place < 0) return false
        store.keep(store.state.order[place])
        return true
      },
      empty: "No rank matches the filter.",
    })
    this.element = h("section", { "aria-labelledby": "all-ranks" }, h("h2", { id: "all-ranks" }, "The ranks"), this.list.element)
    store.on((state, before) => {
      if (differs(state, before, "order", "kept", "sort")) this.list.refresh()
      if (differs(state, before, "order", "cursor")) this.choose()
    })
  }

  /** Begins, once the element stands in the page. */
  start(): void {
    this.list.refresh()
    this.choose()
  }

  private choose(): void {
    const { cursor, order } = this.store.state
    const place = cursor ? order.indexOf(cursor.row) : -1
    if (place === this.list.selected) return
    this.list.reveal(place)
    this.list.selected = place
  }

  private row(row: number): (Node | string)[] {
    const { data, above } = this.store
    const odd = data.odd.get(row)
    const link = data.link[row]
    return [
      link ? h("a", { href: link }, data.label[row]) : data.label[row],
      data.host[row],
      data.groups[data.group[row]] ?? "",
      h(
        "span",
        { title: formatExact(data.allocated[row]) },
        `${data.allocatedWidth[row] ? "\u2265 " : ""}${formatBytes(data.allocated[row])}`,
      ),
      meter(data.allocated[row], this.most),
      Math.abs(above[row]) < 0.005 * data.allocated[row] ? "" : formatSignedBytes(above[row]),
      data.reserved[row] < 0 ? "not known" : bytesCell(data.reserved[row]),
      odd ? h("span", { class: oddColour(odd), title: odd.sentence.replaceAll("`", "") }, `${odd.word}: `, ...coded(odd.sentence)) : "",
    ]
  }
}

/** Sorts by a key; reverses the order if it is sorted by that key already. */
export function sortBy(store: RunStore, key: SortKey): void {
  const { sort, descending } = store.state
  store.set({ sort: key, descending: sort === key ? !descending : FALLING.has(key) })
}
