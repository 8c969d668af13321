/** The timeline: strips, overlay, tooltip and side panel of one device. */

import type { Surface } from "../gl/surface"
import { bandRows, bandsIn } from "../lib/bands"
import { cssColour, siteColours } from "../lib/colours"
import { stripsOf } from "../lib/curves"
import { ID, type Raster } from "../lib/raster"
import { onTheme, readTheme, type Theme } from "../lib/theme"
import { sameWindow, zoomed } from "../lib/window"
import type { State, Store } from "../store"
import type { RasterClient } from "../worker/client"
import { details, oomDetails } from "./details"
import { h } from "./dom"
import { type Geometry, layOut } from "./geometry"
import { helpDialog } from "./help"
import { listen } from "./input"
import { legend } from "./legend"
import { bandTop, type Box, Overlay } from "./overlay"
import { toolbar } from "./toolbar"
import { allocationTip, oomTip, stageTip, Tooltip } from "./tooltip"

/** Works in CSS pixels; rasters and canvases in device pixels, names ending in Px. */
export class Timeline {
  readonly element: HTMLElement
  private readonly plot: HTMLElement
  private readonly side: HTMLElement
  private readonly lines = h("canvas", { class: "lines" })
  private readonly live = h("p", { class: "hidden", "aria-live": "polite" })
  private readonly help = helpDialog()
  private readonly tooltip = new Tooltip()
  private readonly overlay: Overlay
  private readonly resizing = new ResizeObserver(() => this.resize())
  private readonly stopTheme: () => void
  private theme!: Theme
  private colours: Uint8Array = new Uint8Array(0)
  private geometry!: Geometry
  private ratio = 1
  private raster: Raster | null = null
  private base: Raster | null = null
  private box: Box | null = null
  private frame = 0

  constructor(
    private readonly store: Store,
    private readonly surface: Surface,
    private readonly client: RasterClient,
    private readonly onFirstPicture: () => void,
  ) {
    const { history } = store
    this.plot = h("div", {
      class: "plot", tabindex: 0, role: "application", "aria-roledescription": "memory timeline",
      "aria-label": `Timeline of ${history.device.id}. Arrow keys move, plus and minus zoom, P goes to the peak, question mark lists the keys.`,
    }, surface.canvas, this.lines, this.tooltip.element)
    this.side = h("aside", { class: "side", "aria-label": "Selection" })
    this.element = h("div", { class: "live" },
      toolbar(store, { showPeak: () => this.showPeak(), showHelp: () => this.toggleHelp() }),
      surface.note && h("p", { class: "note" }, surface.note),
      h("div", { class: "panes" }, this.plot, this.side), this.live, this.help)
    this.overlay = new Overlay(this.lines, history, surface.painter.software)
    surface.painter.clear()
    surface.painter.onRestored = () => this.redraw()
    client.onRaster = (raster) => this.receive(raster)
    this.client.load(stripsOf(history.device, store.state.curve))
    store.on((state, before) => this.changed(state, before))
    listen(this.plot, store, {
      geometry: () => this.geometry,
      hoverAt: (x, y) => this.hoverAt(x, y),
      clickAt: (x, y) => this.clickAt(x, y),
      leave: () => this.hover(-1),
      showBox: (box) => {
        this.box = box
        this.redraw()
      },
      showPeak: () => this.showPeak(),
      toggleHelp: () => this.toggleHelp(),
    })
    this.stopTheme = onTheme(() => this.restyle())
  }

  /** Begins, once the element stands in the page. */
  start(): void {
    this.restyle()
    this.resizing.observe(this.plot)
    this.resize()
  }

  /** Lets go of the canvas and the worker, which the next timeline takes over. */
  free(): void {
    this.resizing.disconnect()
    this.stopTheme()
    cancelAnimationFrame(this.frame)
    this.element.remove()
  }

