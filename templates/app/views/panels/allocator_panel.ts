/** The allocator's memory at the cursor: its totals, a map of segments and blocks, and fragmentation over time. */

import { blockAt } from "../../lib/picture/segment_flow"
import { formatAddress, formatBytes, formatCount, plural } from "../../lib/text/format"
import { fragmentationInParts } from "../../lib/data/fragmentation"
import { totalsAt } from "../../lib/data/moment"
import {
  blockOf,
  INACTIVE,
  type Kept,
  keptSegments,
  kindText,
  layOut,
  type Layout,
  poolText,
  segmentAround,
  segmentOfBlock,
  streamText,
} from "../../lib/data/segments"
import type { State, Store } from "../../store"
import { fragmentationChart, missing, partsOf, poolsTable, unknownBlocks } from "./allocator_totals"
import { siteOf } from "../shared/describe"
import { details } from "../shared/details"
import { button, type Option, segmented } from "../shared/controls"
import { h } from "../shared/dom"
import { inNextFrame, later } from "../shared/failure"
import { bytesCell, siteParts } from "../shared/frame_cells"
import type { Panel } from "./panels"
import { type BlockColour, type Order, placeText, SegmentMap } from "./segment_map"
import { VirtualList } from "../shared/virtual_list"

const STATES = ["allocated", "awaiting free", "free"]
const COLOURS: Option<BlockColour>[] = [
  ["state", "By state"],
  ["site", "By call site"],
]
const ORDERS: Option<Order>[] = [
  ["address", "By address"],
  ["size", "By size"],
]

/** The chart is computed in parts of this many events, so that the page stays responsive. */
const EVENTS_AT_ONCE = 4096
const AT_ONCE_MS = 12

export class AllocatorPanel implements Panel {
  readonly element: HTMLElement
  private readonly notes = h("div")
  /** Everything that needs every block. */
  private readonly body = h("div.allocator-body")
  private readonly parts = h("div.parts")
  private readonly groups = h("div.scroll")
  private readonly chart = h("div.fragmentation-slot")
  private readonly markSetting: (() => void) | null
  private readonly map: SegmentMap
  private readonly heading = h("h3")
  private readonly said = h("p.block-said", { role: "status" })
  private readonly blocks: VirtualList
  private readonly pinned = h("div.pinned-block")
  private readonly keepers: VirtualList
  private readonly keeping: HTMLElement
  private readonly keepingSaid = h("p.kept-said")
  private kept: Kept[] = []
  private fragmentation: ReturnType<typeof fragmentationChart> | null = null
  /** Whether the chart exists or is being computed. */
  private charted = false
  private layout: Layout | null = null
  private block = -1
  /** Where the chosen block begins: at another moment the block there is chosen. */
  private address: number | null = null
  /** What the list of blocks was last laid out for. */
  private listed: { layout: Layout | null; first: number } = { layout: null, first: -1 }
  private readonly showSoon = inNextFrame(this, () => this.show())

