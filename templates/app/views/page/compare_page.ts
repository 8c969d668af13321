/** The view of two recordings: two timelines on linked axes, and panels that answer what NEW holds more than BASE. */

import type { Device, Stacks } from "../../lib/data/device"
import { History } from "../../lib/data/history"
import { beginOf, joined } from "../../lib/tables/joined"
import { once } from "../../lib/data/known"
import { momentText } from "../../lib/data/moment"
import { differs } from "../../lib/data/observed"
import type { Payload } from "../../lib/data/payload"
import { readDevice, readLater } from "../../lib/data/read_device"
import { Finder, type Goal } from "../../lib/tables/finder"
import { groupBy, groupTogether, keepOnly } from "../../lib/tables/grouping"
import { ROOT } from "../../lib/tables/tree"
import { formatBytes, formatChange, formatExact } from "../../lib/text/format"
import type { Link } from "../../lib/text/link"
import { Surface } from "../../gl/surface"
import { type State, Store } from "../../store"
import type { RasterClient } from "../../worker/client"
import { LinesPanel } from "../panels/lines_panel"
import { Panels, type Tab } from "../panels/panels"
import { StacksPanel } from "../panels/stacks_panel"
import { copyLinkButton } from "../shared/clipboard"
import { button } from "../shared/controls"
import { h, setChildren } from "../shared/dom"
import { inNextFrame } from "../shared/failure"
import { Legend } from "../timeline/legend"
import { Timeline } from "../timeline/timeline"
import { follow, linkOf } from "./address"
import type { Findable } from "./find_dialog"
import { copyOf, PATIENCE_MS } from "./device_page"
import { filterChips } from "./question_bar"
import { splitHandle } from "./split_handle"

const NAMES = ["BASE", "NEW"] as const
/** What both timelines and the panels always have in common. */
const SHARED = ["axis", "curve", "colouring", "filters", "hoveredGroup", "chosenGroup"] as const
const OPENS_WITH = "changes"
/** How much more of the height two timelines get than one, in percent. */
const MORE_HEIGHT = 18

export class ComparePage {
  timelines: Timeline[] = []
  /** BASE's and NEW's. */
  private sides: Store[] = []
  /** That of the panels: of NEW after BASE, whose markers are the cursors of both. */
  private both!: Store
  panels: Panels | null = null
  private readonly surface = new Surface()
  private finder: Finder | null = null
  private linking = false

  /** `devices`: those read so far; `stacks`: with one frame for each place of both; `client`: for the second timeline; `onView`: called when the view, and so its link, changes. */
  constructor(
    private readonly article: HTMLElement,
    private readonly payload: Payload,
    private readonly devices: Device[],
    private readonly stacks: Stacks,
    private readonly client: RasterClient,
    private readonly onView: () => void,
  ) {}

  show(surface: Surface, client: RasterClient, link: Link | null, onFirstPicture: () => Promise<void>): void {
    this.article.hidden = false
    this.article.dataset.shown = ""
    document.body.classList.add("one-screen")
    const fresh = !this.sides.length
    if (fresh) this.open()
    if (fresh || link) this.follow(link ?? {})
    const slot = this.article.querySelector(".stage-slot")!
    let waiting = 2
    const drawn = async () => {
      if (--waiting) return
      await onFirstPicture()
      for (const each of this.timelines) each.drawRest()
      if (fresh) this.complete()
      setTimeout(() => {
        for (const each of [client, this.client]) each.hire()
        for (const each of this.timelines) each.accelerate()
      })
    }
    slot.querySelector(".static")!.classList.add("covered")
    this.timelines = this.sides.map((store, k) => {
      const drawnOnce = once(drawn)
      setTimeout(drawnOnce, PATIENCE_MS)
      const { title } = this.payload.header.summary
      return new Timeline(store, k ? this.surface : surface, k ? this.client : client, `${NAMES[k]} of ${title}`, drawnOnce)
    })
    slot.parentElement!.after(splitHandle(this.article, MORE_HEIGHT))
    this.timelines.forEach((timeline, k) => {
      timeline.element.querySelector(".panes")!.prepend(h("h2.side-name", NAMES[k]))
      slot.append(timeline.element)
      timeline.start()
    })
  }

  hide(): void {
    this.article.hidden = true
    delete this.article.dataset.shown
    this.article.querySelector(".handle")?.remove()
    for (const each of this.timelines) each.free()
    this.timelines = []
  }

