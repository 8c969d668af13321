/** Every allocation that is live at the moment, one row each. */

import { formatAddress, formatBytes, formatCount, formatDuration, formatExact, plural } from "../../lib/text/format"
import { versionsOf } from "../../lib/data/device"
import { liveAt } from "../../lib/data/lives"
import { addUp, type LiveColumn, searchLive, sortLive } from "../../lib/tables/live_table"
import { refusal } from "../../lib/text/pattern"
import { NOT_DRAWN, restAt } from "../../lib/data/rest"
import type { State, Store } from "../../store"
import { searchField } from "../shared/controls"
import { h } from "../shared/dom"
import { later } from "../shared/failure"
import { bytesCell, frameCell } from "../shared/frame_cells"
import { type Panel, type Shown, showsOther } from "./panels"
import { VirtualList } from "../shared/virtual_list"

const COLUMNS: [column: LiveColumn, title: string, class_: string][] = [
  ["block", "Block", "num"],
  ["requested", "Requested", "num"],
  ["age", "Age", "num"],
  ["site", "Call site", "site"],
  ["address", "Address", "address"],
  ["stream", "Stream", "stream"],
  ["pool", "Pool", "pool"],
]

export class LivePanel implements Panel {
  readonly element: HTMLElement
  private readonly list: VirtualList
  private readonly input: HTMLInputElement
  private readonly totals = h("p", { class: "totals-line", role: "status" })
  private readonly columns: typeof COLUMNS
  private all: Int32Array = new Int32Array(0)
  private rows: Int32Array = new Int32Array(0)
  private by: LiveColumn = "block"
  private reversed = false
  private frame = 0
  private shown: Shown | null = null

  constructor(private readonly store: Store) {
    const { device } = store.history
    // A column with the same value in every row is left out.
    const pools = device.pool.some((pool) => pool !== device.pool[0])
    const streams = device.streamValues.length > 1
    this.columns = COLUMNS.filter(([column]) => (column !== "pool" || pools) && (column !== "stream" || streams))
    this.input = searchField("Search call site, size or address", (search) => store.set({ search }))
    this.list = new VirtualList({
      label: "Live allocations",
      class: `live-list${pools ? " pools" : ""}${streams ? " streams" : ""}`,
      empty: "No live allocation matches.",
      columns: this.columns.map(([column, title, class_]) => ({
        title,
        class: class_,
        sort: () => this.sort(column),
        sorted: () =>
          column !== this.by
            ? null
            : (column === "block" || column === "requested" || column === "age") !== this.reversed
              ? "descending"
              : "ascending",
      })),
      count: () => this.rows.length,
      row: (k) => this.columns.map(([column]) => this.cell(column, this.rows[k])),
      rowAttributes: (k) => ({ "data-allocation": String(this.rows[k]) }),
      onSelect: (k) => store.pin(this.rows[k]),
      onKey: (event) => this.key(event),
    })
    this.element = h(
      "div",
      { class: "live" },
      h("div", { class: "toolbar" }, h("span", { class: "searching" }, this.input), this.totals),
      this.list.element,
    )
  }

  update(state: State, before: State | null): void {
    if (!before) return this.refresh()
    if (showsOther(state, this.shown)) this.frame ||= requestAnimationFrame(later(this.element, () => this.refresh()))
  }

  private refresh(): void {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    const { cursor, curve, search, pinned } = this.store.state
    const { history } = this.store
    const { shown } = this
    const moved = !shown || shown.cursor !== cursor || shown.curve !== curve
    if (moved) this.all = sortLive(liveAt(history.device, curve, cursor), history.device, history.sites, this.by, this.reversed)
    if (moved || shown.search !== search) this.search(search)
    this.list.refresh()
    const row = this.rows.indexOf(pinned)
    this.list.selected = row
    if (row >= 0 && shown?.pinned !== pinned) this.list.reveal(row)
    this.shown = { cursor, curve, search, pinned }
  }

  private search(typed: string): void {
    const { history } = this.store
    if (this.input.value !== typed) this.input.value = typed
    let refused = ""
    this.rows = this.all
    try {
      this.rows = searchLive(this.all, history.device, history.sites, typed)
    } catch (error) {
      refused = refusal(error)
    }
    this.input.setAttribute("aria-invalid", String(refused !== ""))
    const sum = addUp(this.rows, history.device)
    const some = this.rows.length === this.all.length ? "" : `${formatCount(this.rows.length)} of `
    this.totals.replaceChildren(
      refused && `${refused}. `,
      h("b", {}, `${some}${plural(this.all.length, "allocation")}`),
      h("span", { title: formatExact(sum.block) }, `${formatBytes(sum.block)} in blocks`),
      h("span", { title: formatExact(sum.requested) }, `${formatBytes(sum.requested)} requested by these`),
      ...this.left(),
    )
  }

  /** Counts what is live but not drawn, and so not listed. */
  private left(): Node[] {
    const { history, state } = this.store
    const { bytes, count } = restAt(history.device.rest, state.curve, state.cursor)
    return bytes
      ? [
          h(
            "span",
            { class: "not-drawn", title: formatExact(bytes) },
            `${formatCount(count)} more, ${formatBytes(bytes)} ${state.curve}, ${NOT_DRAWN}`,
          ),
        ]
      : []
  }

  private sort(column: LiveColumn): void {
    this.reversed = column === this.by && !this.reversed
    this.by = column
    this.shown = null
    this.refresh()
  }

  private cell(column: LiveColumn, i: number): Node | string {
    const { history } = this.store
    const { device, sites } = history
    switch (column) {
      case "block":
        return device.blockMax[i] > device.block[i]
          ? h(
              "span",
              { title: `between ${formatExact(device.block[i])} and ${formatExact(device.blockMax[i])}` },
              `\u2265 ${formatBytes(device.block[i])}`,
            )
          : bytesCell(device.block[i])
      case "requested":
        return bytesCell(device.requested[i])
      case "age":
        return this.age(i)
      case "site": {
        const site = sites.rows[sites.ofAllocation[i]]
        return frameCell(history, site.frame, site.name)
      }
      case "address":
        return h(
          "span",
          {},
          h("code", {}, formatAddress(device.addrValues[device.addr[i]])),
          h("small", { title: "How many allocations came before at this address" }, ` v${versionsOf(device)[i]}`),
        )
      case "stream": {
        const stream = device.streamValues[device.stream[i]]
        return stream === 0 ? "default" : formatAddress(stream)
      }
      case "pool":
        return device.pool[i] < 0 ? "-" : device.pools[device.pool[i]]
    }
  }

  /** Events and time since it was made. */
  private age(i: number): HTMLElement {
    const { history, state } = this.store
    const birth = history.device.allocEvent[i]
    if (birth < 0) return h("small", {}, "before recording")
    const [from, now] = [history.timeOf(birth), history.timeOf(state.cursor)]
    const time = from === null || now === null ? "" : formatDuration(now - from)
    return h(
      "span",
      { title: `made at event ${formatCount(birth)}` },
      plural(state.cursor - birth, "event"),
      time && h("small", {}, ` ${time}`),
    )
  }

  private key(event: KeyboardEvent): boolean {
    if (event.key === "/") this.input.focus()
    else if (event.key === "Escape" && this.store.state.pinned >= 0) this.store.pin(-1)
    else return false
    event.stopPropagation()
    return true
  }
}