  /** Whether what is on the screen is the exact picture of the present window. */
  get settled(): boolean {
    return this.client.idle && !this.frame
  }

  /** The strips as they are now. */
  pixels(): ImageData {
    const { canvas } = this.surface
    const copy = h("canvas", { width: canvas.width, height: canvas.height }).getContext("2d")!
    this.draw() // what was drawn is gone once it was shown
    copy.drawImage(canvas, 0, 0)
    return copy.getImageData(0, 0, canvas.width, canvas.height)
  }

  /** The allocation under a point, or -1; looks into the last raster, whatever window that was for. */
  pick(x: number, y: number): number {
    if (!this.raster) return -1
    const { geometry: g, raster } = this
    const w = this.store.state.window
    const inX = (x - g.left) / g.plotWidth
    const inY = 1 - (y - g.top) / g.plotHeight
    if (inX < 0 || inX >= 1 || inY < 0 || inY >= 1) return -1
    const of = raster.window
    const column = Math.floor(((w.x0 + inX * (w.x1 - w.x0) - of.x0) / (of.x1 - of.x0)) * raster.width)
    const row = Math.floor(((w.y0 + inY * (w.y1 - w.y0) - of.y0) / (of.y1 - of.y0)) * raster.height)
    if (column < 0 || row < 0 || column >= raster.width || row >= raster.height) return -1
    return (raster.ids[column * raster.height + row] & ID) - 1
  }

  private restyle(): void {
    this.theme = readTheme(this.plot)
    const { sites } = this.store.history
    this.colours = siteColours(sites.rows, this.theme.dark)
    this.surface.painter.setColours(sites.ofAllocation, this.colours, this.theme.background)
    this.showSide()
    this.redraw()
  }

  private resize(): void {
    const { width, height } = this.plot.getBoundingClientRect()
    if (width < 1 || height < 1) return
    this.ratio = devicePixelRatio || 1
    const remPx = parseFloat(getComputedStyle(document.documentElement).fontSize)
    const g = layOut(width, height, bandRows(this.store.history.device.summary.stages), remPx)
    this.geometry = g
    Object.assign(this.surface.canvas.style, { left: `${g.left}px`, top: `${g.top}px`, width: `${g.plotWidth}px`, height: `${g.plotHeight}px` })
    const [widthPx, heightPx] = this.stripsPx()
    this.surface.painter.resize(widthPx, heightPx)
    this.overlay.resize(Math.round(width * this.ratio), Math.round(height * this.ratio))
    this.draw()
    this.ask()
  }

  private stripsPx(): [number, number] {
    return [Math.round(this.geometry.plotWidth * this.ratio), Math.round(this.geometry.plotHeight * this.ratio)]
  }

  private changed(state: State, before: State): void {
    if (state.curve !== before.curve) {
      this.base = null
      this.client.load(stripsOf(this.store.history.device, state.curve))
      this.ask()
    } else if (!sameWindow(state.window, before.window)) this.ask()
    if (state.pinned !== before.pinned || state.pinnedOom !== before.pinnedOom || state.chosenGroup !== before.chosenGroup) this.showSide()
    if (state !== before) this.redraw()
  }

  private ask(): void {
    if (!this.geometry) return
    this.client.want(this.store.state.window, ...this.stripsPx())
  }

  private receive(raster: Raster): void {
    const first = this.raster === null
    if (!this.base && sameWindow(raster.window, this.store.whole)) {
      // The first picture shows everything: it stays behind all later ones.
      this.base = raster
      this.surface.painter.setBase(raster)
    } else if (this.raster && this.raster !== this.base) this.client.recycle(this.raster)
    this.raster = raster
    this.surface.painter.setDetail(raster)
    if (!first) return this.redraw()
    this.draw()
    this.onFirstPicture()
  }

  private redraw(): void {
    this.frame ||= requestAnimationFrame(() => this.draw())
  }