  /** `settings`: a copy of the page's section on other settings, or null; `show`: scrolls to the timeline, if there is one. */
  constructor(
    private readonly store: Store,
    settings: HTMLElement | null,
    show: (() => void) | null,
  ) {
    this.markSetting = settings && settingsTable(settings, store, show)
    this.map = new SegmentMap(
      store,
      (block) => this.choose(block),
      (block) => this.pin(block),
    )
    this.blocks = new VirtualList({
      label: "Blocks of the chosen segment",
      class: "blocks-list",
      empty: "No segment is chosen.",
      columns: [
        { title: "Offset", class: "num" },
        { title: "Address", class: "num" },
        { title: "State" },
        { title: "Block", class: "num" },
        { title: "Requested", class: "num" },
        { title: "Slack", class: "num" },
        { title: "Call site" },
      ],
      count: () => this.range()[1] - this.range()[0],
      row: (k) => this.row(this.range()[0] + k),
      rowAttributes: (k) => ({ "data-block": this.placeOf(this.range()[0] + k) }),
      rowClass: (k) => (this.isPinned(this.range()[0] + k) ? "now" : null),
      onSelect: (k) => this.choose(this.range()[0] + k),
      onOpen: (k) => this.pin(this.range()[0] + k),
    })
    this.keepers = new VirtualList({
      label: "Segments that small blocks keep",
      class: "kept-list",
      columns: [
        { title: "Cannot go back", class: "num" },
        { title: "Out of", class: "num" },
        { title: "Small blocks", class: "num" },
        { title: "Made by" },
      ],
      count: () => this.kept.length,
      row: (k) => this.keptRow(this.kept[k]),
      rowAttributes: (k) => ({ "data-block": this.placeOf(this.kept[k].blocks[0]) }),
      onSelect: (k) => this.choose(this.kept[k].blocks[0]),
      onOpen: (k) => this.pin(this.kept[k].blocks[0]),
    })
    this.keeping = h(
      "section",
      { "aria-label": "Free, but held back by small blocks" },
      h("h3", "Free, but held back by one or two small blocks"),
      this.keepingSaid,
      this.keepers.element,
    )
    this.body.append(
      this.parts,
      ...(settings ? [settings] : []),
      h("section", { "aria-label": "Fragmentation over time" }, this.chart),
      h(
        "section",
        { "aria-label": "Map of segments" },
        h(
          "div.map-head",
          h("h3", "Segments and blocks"),
          this.legend(),
          segmented<BlockColour>(
            "Colour",
            COLOURS,
            () => this.map.colour,
            (colour) => {
              this.map.colour = this.element.dataset.colour = colour
              this.map.draw()
            },
          ).element,
          segmented<Order>(
            "Order",
            ORDERS,
            () => this.map.order,
            (order) => {
              this.map.order = order
              this.map.draw()
              this.choose(this.block)
            },
          ).element,
        ),
        this.map.element,
        this.said,
      ),
      h(
        "section.segment-blocks",
        { "aria-label": "Blocks of one segment" },
        h(
          "div.map-head",
          this.heading,
          h(
            "div.buttons",
            button("\u2039", "The segment before", () => this.goToSegment(-1)),
            button("\u203a", "The next segment", () => this.goToSegment(1)),
          ),
        ),
        h("div.block-panes", this.blocks.element, this.pinned),
      ),
      this.keeping,
      h("section", { "aria-label": "By pool and stream" }, h("h3", "By pool and stream"), this.groups),
    )
    this.element = h("div.allocator", this.notes, this.body)
    this.element.dataset.colour = "state"
  }

  update(state: State, before: State | null): void {
    if (state.replay !== before?.replay) this.markSetting?.()
    if (!before) {
      this.show()
      // The map first: this takes a moment on a long recording.
      if (!this.charted) setTimeout(later(this.element, () => this.makeChart()))
      this.charted = true
      return
    }
    if (state.cursor !== before.cursor || state.colouring !== before.colouring) this.showSoon()
    else if (state.pinned !== before.pinned && !this.body.hidden) {
      this.follow(state.pinned)
      this.tell(state.pinned)
      this.map.mark()
      this.blocks.refresh()
    }
    if (state.axis !== before.axis) this.fragmentation?.say()
  }

  private show(): void {
    const { history, state } = this.store
    this.element.dataset.event = String(state.cursor)
    const unknown = history.device.rest?.active[state.cursor + 1] ?? 0
    this.body.hidden = unknown > 0
    if (unknown) return this.notes.replaceChildren(h("p.note", unknownBlocks(this.store, unknown)))
    this.layout = layOut(history.device, state.cursor)
    this.notes.replaceChildren(...missing(this.store, this.layout).map((text) => h("p.note", text)))
    this.parts.replaceChildren(...(totalsAt(history, state.cursor).reserved === null ? [] : partsOf(this.layout.total)))
    this.groups.replaceChildren(poolsTable(this.store, this.layout))
    this.block = -1 // block numbers have changed
    this.kept = keptSegments(history.device, this.layout)
    this.map.show(this.layout, this.kept)
    this.showKept()
    this.fragmentation?.say()
    this.follow(state.pinned)
    if (this.block < 0) this.chooseAddress()
    this.tell(state.pinned)
  }

