/** One device's part of the page: replaces the static parts by the interactive timeline and panels. */

import type { Device, Stacks } from "../../lib/data/device"
import { readDevice, readLater } from "../../lib/data/read_device"
import { History } from "../../lib/data/history"
import { encodeLink, type Link } from "../../lib/text/link"
import type { Payload } from "../../lib/data/payload"
import { filterText, groupBy } from "../../lib/tables/grouping"
import { viewAsMarkdown } from "../../lib/tables/share_text"
import type { Window } from "../../lib/picture/window"
import type { Surface } from "../../gl/surface"
import { Store } from "../../store"
import type { RasterClient } from "../../worker/client"
import { follow, linkOf } from "./address"
import { AllocatorPanel } from "../panels/allocator_panel"
import { copyButton, offerCopies } from "../shared/clipboard"
import { oomDetails } from "../shared/details"
import { linkButton } from "../shared/controls"
import { h } from "../shared/dom"
import { EventsPanel } from "../panels/events_panel"
import { LinesPanel } from "../panels/lines_panel"
import { LivePanel } from "../panels/live_panel"
import { filterChip, momentBar } from "./moment_bar"
import { zoomToEvents } from "../timeline/moves"
import { Panels, type Tab, tabsOf } from "../panels/panels"
import { SettingsTable } from "../panels/settings_table"
import { StagesPanel } from "../panels/stages_panel"
import { StacksPanel } from "../panels/stacks_panel"
import { StepsPanel } from "../panels/steps_panel"
import { Timeline } from "../timeline/timeline"

/** How long the first picture may take before the panels are made without it. */
const PATIENCE_MS = 2000

export class DevicePage {
  private timeline: Timeline | null = null
  private store: Store | null = null
  private panels: Panels | null = null
  /** Resolves when all columns are read. */
  private later: Promise<void> | null = null

  /** `whole`: loads the rest of the payload; `onView`: called when the view, and so its link, changes. */
  constructor(
    private readonly article: HTMLElement,
    private readonly payload: Payload,
    private readonly stacks: Stacks,
    private readonly index: number,
    private readonly whole: () => Promise<void>,
    private readonly onView: () => void,
  ) {}

  /** Shows the device, in the view of a link if there is one; creates its parts the first time. */
  show(surface: Surface, client: RasterClient, link: Link | null, onFirstPicture: () => void): void {
    this.article.hidden = false
    this.article.dataset.shown = "" // while the page starts, its style sheet hides all but the default device
    const fresh = this.store === null
    this.store ??= new Store(new History(this.read(), this.stacks), this.payload.header.colour)
    const { store } = this
    if (fresh) store.on(() => this.onView())
    performance.mark("history")
    if (link) this.follow(link)
    if (fresh) this.article.querySelector(".top")!.after(filterChip(store))
    const slot = this.article.querySelector(".stage-slot")
    if (!slot || store.history.device.count === 0) {
      // Without a history there is only one state, and nothing to draw over time.
      if (fresh) this.complete(store, link)
      return onFirstPicture()
    }
    let told = false
    const drawn = () => {
      if (told) return
      told = true
      onFirstPicture()
      // After the first picture, which readers want to see first.
      requestAnimationFrame(async () => {
        await this.later
        timeline.element.inert = false
        if (fresh) this.complete(store, link)
        setTimeout(() => {
          client.hire()
          this.timeline?.accelerate()
        })
      })
    }
    const timeline = new Timeline(store, surface, client, this.payload.header.summary.title, drawn)
    this.timeline = timeline
    // What a click would tell, or another colour show, is not read yet.
    timeline.element.inert = this.later !== null
    slot.querySelector(".static")?.classList.add("covered")
    slot.append(timeline.element)
    timeline.start()
    setTimeout(drawn, PATIENCE_MS) // what is there to read does not wait for a picture that never comes
    performance.mark("timeline")
  }

  private read(): Device {
    const { payload, index } = this
    const device = readDevice(payload, index)
    if (payload.whole) readLater(payload, index, device)
    else this.later = this.whole().then(() => readLater(payload, index, device))
    return device
  }

  /** Shows the view of another link to this device. */
  follow(link: Link): void {
    if (!this.store) return
    follow(this.store, link)
    this.restoreSelection(link)
    this.showPanel(link)
  }