  /** Shows the view of a link: `a` and `b` are the cursors. */
  follow(link: Link): void {
    const { events, curve } = this.compared
    const [at, end] = [events, this.sides.map(({ history }) => history.device.events)]
    const cursors = [link.a, link.b].map((event, k) => (event !== undefined && event >= -1 && event < end[k] ? event : at[k]))
    const shared = { axis: link.axis, window: link.window, curve: link.curve ?? curve }
    this.together(() => {
      follow(this.both, { ...link, ...shared, window: undefined, cursor: undefined, a: undefined, b: undefined })
      const { colouring, filters } = this.both.state
      for (const store of this.sides) store.set({ filters }) // first: windows are as high as the higher side
      this.sides.forEach((store, k) => {
        follow(store, shared, { colouring, filters })
        store.set({ cursor: cursors[k] })
      })
      this.both.set({ tab: TABS.some(([id]) => id === link.tab) ? link.tab! : OPENS_WITH })
      const { pinned } = this.both.state
      const { count } = this.sides[0].history.device
      if (pinned >= 0) this.sides[pinned < count ? 0 : 1].pin(pinned < count ? pinned : pinned - count)
      this.ask()
    })
    this.linkWindows(this.sides[0])
    this.panels?.restore(link.selection)
  }

  link(device: number | undefined): Link {
    if (!this.sides.length) return { device }
    const { events, curve } = this.compared
    const [base, state] = [linkOf(this.sides[0], device), this.both.state]
    const cursor = (k: number) => (this.sides[k].state.cursor === events[k] ? undefined : this.sides[k].state.cursor)
    return {
      ...linkOf(this.both, device),
      window: base.window,
      axis: base.axis,
      cursor: undefined,
      curve: state.curve === curve ? undefined : state.curve,
      a: cursor(0),
      b: cursor(1),
      tab: state.tab === OPENS_WITH ? undefined : state.tab,
    }
  }

  /** The store that the panels answer for. */
  get asks(): Store | null {
    return this.sides.length ? this.both : null
  }

  /** There is no single one. */
  readonly moment = null

  get findable(): Findable | null {
    const { both, panels } = this
    if (!panels) return null
    const { history } = both
    const finder = (this.finder ??= new Finder(history, false))
    finder.at(both.counted, both.state.curve, both.state.cursor)
    const tabs = TABS.map(([tab, name]) => ({ kind: "tab", name, detail: "", goal: { to: "tab", tab } as const, bytes: null }))
    const go = (goal: Goal) => {
      if (goal.to === "function") {
        const { key, folded } = finder.inStacks(goal.at)
        both.set({ tab: "stacks", search: "", stacks: { mode: "down", folded, top: ROOT } })
        panels.restore(`stacks:${key}`)
      } else if (goal.to === "tab") both.set({ tab: goal.tab, search: goal.search ?? "" })
      else if (goal.to === "group") both.set({ filters: keepOnly(history, both.state.filters, goal.colouring, goal.at) })
    }
    return { finder, tabs, go }
  }

  /** What the page compares first. */
  private get compared(): { events: [number, number]; curve: "allocated" | "requested" } {
    const { events, curve } = this.payload.header.compared!
    return { events, curve: curve === "requested" ? curve : "allocated" }
  }

  /** Reads both recordings, and makes their stores. */
  private open(): void {
    const { payload, devices } = this
    const read = [0, 1].map((index) => {
      if (!devices[index]) readLater(payload, index, (devices[index] = readDevice(payload, index)))
      return devices[index]
    })
    const timed = read.every((device) => device.timed)
    const names = new Set(read.flatMap((device) => Object.keys(device.labels)))
    const [base, now] = read.map((device) => {
      const labels = [...names].map((name) => [name, device.labels[name] ?? new Int32Array(device.count).fill(-1)])
      return { ...device, timed, labels: Object.fromEntries(labels) }
    })
    const long = timed ? Math.max(...read.map(({ eventTime }) => eventTime.at(-1)! - eventTime[0])) : 0
    const histories = [base, now].map((device) => new History(device, this.stacks, null, long))
    const all = new History(joined(base, now), this.stacks)
    groupTogether(histories[0], histories[1], all)
    this.sides = histories.map((history) => new Store(history, payload.header.colour))
    this.both = new Store(all, payload.header.colour)
    const [one, other] = this.sides
    ;[one.beside, other.beside] = [other, one]
    for (const store of [...this.sides, this.both]) {
      store.on((state, before) => {
        this.spread(store, state, before)
        this.onView()
      })
    }
  }

  /** Makes all three stores agree after a change of one. */
  private spread(from: Store, state: State, before: State): void {
    if (this.linking) return
    const changed = SHARED.filter((part) => differs(state, before, part))
    const side = this.sides.indexOf(from)
    this.together(() => {
      const shared = Object.fromEntries(changed.map((part) => [part, state[part]])) as Partial<State>
      if (changed.length)
        for (const store of [...this.sides, this.both])
          if (store !== from) store.set(store === this.both ? { ...shared, axis: "events" } : shared)
      if (side >= 0) this.ask()
      if (side >= 0 && state.pinned !== before.pinned) this.pin(side, state.pinned)
      if (side < 0 && state.selection !== before.selection) this.highlight(state.selection)
      if (changed.includes("filters"))
        for (const store of this.sides) store.set({ window: { ...store.state.window, y0: store.whole.y0, y1: store.whole.y1 } })
    })
    if (side >= 0 && differs(state, before, "window", "axis")) this.linkWindows(from)
  }