  private makeChart(): void {
    const { history } = this.store
    if (history.device.events < 2 || history.device.rest) return // which takes every block
    const parts = fragmentationInParts(history.device, EVENTS_AT_ONCE)
    const goOn = () => {
      const end = performance.now() + AT_ONCE_MS
      while (performance.now() < end) {
        const { done, value } = parts.next()
        if (!done) continue
        this.fragmentation = fragmentationChart(this.store, value)
        this.chart.replaceChildren(this.fragmentation.element)
        return this.fragmentation.say()
      }
      setTimeout(later(this.element, goOn))
    }
    goOn()
  }

  private showKept(): void {
    this.keeping.hidden = !this.kept.length
    const bytes = formatBytes(this.kept.reduce((all, { kept }) => all + kept, 0))
    const whole = this.kept.every(({ segment, size }) => size === this.layout!.uses[segment].reserved)
    const what =
      whole || this.kept.length === 1
        ? plural(this.kept.length, whole ? "segment" : "page")
        : `${formatCount(this.kept.length)} pages and segments`
    const place = whole ? "segment" : "page"
    this.keepingSaid.textContent =
      `${bytes} are free in ${what}, but cannot go back to the driver while one or two small blocks live there: ` +
      `of an eighth of the ${place} at most. The map frames each in red.`
    this.keepers.refresh()
  }

  private keptRow({ size, kept, blocks }: Kept): (Node | string)[] {
    const layout = this.layout!
    const sites = [...new Set(blocks.map((block) => siteOf(this.store.history, layout.allocation[block])))]
    const held = blocks.reduce((all, block) => all + layout.size[block], 0)
    const names = sites.flatMap((site, k) => [k ? " and " : "", ...siteParts(site)])
    return [
      bytesCell(kept),
      formatBytes(size),
      bytesCell(held),
      h("span", { title: sites.map((site) => site.fullName).join("\n") }, ...names),
    ]
  }

  private legend(): HTMLElement {
    const keys = [
      ["requested", "allocated"],
      ["slack", "slack"],
      ["pending", "awaiting free"],
      ["fragmentation", "free, fragmented"],
      ["returnable", "free, returnable"],
      ["returnable only", "free"],
      ["kept", "kept by one or two small blocks"],
    ]
    return h("ul.map-keys", ...keys.map(([name, text]) => h("li", { class: `key part-${name}` }, text)))
  }

  /** Chooses the block of an allocation, if it is live. */
  private follow(allocation: number): void {
    const block = allocation < 0 || !this.layout ? -1 : blockOf(this.store.history.device, this.layout, allocation)
    if (block >= 0 && block !== this.block) this.choose(block)
    else if (block < 0 && this.address === null) this.chooseAddress()
  }

  /** Chooses the block that is now where the chosen one was, else the first of the first segment. */
  private chooseAddress(): void {
    const { layout, store } = this
    if (!layout?.rows.length) return this.choose(-1)
    const { segments } = store.history.device
    const held = this.address === null ? -1 : segmentAround(store.history.device, layout, this.address)
    const segment = held < 0 ? this.map.places[0] : held
    const block = held < 0 ? layout.first[segment] : blockAt(layout, held, this.address! - segments.address[layout.rows[held]])
    this.choose(block)
  }

  private choose(block: number): void {
    const { layout, store } = this
    this.block = block
    const { segments } = store.history.device
    const segment = block < 0 || !layout ? -1 : segmentOfBlock(layout, block)
    this.address = segment < 0 ? null : segments.address[layout!.rows[segment]] + layout!.offset[block]
    this.map.choose(block)
    this.heading.textContent = segment < 0 ? "No segment" : this.segmentText(segment)
    const [first] = this.range()
    if (layout !== this.listed.layout || first !== this.listed.first) this.blocks.refresh()
    this.listed = { layout, first }
    this.blocks.selected = block - first
    this.blocks.reveal(block - first)
    this.said.textContent = block < 0 ? "" : this.words(block)
  }

  /** Shows the details of the pinned allocation here, too, if it is live: the timeline may be far above. */
  private tell(allocation: number): void {
    const { history } = this.store
    const live = allocation >= 0 && blockOf(history.device, this.layout!, allocation) >= 0
    this.pinned.replaceChildren(...(live ? [details(this.store, allocation, () => this.store.pin(-1))] : []))
  }

