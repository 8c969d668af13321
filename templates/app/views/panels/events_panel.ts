/** Every trace event, in a list of any length that a search narrows. */

import { atRest } from "../shared/failure"
import { ALLOC, EventTable, FREE_COMPLETED, parseFilter, UNKNOWN } from "../../lib/tables/events"
import { formatAddress, formatCount, formatDuration, plural } from "../../lib/text/format"
import { missingReason } from "../../lib/data/device"
import { siteText } from "../../lib/data/frames"
import { firstPlace } from "../../lib/data/places"
import type { State, Store } from "../../store"
import { searchField } from "../shared/controls"
import { h } from "../shared/dom"
import type { Panel } from "./panels"
import { stackView } from "../shared/details"
import { bytesCell, siteParts } from "../shared/frame_cells"
import { VirtualList } from "../shared/virtual_list"

const AROUND = 6
/** What is typed is searched for once it rests. */
const RESTS_MS = 120
const HINT = "function or file, 0x address, 1MiB, >=512k, 1M..4M"

export class EventsPanel implements Panel {
  readonly element: HTMLElement
  private readonly table: EventTable
  private readonly list: VirtualList
  private readonly search: HTMLInputElement
  private readonly chips: HTMLButtonElement[]
  private readonly count = h("span.range", { role: "status" })
  private readonly detail = h("div.event-detail")
  private readonly actions: string[]
  private events: Int32Array = new Int32Array(0)
  private typed = ""
  /** The event that this list itself moved the cursor to. */
  private own = -2

  constructor(private readonly store: Store) {
    const { device, stacks } = store.history
    this.table = new EventTable(device, stacks)
    const present = this.table.counts.map((count, kind) => ({ count, kind })).filter(({ count }) => count > 0)
    this.actions = present.map(({ kind }) => this.table.nameOf(kind))
    const typed = atRest(RESTS_MS, () => store.set({ search: this.search.value }))
    this.search = searchField(`Search: ${HINT}`, typed, {
      class: "event-search",
      placeholder: HINT,
      keydown: (event: KeyboardEvent) => event.key === "Enter" && this.list.element.focus(),
    })
    this.chips = present.map(({ kind, count }) =>
      h(
        "button.chip",
        {
          type: "button",
          class: "action-chip",
          "aria-pressed": "false",
          "data-action": this.table.nameOf(kind),
          click: () => this.toggle(this.table.nameOf(kind)),
        },
        this.table.nameOf(kind),
        h("small", ` ${formatCount(count)}`),
      ),
    )
    this.list = new VirtualList({
      label: "Events",
      class: "events-list",
      empty: "No event matches.",
      columns: [
        { title: "Event", class: "num" },
        { title: "Time", class: "num" },
        { title: "Action", class: "action" },
        { title: "Size", class: "num" },
        { title: "Address", class: "num" },
        { title: "Stream", class: "num" },
        { title: "Call site" },
      ],
      count: () => this.events.length,
      row: (k) => this.row(this.events[k]),
      rowClass: (k) => (this.events[k] === store.state.cursor ? "now" : null),
      rowAttributes: (k) => ({ "data-event": String(this.events[k]) }),
      onSelect: (k) => this.go(this.events[k]),
    })
    this.element = h(
      "div",
      h(
        "div.toolbar.event-filter",
        this.search,
        h("div.action-chips", { role: "group", "aria-label": "Actions" }, ...this.chips),
        this.count,
      ),
      this.list.element,
      this.detail,
    )
  }

  update(state: State, before: State | null): void {
    if (state.search !== this.typed || !before || state.filters !== before.filters) this.filter(state.search)
    if (!before || state.cursor !== before.cursor) {
      this.list.refresh()
      if (state.cursor !== this.own) this.reveal(state.cursor)
      this.own = -2
      this.tell(state.cursor)
    }
  }

  /** Keeps the events that match a search. */
  private filter(search: string): void {
    this.typed = search
    if (this.search.value !== search) this.search.value = search
    const filter = parseFilter(search, this.actions)
    this.events = this.table.select(filter, this.store.hidden)
    for (const chip of this.chips) chip.setAttribute("aria-pressed", String(filter.actions.has(chip.dataset.action!)))
    const all = this.table.kind.length
    this.count.textContent =
      this.events.length === all ? plural(all, "event") : `${formatCount(this.events.length)} of ${plural(all, "event")}`
    this.list.refresh()
    this.reveal(this.store.state.cursor)
  }

  /** Puts the word of an action into the search, or takes it out. */
  private toggle(action: string): void {
    const words = this.search.value.split(/\s+/).filter(Boolean)
    const without = words.filter((word) => word !== action)
    this.store.set({ search: (without.length < words.length ? without : [...words, action]).join(" ") })
  }

  /** Scrolls to an event, or to the last listed one before it. */
  private reveal(event: number): void {
    const at = firstPlace(0, this.events.length, (k) => this.events[k] >= event)
    const row = this.events[at] === event ? at : at - 1
    this.list.selected = this.events[at] === event ? at : -1
    // With its neighbours, which show what led to it.
    for (const near of [row + AROUND, row - AROUND, row]) this.list.reveal(Math.min(Math.max(near, 0), this.events.length - 1))
  }

  private go(event: number): void {
    const allocation = this.table.allocationOf(event)
    const oom = this.store.history.ooms.findIndex((each) => each.event === event)
    this.own = event
    this.store.goTo(event, oom >= 0 ? { pinned: -1, pinnedOom: oom } : { pinned: allocation, pinnedOom: -1 })
  }

  /** Shows the call stack of an event. */
  private tell(event: number): void {
    const {
      table,
      store: { history },
    } = this
    const title = `Call stack of ${event < 0 ? "" : table.actionOf(event)} at event ${formatCount(event)}`
    const born = event >= 0 && table.kind[event] === ALLOC
    const reason = born
      ? missingReason(history.device, table.allocationOf(event))
      : history.device.rest && event >= 0 && table.kind[event] === UNKNOWN
        ? "What happened here is not drawn; this page was rendered without it."
        : "No call stack was recorded for this event."
    this.detail.replaceChildren(...(event < 0 ? [] : [stackView(history, title, table.stackOf(event), reason)]))
  }

  private row(event: number): (Node | string)[] {
    const { table, store } = this
    const time = store.history.timeOf(event)
    const address = table.addressOf(event)
    const stream = table.streamOf(event)
    const kind = table.kind[event]
    const action = table.actionOf(event)
    const tone = action === "oom" ? "danger" : kind === ALLOC ? "grows" : kind <= FREE_COMPLETED ? "shrinks" : "other"
    return [
      formatCount(event),
      time === null ? "" : formatDuration(time),
      h("span", { class: `action-${tone}` }, action),
      bytesCell(table.sizeOf(event)),
      address === null ? "" : formatAddress(address),
      stream === null ? "" : stream === 0 ? "0" : formatAddress(stream),
      this.site(event),
    ]
  }

  private site(event: number): HTMLElement | string {
    const { stacks } = this.store.history
    const own = this.table.stackOf(event)
    const stack = this.table.tellingStack(event)
    const frame = stack < 0 ? -1 : stacks.stackSite[stack]
    if (frame < 0) return ""
    const site = siteText(stacks, frame)
    return h("span", { title: site.fullName, class: stack === own ? null : "muted" }, stack !== own && "allocated by ", ...siteParts(site))
  }
}
