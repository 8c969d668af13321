/** What is under the pointer in the timeline: tooltips, and what a click chooses. */

import type { Grouping } from "../../lib/tables/grouping"
import { ID, NO_EVENT, type Raster } from "../../lib/picture/raster"
import { inWindow } from "../../lib/picture/window"
import type { Markers, Store } from "../../store"
import { type Geometry, regionAt } from "../drawing/geometry"
import type { Grip, Minimap } from "../drawing/minimap"
import type { Overlay } from "../drawing/overlay"
import { poolsAt } from "../../lib/data/replays"
import { allocationTip, markTip, oomTip, poolTip, restTip, stageTip, Tooltip } from "../drawing/tooltip"

/** Points are CSS pixels of the plot element. */
export class Pointing {
  private readonly tooltip = new Tooltip()

  /** `plot`: shows the tooltips, and has in `data-over` what the pointer is over; `sight`: what is on the screen now, with the raster
   * painted last, whatever window that was for. */
  constructor(
    private readonly store: Store,
    private readonly plot: HTMLElement,
    private readonly overlay: Overlay,
    private readonly map: Minimap,
    private readonly sight: () => { geometry: Geometry; raster: Raster | null; grouping: Grouping },
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
    this.plot.dataset.over = this.flagAt(x, y)
      ? "flag"
      : oom >= 0 || stage >= 0
        ? "target"
        : grip || (region === "axis" && this.onHandle(x) ? "handle" : region)
    this.hover(region === "plot" && oom < 0 ? this.pick(x, y) : -1)
    const { hovered } = this.store.state
    const show = (content: HTMLElement) => this.tooltip.show(content, x, y, g)
    if (oom >= 0) show(oomTip(history, oom))
    else if (stage >= 0) show(stageTip(history.device.summary.stages, stage))
    else if (mark) show(markTip(history.device, mark))
    else if (region === "plot") {
      const event = this.eventAt(x)
      const pool = this.poolAt(event, inWindow(g, this.store.state.window, { x, y }).y)
      const around = pool && poolTip(history, pool.pool, pool.top - pool.bottom, event)
      if (hovered < 0) return around ? show(around) : undefined
      if (hovered === history.device.rest?.row) return show(restTip(this.store, event))
      const group = ["site", "stage"].includes(grouping.colouring) ? "" : grouping.groups[grouping.ofAllocation[hovered]].label
      const tip = allocationTip(this.store, hovered, group)
      if (around) tip.append(" ", around)
      show(tip)
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
      store.zoomTo(start_event, end_event)
    } else if (mark) store.set({ cursor: store.history.device.eventIndex[mark.first] })
    else if (region === "plot") {
      const picked = this.pick(x, y)
      // What is not drawn one by one has no facts of a single allocation to show.
      store.set({ cursor: this.eventAt(x), pinned: picked === store.history.device.rest?.row ? -1 : picked, pinnedOom: -1 })
    }
  }

  /** The marker whose flag is under a point, or null. */
  flagAt(x: number, y: number): keyof Markers | null {
    return this.overlay.flagAt(x, y)
  }

  /** Whether a place on the axis is that of the cursor's handle. */
  onHandle(x: number): boolean {
    const { handle } = this.overlay.drawn
    return handle !== null && x >= handle.left && x < handle.left + handle.width
  }

  /** The event after which the state begins that is drawn nearest to a place; -1 at the left end. */
  stateAt(x: number): number {
    const { scale, state } = this.store
    const at = inWindow(this.geometry, state.window, { x, y: 0 }).x
    if (at <= scale.whole[0]) return -1
    const event = scale.eventAt(at)
    return at - scale.xOf(event) < scale.endOf(event) - at ? event - 1 : event
  }

  /** The event drawn at a place: the one with the most bytes in its pixel column. */
  eventAt(x: number): number {
    const { geometry: g, raster } = this.sight()
    const column = this.columnAt(x)
    const drawn = column < 0 ? NO_EVENT : raster!.events[column]
    if (drawn !== NO_EVENT) return drawn
    return this.store.scale.eventAt(inWindow(g, this.store.state.window, { x, y: 0 }).x)
  }

  /** The private pool whose band is at a place. */
  private poolAt(event: number, bytes: number) {
    const { counted, history } = this.store
    if (counted.partial) return undefined
    return poolsAt(history.curves.reserved, history.device.envelopes, event).find(({ top, bottom }) => bottom <= bytes && bytes < top)
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