  private draw(): void {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    if (!this.geometry) return
    const { state } = this.store
    const site = state.hoveredGroup >= 0 ? state.hoveredGroup : state.chosenGroup
    this.surface.painter.draw(state.window, { hovered: state.hovered, pinned: state.pinned, site })
    this.overlay.draw(this.geometry, state.window, state.curve, this.theme, this.ratio, this.box, state.pinnedOom)
  }

  private hoverAt(x: number, y: number): void {
    const stage = this.stageAt(x, y)
    const oom = this.overlay.oomAt(x, y)
    this.plot.classList.toggle("pointing", stage >= 0 || oom >= 0)
    this.hover(stage < 0 && oom < 0 ? this.pick(x, y) : -1)
    const { history, state } = this.store
    if (oom >= 0) this.tooltip.show(oomTip(history, oom), x, y, this.geometry)
    else if (stage >= 0) this.tooltip.show(stageTip(history.device.summary.stages[stage]), x, y, this.geometry)
    else if (state.hovered >= 0) this.tooltip.show(allocationTip(history, state.hovered, this.colourOf(state.hovered)), x, y, this.geometry)
  }

  private hover(allocation: number): void {
    this.tooltip.hide()
    if (allocation !== this.store.state.hovered) this.store.set({ hovered: allocation })
  }

  private clickAt(x: number, y: number): void {
    const stage = this.stageAt(x, y)
    const oom = this.overlay.oomAt(x, y)
    if (oom >= 0) this.store.pinOom(oom)
    else if (stage >= 0) this.zoomToStage(stage)
    else this.store.pin(this.pick(x, y))
  }

  private stageAt(x: number, y: number): number {
    const g = this.geometry
    const { stages } = this.store.history.device.summary
    if (y >= g.top || !stages.length) return -1
    const rows = bandRows(stages)
    const hits = bandsIn(stages, this.store.state.window, g.plotWidth).filter((band) => {
      const top = bandTop(g, rows, band.row)
      return y >= top && y < top + g.bandHeight + 2 && x >= g.left + band.left && x < g.left + band.right
    })
    return hits.length ? hits[hits.length - 1].stage : -1
  }

  /** Shows the steps of a stage with a little on each side. */
  zoomToStage(stage: number): void {
    const { start_step, end_step } = this.store.history.device.summary.stages[stage]
    const margin = Math.max((end_step - start_step) * 0.04, 2)
    this.store.set({ window: { ...this.store.whole, x0: start_step - margin, x1: end_step + margin } })
  }

  /** Brings the peak to the middle, at a tenth of the recording. */
  private showPeak(): void {
    const { whole, history, state } = this.store
    const step = history.peakStep[state.curve]
    const span = whole.x1 - whole.x0
    const at = (step + 0.5 - whole.x0) / span
    const window = zoomed(whole, at, 0, 0.1, 1)
    this.store.set({ window: { ...window, x0: step + 0.5 - span * 0.05, x1: step + 0.5 + span * 0.05 } })
  }

  private toggleHelp(): void {
    if (this.help.open) this.help.close()
    else this.help.showModal()
  }

  private colourOf(allocation: number): string {
    return cssColour(this.colours, this.store.history.sites.ofAllocation[allocation])
  }

  private showSide(): void {
    const { history, state } = this.store
    const unpin = () => {
      this.store.pin(-1)
      this.plot.focus({ preventScroll: true })
    }
    if (state.pinnedOom >= 0) {
      this.side.replaceChildren(oomDetails(history, state.pinnedOom, (oom) => this.store.pinOom(oom), unpin))
      this.live.textContent = oomTip(history, state.pinnedOom).textContent
    } else if (state.pinned < 0) this.side.replaceChildren(legend(this.store, this.colours))
    else {
      this.side.replaceChildren(details(history, state.pinned, this.colourOf(state.pinned), unpin))
      this.live.textContent = allocationTip(history, state.pinned, "").textContent
    }
    this.side.scrollTop = 0
  }
}
