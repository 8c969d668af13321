/** Every allocation that is live at the moment; equal ones share a row that opens. */

import {
  formatAddress,
  formatAmount,
  formatBytes,
  formatCount,
  formatDuration,
  formatEvent,
  formatEvents,
  formatExact,
  plural,
} from "../../lib/text/format"
import { versionsOf } from "../../lib/data/device"
import {
  addUp,
  groupEqual,
  lifetimeOf,
  type LiveColumn,
  keyOf,
  rowsEqual,
  searchLive,
  type Signs,
  sortLive,
} from "../../lib/tables/live_table"
import { refusal } from "../../lib/text/pattern"
import { restOf } from "../../lib/data/questions"
import { drawnRow, NOT_DRAWN, recordedRow } from "../../lib/data/rest"
import { siteText } from "../../lib/data/frames"
import type { State, Store } from "../../store"
import { searchField } from "../shared/controls"
import { h } from "../shared/dom"
import { inNextFrame } from "../shared/failure"
import { lifeText } from "../shared/describe"
import { bytesCell, frameCell } from "../shared/frame_cells"
import { letGo, listsOther, type Panel, showsOther } from "./panels"
import { VirtualList } from "../shared/virtual_list"

const COLUMNS: [column: LiveColumn, title: string, class_: string][] = [
  ["block", "Block", "num"],
  ["requested", "Requested", "num"],
  ["role", "Role", "role"],
  ["age", "Age", "num age"],
  ["lifetime", "Lifetime", "num lifetime"],
  ["freed", "Freed at", "num freed"],
  ["site", "Call site", "site"],
  ["address", "Address", "address"],
  ["stream", "Stream", "stream"],
  ["pool", "Pool", "pool"],
]

/** Columns that begin with the largest number. */
const LARGEST_FIRST = new Set<LiveColumn>(["block", "requested", "age", "lifetime"])

/** A row: equal allocations, or one of them; `inner` where their row is open above it. */
interface Row {
  members: number[]
  inner: boolean
}

export class LivePanel implements Panel {
  readonly element: HTMLElement
  private readonly list: VirtualList
  private readonly input: HTMLInputElement
  private readonly totals = h("p.totals-line", { role: "status" })
  private readonly columns: typeof COLUMNS
  private signs: Signs = null
  private all: Int32Array = new Int32Array(0)
  private found: Int32Array = new Int32Array(0)
  private rows: Row[] = []
  private groups: number[][] = []
  private readonly grouped: HTMLInputElement
  /** The keys of the equal allocations whose rows are open. */
  private readonly open = new Set<number>()
  private by: LiveColumn = "block"
  private reversed = false
  private readonly refreshSoon = inNextFrame(this, () => this.refresh())
  private shown: State | null = null

  constructor(private readonly store: Store) {
    const { device } = store.history
    // A column with the same value in every row is left out.
    const pools = device.pool.some((pool) => pool !== device.pool[0])
    const streams = device.streamValues.length > 1
    this.columns = COLUMNS.filter(([column]) => (column !== "pool" || pools) && (column !== "stream" || streams))
    this.input = searchField("Search call site, size or address", (search) => store.set({ search }))
    this.grouped = h("input", { type: "checkbox", checked: true, change: () => this.build() })
    this.list = new VirtualList({
      label: "Allocations",
      role: "treegrid",
      class: `live-list${pools ? " pools" : ""}${streams ? " streams" : ""}`,
      empty: "No allocation matches.",
      columns: this.columns.map(([column, title, class_]) => ({
        title,
        class: class_,
        sort: () => this.sort(column),
        sorted: () => (column !== this.by ? null : LARGEST_FIRST.has(column) !== this.reversed ? "descending" : "ascending"),
      })),
      count: () => this.rows.length,
      row: (k) => this.columns.map(([column]) => this.cell(column, this.rows[k])),
      rowAttributes: (k) => this.attributes(this.rows[k]),
      onSelect: (k) => this.choose(this.rows[k]),
      onOpen: (k) => this.toggle(this.rows[k]),
      onToggle: (k, open) => this.toggle(this.rows[k], open),
      onKey: (event) => letGo(event, store),
    })
    this.element = h(
      "div.live",
      h("div.toolbar", h("span.searching", this.input), h("label.check", this.grouped, "Group equal rows"), this.totals),
      this.list.element,
    )
  }

  update(state: State, before: State | null): void {
    if (!before) return this.refresh()
    if (showsOther(state, this.shown) || state.selection !== before.selection) this.refreshSoon()
  }

  /** `key`: of a selection made here, an allocation among those that are equal to it. */
  select(key: string): void {
    const allocation = drawnRow(this.store.history.device, Number(key))
    if (/^\d+$/.test(key) && allocation >= 0) this.selectEqual(allocation)
  }