  private segmentText(segment: number): string {
    const { device } = this.store.history
    const { address, pool, stream, kind, expandable } = device.segments
    const row = this.layout!.rows[segment]
    const place = this.map.places.indexOf(segment) + 1
    return [
      `Segment ${formatCount(place)} of ${formatCount(this.layout!.rows.length)}`,
      formatAddress(address[row]),
      formatBytes(this.layout!.uses[segment].reserved),
      poolText(device, pool[row]),
      streamText(device, stream[row]),
      `${kindText(kind[row])}${expandable[row] ? ", expandable" : ""}`,
    ].join(" \u00b7 ")
  }

  private words(block: number): string {
    const layout = this.layout!
    const id = layout.allocation[block]
    const site = id < 0 ? "" : `, ${siteOf(this.store.history, id).name} ${siteOf(this.store.history, id).place}`.trimEnd()
    return `${formatBytes(layout.size[block])} ${STATES[layout.state[block]]}${site}; ${placeText(this.store, layout, block)}`
  }

  private goToSegment(by: number): void {
    const { places } = this.map
    if (!this.layout || !places.length) return
    const at = this.block < 0 ? 0 : places.indexOf(segmentOfBlock(this.layout, this.block)) + by
    this.choose(this.layout.first[places[Math.min(Math.max(at, 0), places.length - 1)]])
  }

  /** Blocks of the chosen segment, as [first, end). */
  private range(): [number, number] {
    const { layout, block } = this
    if (!layout || block < 0 || block >= layout.state.length) return [0, 0]
    const segment = segmentOfBlock(layout, block)
    return [layout.first[segment], layout.first[segment + 1]]
  }

  private row(block: number): (Node | string)[] {
    const layout = this.layout!
    const { history } = this.store
    const { device } = history
    const id = layout.allocation[block]
    const start = device.segments.address[layout.rows[segmentOfBlock(layout, block)]] + layout.offset[block]
    const state = layout.state[block]
    const name = h("span", { class: `key part-${["requested", "pending", "fragmentation"][state]}` }, STATES[state])
    const common = [formatBytes(layout.offset[block]), formatAddress(start), name, bytesCell(layout.size[block])]
    if (state === INACTIVE) return [...common, "", "", ""]
    const site = siteOf(history, id)
    return [
      ...common,
      bytesCell(device.requested[id]),
      bytesCell(device.block[id] - device.requested[id]),
      h("span", { title: site.fullName }, ...siteParts(site)),
    ]
  }

  /** The segment that a block lies in, and its bytes from there. */
  private placeOf(block: number): string {
    const layout = this.layout!
    return `${layout.rows[segmentOfBlock(layout, block)]}+${layout.offset[block]}`
  }

  private isPinned(block: number): boolean {
    const id = this.layout!.allocation[block]
    return id >= 0 && id === this.store.state.pinned
  }

  private pin(block: number): void {
    const id = this.layout?.allocation[block] ?? -1
    if (id >= 0) this.store.pin(id)
  }
}

let made = 0

/** Lets the reader choose rows of a table that is in the page's HTML; returns what marks the chosen one.
 *
 * `section`: taken out of the page. `show`: scrolls to the timeline, if there is one. */
function settingsTable(section: HTMLElement, store: Store, show: (() => void) | null): () => void {
  if (!show || !store.history.device.replays.length) return () => {}
  const name = `replay-${made++}`
  const rows = [...section.querySelectorAll<HTMLTableRowElement>("tr[data-curve]")].map((row) => {
    const replay = Number(row.dataset.curve)
    const choose = () => {
      store.showReplay(replay)
      show()
    }
    const input = h("input", { type: "radio", name, change: choose })
    row.cells[0].replaceChildren(h("label", input, " ", ...row.cells[0].childNodes))
    return { row, input, replay }
  })
  const hint = "Choose one to see on the timeline what it would have reserved without a limit, over what was reserved."
  section.querySelector(".scroll")!.before(h("p", hint))
  return () => {
    for (const { row, input, replay } of rows) {
      input.checked = replay === store.state.replay
      row.classList.toggle("chosen", input.checked)
    }
  }
}
