/** One device's part of the page: replaces the static parts by the interactive timeline and panels. */

import type { Device, Stacks } from "../../lib/data/device"
import { once } from "../../lib/data/known"
import { readDevice, readLater } from "../../lib/data/read_device"
import { History } from "../../lib/data/history"
import { encodeLink, type Link } from "../../lib/text/link"
import type { Payload } from "../../lib/data/payload"
import { Finder, type Goal } from "../../lib/tables/finder"
import { ROOT } from "../../lib/tables/tree"
import { filterText, groupBy, keepOnly } from "../../lib/tables/grouping"
import { drawnRow, recordedRow } from "../../lib/data/rest"
import { viewAsMarkdown } from "../../lib/tables/share_text"
import type { Surface } from "../../gl/surface"
import { Store } from "../../store"
import type { RasterClient } from "../../worker/client"
import { follow, linkOf } from "./address"
import { AllocatorPanel } from "../panels/allocator_panel"
import { copyButton, copyLinkButton, offerCopies } from "../shared/clipboard"
import { oomDetails } from "../shared/details"
import { linkButton } from "../shared/controls"
import { h } from "../shared/dom"
import { EventsPanel } from "../panels/events_panel"
import { GroupsPanel } from "../panels/groups_panel"
import { LinesPanel } from "../panels/lines_panel"
import { LivePanel } from "../panels/live_panel"
import type { Findable } from "./find_dialog"
import { momentBar } from "./moment_bar"
import { questionBar } from "./question_bar"
import { curveStrip } from "./curve_strip"
import { splitHandle } from "./split_handle"
import { Panels, type Tab, tabsOf } from "../panels/panels"
import { StagesPanel } from "../panels/stages_panel"
import { StacksPanel } from "../panels/stacks_panel"
import { StepsPanel } from "../panels/steps_panel"
import { Timeline } from "../timeline/timeline"

/** How long the first picture may take before the panels are made without it. */
export const PATIENCE_MS = 2000

export class DevicePage {
  private timeline: Timeline | null = null
  private store: Store | null = null
  panels: Panels | null = null
  private finder: Finder | null = null
  private completed = false
  /** Where the page is one screen; the style sheet asks the same. */
  private readonly oneScreen = matchMedia("screen and (min-width: 62.5em) and (min-height: 35em)")
  /** Resolves when all columns are read. */
  private later: Promise<void> | null = null

  /** `devices`: those read so far; `whole`: loads the rest of the payload; `onView`: called when the view, and so its link, changes. */
  constructor(
    private readonly article: HTMLElement,
    private readonly payload: Payload,
    private readonly devices: Device[],
    private readonly stacks: Stacks,
    private readonly index: number,
    private readonly whole: () => Promise<void>,
    private readonly onView: () => void,
  ) {
    this.oneScreen.addEventListener("change", () => this.arrange())
    addEventListener("beforeprint", () => this.arrange(false))
    addEventListener("afterprint", () => this.arrange())
  }

  /** Shows the device, in the view of a link if there is one; creates its parts the first time.
   *
   * `onFirstPicture` resolves when the picture is on the screen, which readers want to see first. */
  show(surface: Surface, client: RasterClient, link: Link | null, onFirstPicture: () => Promise<void>): void {
    this.article.hidden = false
    this.article.dataset.shown = "" // while the page starts, its style sheet hides all but the default device
    const fresh = this.store === null
    this.store ??= new Store(new History(this.read(), this.stacks), this.payload.header.colour)
    const { store } = this
    if (fresh) store.on(() => this.onView())
    performance.mark("history")
    if (link) this.follow(link)
    document.body.classList.toggle("one-screen", this.article.querySelector(".brief") !== null)
    this.arrange()
    if (fresh) this.article.querySelector(".brief")?.addEventListener("click", (event) => this.act(store, event.target as Element))
    const slot = this.article.querySelector(".stage-slot")
    if (!slot || store.history.device.count === 0) {
      // Without a history there is only one state, and nothing to draw over time.
      if (fresh) this.complete(store, link)
      return void onFirstPicture()
    }
    const drawn = once(async () => {
      await onFirstPicture()
      timeline.drawRest()
      await this.later
      timeline.element.inert = false
      if (fresh) this.complete(store, link)
      setTimeout(() => {
        client.hire()
        this.timeline?.accelerate()
      })
    })
    const timeline = new Timeline(store, surface, client, this.payload.header.summary.title, drawn)
    this.timeline = timeline
    // What a click would tell, or another colour show, is not read yet.
    timeline.element.inert = this.later !== null
    slot.querySelector(".static")?.classList.add("covered")
    slot.append(timeline.element)
    if (fresh) slot.before(curveStrip(store, slot))
    slot.parentElement!.after(splitHandle(this.article))
    timeline.start()
    setTimeout(drawn, PATIENCE_MS) // what is there to read does not wait for a picture that never comes
    performance.mark("timeline")
  }