  private refresh(): void {
    const { state } = this.store
    const { search, pinned } = state
    const { shown } = this
    const moved = listsOther(state, shown)
    if (moved) {
      const { rows, signs } = this.store.answer
      this.signs = signs && this.store.answering
      this.all = rows
    }
    if (moved || shown!.search !== search) this.search(search)
    const fresh = shown?.pinned !== pinned
    this.shown = state
    if (fresh && pinned >= 0) {
      const around = this.groups.find((members) => members.includes(pinned))
      if (around && around.length > 1) this.open.add(this.keyOf(around[0]))
    }
    this.build()
    if (fresh) this.list.reveal(this.list.selected)
  }

  /** Lays the rows out again: which are grouped and which open may be others. */
  private build(): void {
    const { pinned, selection } = this.store.state
    const grouped = this.grouped.checked
    this.rows = grouped
      ? this.groups.flatMap((members) => [
          { members, inner: false },
          ...(members.length > 1 && this.open.has(this.keyOf(members[0]))
            ? this.sorted(members).map((i) => ({ members: [i], inner: true }))
            : []),
        ])
      : this.sorted(Array.from(this.found)).map((i) => ({ members: [i], inner: false }))
    this.list.refresh()
    const wanted = pinned >= 0 ? [pinned] : (this.groups.find(([first]) => selection?.panel === "live" && selection.rows[first]) ?? [])
    this.list.selected = this.rows.findIndex(({ members }) => members.length === wanted.length && members[0] === wanted[0])
  }

  private search(typed: string): void {
    const { history } = this.store
    if (this.input.value !== typed) this.input.value = typed
    let refused = ""
    this.found = this.all
    try {
      this.found = searchLive(this.all, history.device, history.sites, typed)
    } catch (error) {
      refused = refusal(error)
    }
    this.input.setAttribute("aria-invalid", String(refused !== ""))
    this.groups = groupEqual(this.found, history.device, history.sites, this.by, this.reversed, this.signs)
    const sum = addUp(this.found, history.device, this.signs)
    const some = this.found.length === this.all.length ? "" : `${formatCount(this.found.length)} of `
    this.totals.replaceChildren(
      refused && `${refused}. `,
      h("b", `${some}${plural(this.all.length, "allocation")}`),
      h("span", { title: formatExact(sum.block) }, `${this.amount(sum.block)} in blocks`),
      h("span", { title: formatExact(sum.requested) }, `${this.amount(sum.requested)} requested by these`),
      ...this.left(),
    )
  }

