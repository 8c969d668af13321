/** What is under the pointer in the timeline: tooltips, and what a click chooses. */

import type { Grouping } from "../../lib/tables/grouping"
import { ID, NO_EVENT, type Raster } from "../../lib/picture/raster"
import { inWindow } from "../../lib/picture/window"
import type { Store } from "../../store"
import { type Geometry, regionAt } from "../drawing/geometry"
import type { Grip, Minimap } from "../drawing/minimap"
import { zoomToEvents } from "./moves"
import type { Overlay } from "../drawing/overlay"
import { allocationTip, markTip, oomTip, restTip, stageTip, Tooltip } from "../drawing/tooltip"

/** What is on the screen now. */
export interface Sight {
  geometry: Geometry
  /** The last one painted, whatever window that was for. */
  raster: Raster | null
  grouping: Grouping
}

/** Points are CSS pixels of the plot element. */
export class Pointing {
  private readonly tooltip = new Tooltip()

  /** `plot`: shows the tooltips, and has in `data-over` what the pointer is over. */
  constructor(
    private readonly store: Store,
    private readonly plot: HTMLElement,
    private readonly overlay: Overlay,
    private readonly map: Minimap,
    private readonly sight: () => Sight,
  ) {
    plot.append(this.tooltip.element)
  }

  get geometry(): Geometry {
    return this.sight().geometry
  }

  /** The part of the map's box under a point of the map. */
  gripAt(x: number): Grip {
    return this.map.gripAt(this.geometry, this.store.scale, this.store.state.window, x)
  }

  /** What is marked at a point, or -1. */
  private marked(x: number, y: number) {
    const { overlay, geometry: g } = this
    const region = regionAt(g, x, y)
    return {
      region,
      oom: region === "plot" ? overlay.oomAt(x, y) : -1,
      stage: region === "bands" ? overlay.stageAt(g, x, y) : -1,
      mark: region === "rug" ? overlay.markAt(g, x) : null,
    }
  }

  hoverAt(x: number, y: number): void {
    const { geometry: g, grouping } = this.sight()
    const { history } = this.store
    const { region, oom, stage, mark } = this.marked(x, y)
    const grip = region === "map" ? this.gripAt(x) : ""
    this.plot.dataset.over = oom >= 0 || stage >= 0 ? "target" : grip || region
    this.hover(region === "plot" && oom < 0 ? this.pick(x, y) : -1)
    const { hovered } = this.store.state
    const show = (content: HTMLElement) => this.tooltip.show(content, x, y, g, this.overlay.drawn.ruler)
    if (oom >= 0) show(oomTip(history, oom))
    else if (stage >= 0) show(stageTip(history.device.summary.stages, stage))
    else if (mark) show(markTip(history.device, mark))
    else if (hovered >= 0) {
      if (hovered === history.device.rest?.row) return show(restTip(this.store, this.eventAt(x)))
      const group = grouping.colouring === "site" ? "" : grouping.groups[grouping.ofAllocation[hovered]].label
      show(allocationTip(this.store, hovered, group))
    }
  }

  leave(): void {
    this.hover(-1)
  }

  hideTip(): void {
    this.tooltip.hide()
  }

  clickAt(x: number, y: number): void {
    const { store } = this
    const { region, oom, stage, mark } = this.marked(x, y)
    if (oom >= 0) store.pinOom(oom)
    else if (stage >= 0) {
      const { start_event, end_event } = store.history.device.summary.stages[stage]
      zoomToEvents(store, start_event, end_event)
    } else if (mark) store.set({ cursor: store.history.device.eventIndex[mark.first] })
    else if (region === "plot") {
      const picked = this.pick(x, y)
      // What is not drawn one by one has no facts of a single allocation to show.
      store.set({ cursor: this.eventAt(x), pinned: picked === store.history.device.rest?.row ? -1 : picked, pinnedOom: -1 })
    }
  }

  /** The event drawn at a place: the one with the most bytes in its pixel column. */
  eventAt(x: number): number {
    const { geometry: g, raster } = this.sight()
    const column = this.columnAt(x)
    const drawn = column < 0 ? NO_EVENT : raster!.events[column]
    if (drawn !== NO_EVENT) return drawn
    return this.store.scale.eventAt(inWindow(g, this.store.state.window, { x, y: 0 }).x)
  }

  /** The allocation under a point, or -1. */
  private pick(x: number, y: number): number {
    const { geometry: g, raster } = this.sight()
    const w = this.store.state.window
    const inY = 1 - (y - g.top) / g.plotHeight
    if (!raster || inY < 0 || inY >= 1) return -1
    const of = raster.window
    const column = this.columnAt(x)
    const row = Math.floor(((w.y0 + inY * (w.y1 - w.y0) - of.y0) / (of.y1 - of.y0)) * raster.height)
    if (column < 0 || row < 0 || row >= raster.height) return -1
    return (raster.ids[column * raster.height + row] & ID) - 1
  }

  /** The last raster's column under a place, or -1. */
  private columnAt(x: number): number {
    const { geometry: g, raster } = this.sight()
    const inX = (x - g.left) / g.plotWidth
    if (!raster || inX < 0 || inX >= 1) return -1
    const w = this.store.state.window
    const of = raster.window
    const column = Math.floor(((w.x0 + inX * (w.x1 - w.x0) - of.x0) / (of.x1 - of.x0)) * raster.width)
    return column < raster.width ? column : -1
  }

  private hover(allocation: number): void {
    this.tooltip.hide()
    if (allocation !== this.store.state.hovered) this.store.set({ hovered: allocation })
  }
}