  private together(act: () => void): void {
    this.linking = true
    try {
      act()
    } finally {
      this.linking = false
    }
  }

  /** Has the panels answer what NEW's cursor has more than BASE's. */
  private ask(): void {
    const [a, now] = this.sides.map(({ state }) => state.cursor)
    const b = beginOf(this.sides[0].history.device) + now
    const { markers } = this.both.state
    if (markers.a !== a || markers.b !== b) this.both.set({ markers: { a, b, c: null }, question: "change", cursor: b })
  }

  private pin(side: number, allocation: number): void {
    const first = side ? this.sides[0].history.device.count : 0
    this.both.pin(allocation < 0 ? -1 : first + allocation)
    if (allocation >= 0) this.sides[1 - side].pin(-1)
  }

  private highlight(selection: State["selection"]): void {
    const { count } = this.sides[0].history.device
    this.sides.forEach((store, k) =>
      store.set({ selection: selection && { ...selection, rows: k ? selection.rows.subarray(count) : selection.rows.subarray(0, count) } }),
    )
  }

  /** Shows the same share of the other recording, or the same time; and the same bytes. */
  private linkWindows(from: Store): void {
    const other = from.beside!
    const [w, whole, there] = [from.state.window, from.whole, other.whole]
    const x = (at: number) =>
      from.state.axis === "time" ? at : there.x0 + ((at - whole.x0) / (whole.x1 - whole.x0)) * (there.x1 - there.x0)
    const all = w.x0 === whole.x0 && w.x1 === whole.x1
    this.together(() => other.set({ window: { ...w, ...(all ? { x0: there.x0, x1: there.x1 } : { x0: x(w.x0), x1: x(w.x1) }) } }))
  }

  private complete(): void {
    const { both, article } = this
    const still = article.querySelector(".still")!
    document.documentElement.classList.remove("starting")
    const makers: Record<string, Tab["make"]> = {
      // Where the page is one screen, what stands at its end is here.
      [OPENS_WITH]: () => ({ element: h("div", copyOf(still), copyOf(document.querySelector("footer")!)), update() {} }),
      stacks: () => new StacksPanel(both),
      lines: () => new LinesPanel(both),
      groups: () => {
        const legend = new Legend(both)
        return {
          element: h("div.groups-panel", legend.element),
          update: ({ colouring }) => legend.update(groupBy(both.history, colouring), null),
        }
      },
    }
    this.panels = new Panels(
      both,
      TABS.map(([id, title]) => ({ id, title, make: makers[id] })),
      h("div.share", copyLinkButton()),
    )
    still.classList.add("covered")
    still.after(this.bar(), this.panels.element)
    document.documentElement.dataset.complete = String(this.devices.length)
  }

  /** What is compared: both moments, their bytes and the change. */
  private bar(): HTMLElement {
    const { sides, both } = this
    const title = h("h2.moment-title")
    const where = h("p.moment-where", { role: "status" })
    const chips = h("div.chips", { role: "group", "aria-label": "Filters" })
    const go = (label: string, name: string, to: (store: Store, k: number) => number) =>
      button(label, name, () => sides.forEach((store, k) => store.goTo(to(store, k))))
    const element = h(
      "div.moment",
      h(
        "div.moment-head",
        title,
        h(
          "div.moment-go",
          go("Start", "Compare both starts", () => -1),
          go("Peak", "Compare each one's peak of this curve", ({ counted, state }) => counted.peakEvent[state.curve]),
          go("End", "Compare both ends", ({ history }) => history.device.events - 1),
          go("As compared", "Compare the moments that the file was made for", (_, k) => this.compared.events[k]),
        ),
      ),
      where,
      h("div.question-bar", chips),
    )
    const say = () => {
      const { curve, filters } = both.state
      const [was, is] = sides.map(({ counted, state }) => counted.at(curve, state.cursor))
      const part = formatChange(is - was, was)
      const more = `${formatBytes(Math.abs(is - was))} ${is < was ? "less" : "more"} ${curve}${part && ` (${part})`}`
      title.textContent = `NEW has ${is === was ? `as much ${curve} as BASE` : more}`
      title.title = formatExact(is - was)
      where.textContent = sides
        .map(({ counted, state }, k) => `${NAMES[k]} ${momentText(counted, curve, state.cursor)}: ${formatBytes([was, is][k])}`)
        .join(" \u00b7 ")
      chips.hidden = !filters.size
      setChildren(chips, filters.size ? filterChips(both) : [])
    }
    const saySoon = inNextFrame({ element }, say)
    both.on((state, before) => differs(state, before, "markers", "curve", "filters") && saySoon())
    say()
    return element
  }
}

const TABS = [
  [OPENS_WITH, "What changed"],
  ["stacks", "Call stacks"],
  ["lines", "Lines"],
  ["groups", "Groups"],
] as const