  /** Puts what is read once into the first tab of a page that is one screen, and above the timeline elsewhere and on paper. */
  private arrange(together = this.oneScreen.matches): void {
    const parts =
      "main > :is(.forecast-note, .notes, .findings), article[data-shown] > :is(.forecast-note, .notes, .findings, .top), body > footer"
    this.panels?.gather(together && !this.article.hidden ? parts : "")
  }

  /** Does what a button of the page's head says. */
  private act(store: Store, at: Element): void {
    const { opens, finding, oom } = at.closest("button")?.dataset ?? {}
    if (oom) store.pinOom(Number(oom))
    else if (finding) this.panels?.openFinding(finding)
    else if (opens) store.set({ tab: opens })
  }

  private read(): Device {
    const { payload, index, devices } = this
    if (devices[index]) return devices[index]
    const device = (devices[index] = readDevice(payload, index))
    if (payload.whole) readLater(payload, index, device)
    else this.later = this.whole().then(() => readLater(payload, index, device))
    return device
  }

  /** Shows the view of another link to this device. */
  follow(link: Link): void {
    if (!this.store) return
    follow(this.store, link)
    this.panels?.restore(link.selection)
    this.showPanel(link)
  }

  /** Scrolls to the panel, if a link is about what it shows. */
  private showPanel({ tab, search, stacks, focus }: Link): void {
    const is = tab ?? search ?? stacks ?? focus
    if (is !== undefined && this.panels && !this.oneScreen.matches)
      this.article.querySelector(tab === "findings" ? ".top" : ".moment")!.scrollIntoView({ block: "start" })
  }

  /** What can be found at the present moment; null until the page is complete. */
  get findable(): Findable | null {
    const { store } = this
    if (!store || !this.completed) return null
    const finder = (this.finder ??= new Finder(store.history))
    finder.at(store.counted, store.state.curve, store.state.cursor)
    const tabs = (this.panels ? tabsOf(store.history) : []).map(({ id, title }) => ({
      kind: "tab",
      name: title,
      detail: "",
      goal: { to: "tab", tab: id } as const,
      bytes: null,
    }))
    return { finder, tabs, go: (goal) => this.go(store, finder, goal) }
  }

  private go(store: Store, finder: Finder, goal: Goal): void {
    const { device } = store.history
    if (goal.to === "function") {
      const { key, folded, event } = finder.inStacks(goal.at)
      store.goTo(event, { tab: "stacks", search: "", stacks: { mode: "down", folded, top: ROOT } })
      this.panels?.restore(`stacks:${key}`)
      this.showPanel({ tab: "stacks" })
    } else if (goal.to === "tab") {
      store.set({ tab: goal.tab, ...(goal.search === undefined ? {} : { search: goal.search }) })
      this.showPanel({ tab: goal.tab })
    } else {
      if (goal.to === "group") store.set({ filters: keepOnly(store.history, store.state.filters, goal.colouring, goal.at) })
      else if (goal.to === "event") store.goTo(goal.at)
      else if (goal.to === "stage") {
        const { start_event, end_event, peak_event } = device.summary.stages[goal.at]
        store.zoomTo(start_event, end_event)
        store.goTo(peak_event ?? start_event)
      } else if (goal.to === "step") {
        const [start, end] = device.steps!.bounds.subarray(goal.at, goal.at + 2)
        store.zoomTo(start, end)
        store.goTo(start)
      }
      this.showTimeline()
    }
  }

  get timelines(): Timeline[] {
    return this.timeline ? [this.timeline] : []
  }

  /** The store that the panels answer for, once the device is shown. */
  get asks(): Store | null {
    return this.store
  }

  /** The one whose cursor is the page's. */
  get moment(): Store | null {
    return this.store
  }

  /** The view as a link; `device` is undefined for the one that the page opens with. */
  link(device: number | undefined): Link {
    return this.store ? linkOf(this.store, device) : { device }
  }

  /** Hides the device; its window and selection are kept for the next time. */
  hide(): void {
    this.article.hidden = true
    this.arrange()
    delete this.article.dataset.shown
    this.article.querySelector(".handle")?.remove()
    this.timeline?.free()
    this.timeline = null
  }

