/** One device's part of the page: puts the living timeline and tree where the still ones were. */

import { History } from "../lib/history"
import { readDevice, type Stacks } from "../lib/device"
import type { Payload } from "../lib/payload"
import type { Window } from "../lib/window"
import { siteColours } from "../lib/colours"
import type { Surface } from "../gl/surface"
import { Store } from "../store"
import type { RasterClient } from "../worker/client"
import { oomDetails } from "./details"
import { h } from "./dom"
import { completeSites, completeStages } from "./tables"
import { Timeline } from "./timeline"
import { TreeView } from "./tree"

export class DevicePage {
  private timeline: Timeline | null = null
  private store: Store | null = null

  constructor(private readonly article: HTMLElement, private readonly payload: Payload, private readonly stacks: Stacks, private readonly index: number) {}

  /** Shows the device; what it needs is made the first time. */
  show(surface: Surface, client: RasterClient, onFirstPicture: () => void): void {
    this.article.hidden = false
    const fresh = this.store === null
    this.store ??= new Store(new History(readDevice(this.payload, this.index), this.stacks))
    const { store } = this
    const { device } = store.history
    performance.mark("history")
    if (device.count === 0) {
      if (fresh) this.linkOoms(store)
      return onFirstPicture()
    }
    const slot = this.article.querySelector(".stage-slot")
    if (!slot) {
      // Without a history there is one state, and no time to draw it over.
      if (fresh) this.complete(store)
      return onFirstPicture()
    }
    this.timeline = new Timeline(store, surface, client, () => {
      onFirstPicture()
      // After the first picture: nobody reads a tree before there is something to see.
      if (fresh) requestAnimationFrame(() => this.complete(store))
    })
    slot.replaceChildren(this.timeline.element)
    this.timeline.start()
    performance.mark("timeline")
  }

  /** The steps and bytes shown, or null where there is no timeline. */
  get window(): Window | null {
    return this.timeline && this.store ? this.store.state.window : null
  }

  get settled(): boolean {
    return this.timeline?.settled ?? true
  }

  pixels(): ImageData | null {
    return this.timeline?.pixels() ?? null
  }

  /** Hides the device; its window and selection are kept for the next time. */
  hide(): void {
    this.article.hidden = true
    this.timeline?.free()
    this.timeline = null
  }

  private complete(store: Store): void {
    const tree = this.article.querySelector<HTMLElement>("section.tree")!
    tree.querySelector(".tree-slot")!.append(new TreeView(store).element)
    tree.hidden = false
    const dark = matchMedia("(prefers-color-scheme: dark)").matches
    const colours = this.timeline && siteColours(store.history.sites.rows, dark)
    const sites = this.article.querySelector("section.sites")
    if (sites) completeSites(sites, store, colours)
    const stages = this.article.querySelector("section.stages")
    const zoomTo = (stage: number) => {
      this.timeline?.zoomToStage(stage)
      this.showTimeline()
    }
    if (stages) completeStages(stages, store, this.timeline && zoomTo)
    this.linkOoms(store)
  }

  /** Leads from each warning of a failed request to its call stack; the last may stand for several. */
  private linkOoms(store: Store): void {
    const warnings = [...this.article.querySelectorAll('[data-code="out-of-memory"]')]
    warnings.slice(0, store.history.ooms.length).forEach((warning, oom) => {
      warning.append(" ", h("button", { type: "button", class: "link", click: () => this.showOom(store, warning, oom) }, "Show its call stack"))
    })
  }

  /** Shows a failed request beside the timeline, or under its warning where there is none. */
  private showOom(store: Store, warning: Element, oom: number): void {
    if (this.timeline) {
      store.pinOom(oom)
      return this.showTimeline()
    }
    const close = () => warning.querySelector(".details")?.remove()
    close()
    warning.append(oomDetails(store.history, oom, (other) => this.showOom(store, warning, other), close))
  }

  private showTimeline(): void {
    this.article.querySelector("section.timeline")?.scrollIntoView({ block: "start" })
  }
}