  /** Counts what is live but not drawn, and so not listed. */
  private left(): Node[] {
    const { counted, state, asked } = this.store
    const { bytes, count } = restOf(counted.device, asked)
    return bytes
      ? [
          h(
            "span.not-drawn",
            { title: formatExact(bytes) },
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

  private attributes({ members, inner }: Row): Record<string, string> {
    const [first] = members
    const level = { "aria-level": inner ? "2" : "1" }
    if (members.length === 1) return { ...level, "data-allocation": String(first) }
    return { ...level, "data-equal": String(first), "aria-expanded": String(this.open.has(this.keyOf(first))) }
  }

  private choose({ members }: Row): void {
    if (members.length === 1) return this.store.set({ pinned: members[0], pinnedOom: -1, selection: null })
    this.store.pin(-1)
    this.selectEqual(members[0])
  }

  private sorted(members: number[]): number[] {
    const { device, sites } = this.store.history
    return sortLive([...members], device, sites, this.by, this.reversed)
  }

  /** The same for equal allocations of which all came or all went. */
  private keyOf(allocation: number): number {
    const { device, sites } = this.store.history
    return this.sign(allocation) * (1 + keyOf(device, sites, allocation))
  }

  /** Selects all allocations of the recording that are equal to one, so that the timeline highlights them. */
  private selectEqual(allocation: number): void {
    const { history } = this.store
    const { device, sites } = history
    const { name, place } = sites.rows[sites.ofAllocation[allocation]]
    const label = `${formatBytes(device.block[allocation])} of ${name}${place ? ` ${place}` : ""}`
    const key = String(recordedRow(device, allocation))
    this.store.set({ selection: { panel: "live", key, label, rows: rowsEqual(device, sites, allocation) } })
  }

  private toggle({ members }: Row, open?: boolean): void {
    if (members.length === 1) return
    const key = this.keyOf(members[0])
    if (open ?? !this.open.has(key)) this.open.add(key)
    else this.open.delete(key)
    this.build()
  }

  /** What equal allocations have in common, or the range. */
  private cell(column: LiveColumn, { members, inner }: Row): Node | string {
    const { history } = this.store
    const { device, sites } = history
    const [i] = members
    const several = members.length > 1
    switch (column) {
      case "block":
        return several ? h("span.blocks", this.twist({ members, inner }), this.block(i, members.length)) : this.block(i, 1)
      case "requested":
        return bytesCell(this.sign(i) * device.requested[i] * members.length, this.signs !== null)
      case "role": {
        const [role, evidence] = device.roles[device.role[i]]
        return h("span", { title: [device.roleMeanings[role], evidence].filter(Boolean).join("\n") }, role)
      }
      case "age":
        return this.age(members)
      case "lifetime":
        return this.lifetime(members)
      case "freed":
        return this.freed(members)
      case "site": {
        const site = sites.rows[sites.ofAllocation[i]]
        return frameCell(history, site.frame, site.name)
      }
      case "address":
        if (several) return h("small", `${formatCount(members.length)} addresses`)
        return h(
          "span",
          h("code", formatAddress(device.addrValues[device.addr[i]])),
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

  /** -1 for what went. */
  private sign(allocation: number): number {
    return this.signs ? this.signs[allocation] : 1
  }

  private amount(bytes: number): string {
    return formatAmount(bytes, this.signs !== null)
  }

  /** Opens and closes equal rows. */
  private twist(row: Row): HTMLElement {
    const { block } = this.store.history.device
    const click = (event: Event) => {
      event.stopPropagation()
      this.toggle(row)
    }
    const many = `${formatCount(row.members.length)} \u00d7 ${formatBytes(block[row.members[0]])}`
    return h("small.equal", { click }, h("span.twist", { "aria-hidden": "true" }), many)
  }

  private block(i: number, count: number): HTMLElement {
    const { block, blockMax } = this.store.history.device
    const [least, most] = [this.sign(i) * block[i] * count, this.sign(i) * blockMax[i] * count]
    if (this.signs) return bytesCell(least, true)
    return most > least
      ? h("span", { title: `between ${formatExact(least)} and ${formatExact(most)}` }, `\u2265 ${formatBytes(least)}`)
      : bytesCell(least)
  }

  /** Events and time from when they were made to the moment, or to the end of what is asked about. */
  private age(members: number[]): HTMLElement | string {
    const { history, asked } = this.store
    const { allocEvent } = history.device
    const [first, last] = extremes(members, (i) => allocEvent[i])
    if (last < 0) return h("small", "before recording")
    const title = first === last ? `made at event ${formatCount(first)}` : `made at events ${formatEvents(first, last + 1)}`
    const event = { live: asked.at, stayed: asked.alive }[asked.kind as string] ?? asked.to
    const [newest, oldest] = [event - last, event - Math.max(first, 0)]
    if (first !== last) return h("span", { title }, range(newest, oldest, first < 0))
    const [from, now] = [history.timeOf(first), history.timeOf(event)]
    const time = from === null || now === null ? "" : formatDuration(now - from)
    return h("span", { title }, plural(newest, "event"), time && h("small", ` ${time}`))
  }

  private lifetime(members: number[]): HTMLElement | string {
    const { history } = this.store
    const { device } = history
    if (members.length === 1) {
      const { length, from, until } = lifeText(history, members[0])
      return h("span", { title: `${from} to ${until}` }, length)
    }
    const [least, most] = extremes(members, (i) => lifetimeOf(device, i))
    const open = members.some((i) => device.allocEvent[i] < 0 || device.freeEvent[i] >= device.events)
    return `${range(least, most, false)}${open ? " or more" : ""}`
  }

  /** The event, and on hover the call site that freed it. */
  private freed(members: number[]): HTMLElement | string {
    const { history } = this.store
    const { device, stacks } = history
    const [first, last] = extremes(members, (i) => device.freeEvent[i])
    if (first >= device.events) return h("small", "not freed")
    if (first !== last) return `${formatCount(first)} to ${last >= device.events ? "never" : formatCount(last)}`
    const frame = stacks.stackSite[device.freeStack[members[0]]] ?? -1
    const site = frame < 0 ? null : siteText(stacks, frame)
    return h("span", { title: site && `freed by ${site.name} ${site.place}` }, formatEvent(first))
  }
}

function extremes(members: number[], of: (allocation: number) => number): [least: number, most: number] {
  let [least, most] = [Infinity, -Infinity]
  for (const i of members) [least, most] = [Math.min(least, of(i)), Math.max(most, of(i))]
  return [least, most]
}

/** `12 to 380 events`; `more`: the most is not known. */
function range(least: number, most: number, more: boolean): string {
  const end = more ? "before recording" : plural(most, "event")
  return least === most && !more ? end : `${formatCount(least)} to ${end}`
}