  /** Scrolls to the panel, if a link is about what it shows. */
  private showPanel({ tab, search, stacks, focus }: Link): void {
    const is = tab ?? search ?? stacks ?? focus
    if (is !== undefined && this.panels) this.article.querySelector(".moment")!.scrollIntoView({ block: "start" })
  }

  /** Goes to the search of the open tab, or to that of call stacks where it has none. */
  search(): void {
    const field = () => this.panels?.element.querySelector<HTMLInputElement>("input[type=search]")
    if (!field()) this.store?.set({ tab: "stacks" })
    field()?.focus()
  }

  /** The events and bytes shown, or null where there is no timeline. */
  get window(): Window | null {
    return this.timeline && this.store ? this.store.state.window : null
  }

  get settled(): boolean {
    return this.timeline?.settled ?? true
  }

  pixels(): ImageData | null {
    return this.timeline?.pixels() ?? null
  }

  /** The view as a link; `device` is undefined for the one that the page opens with. */
  link(device: number | undefined): Link {
    return this.store ? linkOf(this.store, device) : { device }
  }

  /** Hides the device; its window and selection are kept for the next time. */
  hide(): void {
    this.article.hidden = true
    delete this.article.dataset.shown
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
      this.panels = new Panels(store, this.tabs(store, still))
      const share = copyButton("Copy as Markdown", "This moment's figures and call sites, for an issue", () => this.asMarkdown(store))
      const address = copyButton(
        "Copy link",
        "The address of this view: it works for everyone who has this file under the same name",
        () => location.href,
      )
      const bar = momentBar(store)
      bar.querySelector(".moment-head")!.append(h("div", { class: "share" }, share, address))
      still.classList.add("covered") // it stays for paper
      still.after(bar, this.panels.element)
      if (link) this.restoreSelection(link)
      if (link) this.showPanel(link)
    }
    document.documentElement.dataset.complete = String(this.index)
  }

  private tabs(store: Store, still: Element): Tab[] {
    const zoomTo =
      this.timeline &&
      ((start: number, end: number) => {
        zoomToEvents(store, start, end)
        this.showTimeline()
      })
    const settings = still.querySelector("section.settings")
    const sections = [
      ...still.querySelectorAll("section.trust, section.cut, section.facts"),
      ...document.querySelectorAll("section.about"),
    ].map(copyOf)
    for (const section of sections) offerCopies(section.querySelectorAll(".better pre"))
    const makers: Record<string, Tab["make"]> = {
      stacks: () => new StacksPanel(store),
      lines: () => new LinesPanel(store),
      live: () => new LivePanel(store),
      stages: () => new StagesPanel(store, zoomTo),
      steps: () => new StepsPanel(store, zoomTo),
      allocator: () =>
        new AllocatorPanel(store, settings && new SettingsTable(copyOf(settings), store, this.timeline && (() => this.showTimeline()))),
      events: () => new EventsPanel(store),
      // What the file says about the recording does not change with the moment.
      recording: () => ({ element: h("div", { class: "recording-panel" }, ...sections), update() {} }),
    }
    return tabsOf(store.history).map((tab) => ({ ...tab, make: makers[tab.id] }))
  }

  private asMarkdown(store: Store): string {
    const { state, history, counted } = store
    return viewAsMarkdown(counted, {
      title: this.payload.header.summary.title,
      curve: state.curve,
      event: state.cursor,
      filter: filterText(groupBy(history, state.colouring), state.filtered),
      selection: state.selection,
      fragment: encodeLink(this.link(this.index === this.payload.header.summary.default ? undefined : this.index)),
    })
  }

  private restoreSelection(link: Link): void {
    const [panel, key] = [/^\w+/.exec(link.selection ?? "")?.[0], link.selection?.replace(/^\w+:/, "")]
    if (panel && key) this.panels?.restore(panel, key)
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

/** A copy of a part of the page: the original stays in place for printing. */
function copyOf(section: Element): HTMLElement {
  const copy = section.cloneNode(true) as HTMLElement
  copy.removeAttribute("aria-labelledby")
  copy.classList.remove("still") // which hides what the page draws itself
  copy.querySelectorAll("[id]").forEach((element) => element.removeAttribute("id"))
  return copy
}