  /** Makes everything but the timeline. */
  private complete(store: Store, link: Link | null): void {
    document.documentElement.classList.remove("starting")
    this.linkOoms(store)
    offerCopies(this.article.querySelectorAll(".advice pre"))
    const still = this.article.querySelector(".still")
    if (still) {
      const share = copyButton("Copy as Markdown", "This moment's figures and call sites, for an issue", () => this.asMarkdown(store))
      this.panels = new Panels(store, this.tabs(store, still), h("div.share", share, copyLinkButton()))
      still.classList.add("covered") // it stays for paper
      still.after(momentBar(store), questionBar(store), this.panels.element)
      this.arrange()
      if (link) this.panels.restore(link.selection)
      if (link) this.showPanel(link)
    }
    this.completed = true
    document.documentElement.dataset.complete = String(this.index)
  }

  private tabs(store: Store, still: Element): Tab[] {
    const zoomTo =
      this.timeline &&
      ((start: number, end: number) => {
        store.zoomTo(start, end)
        this.showTimeline()
      })
    const settings = still.querySelector("section.settings")
    const sections = [
      ...still.querySelectorAll("section.trust, section.cut, section.facts, section.about"),
      ...document.querySelectorAll("main > section.about"),
    ].map(copyOf)
    for (const section of sections) offerCopies(section.querySelectorAll(".better pre"))
    const makers: Record<string, Tab["make"]> = {
      stacks: () => new StacksPanel(store),
      lines: () => new LinesPanel(store),
      live: () => new LivePanel(store),
      groups: () => new GroupsPanel(store),
      stages: () => new StagesPanel(store, zoomTo),
      steps: () => new StepsPanel(store, zoomTo),
      allocator: () => new AllocatorPanel(store, settings && copyOf(settings), this.timeline && (() => this.showTimeline())),
      events: () => new EventsPanel(store),
      // What the file says about the recording does not change with the moment.
      recording: () => ({ element: h("div.recording-panel", ...sections), update() {} }),
    }
    return tabsOf(store.history).map((tab) => ({ ...tab, make: makers[tab.id] }))
  }

  private asMarkdown(store: Store): string {
    const { state, history, counted } = store
    return viewAsMarkdown(counted, {
      title: this.payload.header.summary.title,
      question: store.asked,
      filter: filterText(history, state.filters),
      selection: state.selection,
      fragment: encodeLink(this.link(this.index === this.payload.header.summary.default ? undefined : this.index)),
    })
  }

  /** Links the finding about each failed request to its call stack. */
  private linkOoms(store: Store): void {
    for (const finding of this.article.querySelectorAll<HTMLElement>(".finding[data-oom]")) {
      const oom = Number(finding.dataset.oom)
      if (oom >= store.history.ooms.length) continue
      const foot = finding.querySelector(".foot")!
      foot.prepend(
        linkButton("Show its call stack", () => this.showOom(store, foot, oom)),
        " ",
      )
    }
  }

  /** Shows a failed request beside the timeline, or under its finding if there is no timeline. */
  private showOom(store: Store, foot: Element, oom: number): void {
    if (this.timeline) {
      store.pinOom(oom)
      return this.showTimeline()
    }
    const close = () => foot.parentElement!.querySelector(".details")?.remove()
    close()
    foot.after(oomDetails(store.history, oom, (other) => this.showOom(store, foot, other), close))
  }

  private showTimeline(): void {
    this.article.querySelector("section.timeline")?.scrollIntoView({ block: "nearest" })
  }
}

/** A question, and what answers it: allocations by their rows in the bundle, in bytes; of a change `moved` is what came and what went together. */
export function answerIn(store: Store | null | undefined) {
  if (!store) return null
  const { device } = store.counted
  const { bytes, moved, count } = store.amounts(new Uint8Array(device.count), 1)
  const rows = Array.from(store.answer.rows, (i) => recordedRow(device, i))
  return { ...store.asked, rows, bytes: bytes[0], moved: moved[0], count: count[0] }
}

/** The index of the group of an allocation, by its row in the bundle. */
export function groupIn(store: Store | null | undefined, colouring: string, row: number): number | null {
  if (!store) return null
  const drawn = drawnRow(store.history.device, row)
  return drawn < 0 ? null : groupBy(store.history, colouring).ofAllocation[drawn]
}

/** A copy of a part of the page: the original stays in place for printing. */
export function copyOf(section: Element): HTMLElement {
  const copy = section.cloneNode(true) as HTMLElement
  copy.removeAttribute("aria-labelledby")
  copy.classList.remove("still") // which hides what the page draws itself
  copy.querySelectorAll("[id]").forEach((element) => element.removeAttribute("id"))
  return copy
}
