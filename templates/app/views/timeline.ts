/** The timeline: strips, overlay, tooltip and side panel of one device. */

import { packed } from "../gl/strip_painter"
import type { Surface } from "../gl/surface"
import { bandRows } from "../lib/bands"
import { cssColour, groupColours, type Rgb } from "../lib/colours"
import { stripsOf } from "../lib/curves"
import { groupBy, type Grouping } from "../lib/grouping"
import { ID, NO_STEP, type Raster } from "../lib/raster"
import { onTheme, readTheme, type Theme } from "../lib/theme"
import { sameWindow } from "../lib/window"
import type { State, Store } from "../store"
import type { RasterClient } from "../worker/client"
import { details, oomDetails } from "./details"
import { h } from "./dom"
import { type Geometry, layOut, plotPx, regionAt } from "./geometry"
import { Help } from "./help"
import { listen, type Tool } from "./input"
import { Legend } from "./legend"
import { Minimap } from "./minimap"
import { Overlay } from "./overlay"
import { penOf } from "./pen"
import { savePicture } from "./picture"
import { pictureLegend } from "./picture_legend"
import { rulerText } from "./ruler"
import type { Box, Scene } from "./scene"
import { Toolbar } from "./toolbar"
import { allocationTip, markTip, oomTip, stageTip, Tooltip } from "./tooltip"

/** How much of their colour strips keep that are not brought out. */
const DIMMED = 0.2

/** Works in CSS pixels; rasters and canvases in device pixels, names ending in Px. */
export class Timeline {
  readonly element: HTMLElement
  private readonly plot: HTMLElement
  private readonly side: HTMLElement
  /** Where the strips are, for tests and pointers; the canvas reaches further. */
  private readonly strips = h("div", { class: "strips" })
  private readonly live = h("p", { class: "hidden", "aria-live": "polite" })
  private readonly help: Help
  private readonly tooltip = new Tooltip()
  private readonly toolbar: Toolbar
  private readonly legend: Legend
  private readonly lines = document.createElement("canvas")
  private readonly pen: CanvasRenderingContext2D
  private readonly overlay: Overlay
  private readonly map: Minimap
  private readonly resizing = new ResizeObserver(() => this.resize())
  private readonly stopTheme: () => void
  private readonly listening = new AbortController()
  private theme!: Theme
  private grouping!: Grouping
  private colours: Uint8Array = new Uint8Array(0)
  private geometry!: Geometry
  private ratio = 1
  private raster: Raster | null = null
  private base: Raster | null = null
  private box: Box | null = null
  private tool: Tool = "move"
  /** Whether the ruler's second end goes with the cursor. */
  private rulerFollows = false
  private frame = 0
  /** What the next frame has to make anew. */
  private stale = { overlay: true, palette: true, side: true }
  private freed = false

  /** `title`: of the report, for saved pictures. */
  constructor(
    private readonly store: Store,
    private readonly surface: Surface,
    private readonly client: RasterClient,
    private readonly title: string,
    private readonly onFirstPicture: () => void,
  ) {
    const { history } = store
    this.help = new Help(history)
    this.plot = h("div", {
      class: "plot", tabindex: 0, role: "application", "aria-roledescription": "memory timeline",
      "aria-label": `Timeline of ${history.device.id}. Arrow keys move, plus and minus zoom, brackets step the cursor, P goes to the peak, question mark lists the keys.`,
    }, surface.canvas, this.strips, this.tooltip.element)
    this.side = h("aside", { class: "side", "aria-label": "Selection" })
    this.toolbar = new Toolbar(store, {
      showPeak: () => this.showPeak(), showHelp: () => this.help.toggle(), setTool: (tool) => this.setTool(tool),
      save: (kind) => this.save(kind),
    })
    this.element = h("div", { class: "live" },
      this.toolbar.element,
      surface.note && h("p", { class: "note" }, surface.note),
      h("div", { class: "panes" }, this.plot, this.side), this.live, this.help.element)
    // Without a graphics card, plain painting is twice as fast as emulating one.
    this.pen = this.lines.getContext("2d", { willReadFrequently: surface.painter.software })!
    this.overlay = new Overlay(history)
    this.map = new Minimap(history)
    this.legend = new Legend(store)
    surface.painter.clear()
    surface.painter.onRestored = () => this.redraw()
    client.onRaster = (raster) => this.receive(raster)
    this.regroup()
    this.load()
    store.on((state, before) => this.changed(state, before))
    this.listen()
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
    this.freed = true
    this.resizing.disconnect()
    this.stopTheme()
    this.listening.abort()
    cancelAnimationFrame(this.frame)
    this.element.remove()
  }

  /** Whether what is on the screen is the exact picture of the present window. */
  get settled(): boolean {
    return this.client.idle && !this.frame
  }

  /** The strips as they are now, without what lies over them. */
  pixels(): ImageData {
    const { canvas, painter } = this.surface
    const { left, top, width, height } = plotPx(this.geometry, this.ratio)
    const copy = h("canvas", { width, height }).getContext("2d")!
    this.draw()
    const { window, hovered, pinned } = this.store.state
    painter.draw(window, plotPx(this.geometry, this.ratio), { hovered, pinned }, false)
    copy.drawImage(canvas, -left, -top)
    this.draw()
    return copy.getImageData(0, 0, width, height)
  }

  /** The allocation under a point, or -1; looks into the last raster, whatever window that was for. */
  pick(x: number, y: number): number {
    const { geometry: g, raster } = this
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
    const { geometry: g, raster } = this
    const inX = (x - g.left) / g.plotWidth
    if (!raster || inX < 0 || inX >= 1) return -1
    const w = this.store.state.window
    const of = raster.window
    const column = Math.floor(((w.x0 + inX * (w.x1 - w.x0) - of.x0) / (of.x1 - of.x0)) * raster.width)
    return column < raster.width ? column : -1
  }

  /** The step that is drawn at a place: that of the most bytes in its pixel column. */
  private stepAt(x: number): number {
    const { geometry: g } = this
    const column = this.columnAt(x)
    const drawn = column < 0 ? NO_STEP : this.raster!.steps[column]
    if (drawn !== NO_STEP) return drawn
    const w = this.store.state.window
    const inX = Math.min(Math.max((x - g.left) / g.plotWidth, 0), 1)
    return this.store.scale.stepAt(w.x0 + inX * (w.x1 - w.x0))
  }

  private listen(): void {
    const { store } = this
    listen(this.plot, store, {
      geometry: () => this.geometry,
      tool: () => this.tool,
      toggleBox: () => this.setTool(this.tool === "box" ? "move" : "box"),
      gripAt: (x) => this.map.gripAt(this.geometry, store.scale, store.state.window, x),
      hoverAt: (x, y) => this.hoverAt(x, y),
      clickAt: (x, y) => this.clickAt(x, y),
      leave: () => this.hover(-1),
      showBox: (box) => {
        if (box === this.box) return
        this.box = box
        if (!box && this.tool === "box") this.setTool("move")
        this.redrawOverlay()
      },
      scrubTo: (x) => store.set({ cursor: this.stepAt(x) }),
      stepBy: (steps) => store.goTo(store.state.cursor + steps),
      toEnd: (which) => {
        const { device } = store.history
        const { pinned } = store.state
        if (pinned >= 0) store.goTo(which === "birth" ? device.allocStep[pinned] : device.freeRequestedStep[pinned])
      },
      showPeak: () => this.showPeak(),
      toggleRuler: () => this.toggleRuler(),
      escape: () => {
        this.setTool("move")
        this.rulerFollows = false
        store.set({ pinned: -1, pinnedOom: -1, chosenGroup: -1, hovered: -1, hoveredGroup: -1, ruler: null, selection: null })
      },
      toggleHelp: () => this.help.toggle(),
    }, this.listening.signal)
  }

  private setTool(tool: Tool): void {
    this.tool = tool
    this.toolbar.setTool(tool)
    this.plot.dataset.tool = tool
    if (tool !== "ruler" && this.store.state.ruler) this.store.set({ ruler: null })
    if (tool !== "ruler") this.rulerFollows = false
  }

  /** By key a ruler begins at the cursor and ends where that goes; by pointer it is dragged. */
  private toggleRuler(): void {
    const { store } = this
    const on = this.tool !== "ruler"
    this.setTool(on ? "ruler" : "move")
    if (!on) return
    const x = store.scale.xOf(store.state.cursor)
    const y = store.history.at(store.state.curve, store.state.cursor)
    this.rulerFollows = true
    store.set({ ruler: { x0: x, y0: y, x1: x, y1: y } })
  }

  private restyle(): void {
    this.theme = readTheme(this.plot)
    this.colours = groupColours(this.grouping, this.theme.dark)
    this.stale = { overlay: true, palette: true, side: true }
    this.redraw()
  }

  private regroup(): void {
    const { history, state } = this.store
    this.grouping = groupBy(history, state.colouring)
    if (this.theme) this.colours = groupColours(this.grouping, this.theme.dark)
  }

  private resize(): void {
    const { width, height } = this.plot.getBoundingClientRect()
    if (width < 1 || height < 1) return
    const { surface } = this
    this.ratio = devicePixelRatio || 1
    const remPx = parseFloat(getComputedStyle(document.documentElement).fontSize)
    const widthPx = Math.round(width * this.ratio)
    const heightPx = Math.round(height * this.ratio)
    const rows = bandRows(this.store.history.device.summary.stages)
    const g = layOut(widthPx / this.ratio, heightPx / this.ratio, rows, remPx, this.ratio)
    this.geometry = g
    Object.assign(surface.canvas.style, { width: `${widthPx / this.ratio}px`, height: `${heightPx / this.ratio}px` })
    Object.assign(this.strips.style, { left: `${g.left}px`, top: `${g.top}px`, width: `${g.plotWidth}px`, height: `${g.plotHeight}px` })
    surface.painter.resize(widthPx, heightPx)
    this.lines.width = widthPx
    this.lines.height = heightPx
    this.stale.overlay = true
    this.ask() // the worker paints while the rest is drawn
    this.draw()
  }

  private changed(state: State, before: State): void {
    if (this.freed || state === before) return
    const differs = (...names: (keyof State)[]) => names.some((name) => state[name] !== before[name])
    if (differs("colouring", "curve", "axis", "window")) this.tooltip.hide() // what lies under the pointer has changed
    if (differs("colouring")) this.regroup()
    if (this.rulerFollows && differs("cursor") && state.ruler) return this.stretchRuler(state)
    if (differs("curve", "axis", "filtered")) {
      this.load()
      this.ask()
    } else if (differs("window")) this.ask()
    if (differs("window", "curve", "axis", "filtered", "cursor", "pinnedOom", "ruler")) this.stale.overlay = true
    if (differs("ruler")) this.live.textContent = state.ruler ? rulerText(this.store.history, this.store.scale, state.ruler) : ""
    if (differs("colouring", "chosenGroup", "hoveredGroup", "selection")) this.stale.palette = true
    if (differs("pinned", "pinnedOom", "chosenGroup", "colouring", "filtered", "curve", "cursor")) this.stale.side = true
    this.redraw()
  }

  private stretchRuler(state: State): void {
    const { scale, history } = this.store
    const ruler = { ...state.ruler!, x1: scale.xOf(state.cursor), y1: history.at(state.curve, state.cursor) }
    this.stale.side = true
    this.store.set({ ruler })
  }

  /** Has the worker paint the present curve, axis and filter from now on. */
  private load(): void {
    const { history, state } = this.store
    const { filtered, axis, curve } = state
    const known = [...filtered].filter((row) => row >= 0 && row < this.grouping.groups.length)
    let hidden: Uint8Array | null = null
    if (known.length) {
      const out = new Uint8Array(this.grouping.groups.length)
      for (const row of known) out[row] = 1
      hidden = Uint8Array.from(this.grouping.ofAllocation, (row) => out[row])
    }
    this.base = null
    this.client.load({ strips: stripsOf(history.device, curve), hidden, times: axis === "time" ? history.device.stepTime : null })
  }

  private ask(): void {
    if (!this.geometry) return
    const { width, height } = plotPx(this.geometry, this.ratio)
    this.client.want(this.store.state.window, width, height)
  }

  private receive(raster: Raster): void {
    const first = this.raster === null
    const { whole, state } = this.store
    const { painter } = this.surface
    const isWhole = sameWindow(raster.window, whole)
    if (!this.base && isWhole) {
      // A picture of everything stays behind all later ones.
      this.base = raster
      painter.setBase(raster)
      if (!sameWindow(state.window, whole) && this.raster) return this.redraw()
    } else if (this.raster && this.raster !== this.base) this.client.recycle(this.raster)
    this.raster = raster
    painter.setDetail(raster)
    if (first) {
      const { side } = this.stale
      this.stale.side = false
      this.draw()
      this.onFirstPicture()
      this.stale.side = side
    }
    this.redraw()
    if (!this.base && this.client.idle) {
      const { width, height } = plotPx(this.geometry, this.ratio)
      this.client.want(whole, Math.ceil(width / 2), Math.ceil(height / 2))
    }
  }

  private redraw(): void {
    this.frame ||= requestAnimationFrame(() => this.draw())
  }

  private redrawOverlay(): void {
    this.stale.overlay = true
    this.redraw()
  }

  private scene(): Scene {
    const { state, scale } = this.store
    return { g: this.geometry, state, scale, theme: this.theme, box: this.box }
  }

  private draw(): void {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    if (!this.geometry || this.freed) return
    const { painter } = this.surface
    const { state } = this.store
    if (this.stale.palette) painter.setColours(this.palette(), this.theme.background, this.theme.page)
    if (this.stale.overlay) {
      const { pen, ratio } = this
      pen.setTransform(ratio, 0, 0, ratio, 0, 0)
      pen.clearRect(0, 0, this.geometry.width, this.geometry.height)
      pen.lineJoin = "round"
      this.overlay.draw(penOf(pen), this.scene())
      this.map.draw(pen, this.scene(), ratio)
      painter.setOverlay(this.lines)
    }
    // The list beside it can wait for the first picture.
    const side = this.stale.side && this.raster !== null
    if (side) this.showSide()
    this.stale = { overlay: false, palette: false, side: this.stale.side && !side }
    painter.draw(state.window, plotPx(this.geometry, this.ratio), { hovered: state.hovered, pinned: state.pinned }, true)
  }

  /** The colour of each allocation, pale where it is not among what is brought out. */
  private palette(): Uint32Array {
    const { state } = this.store
    const { ofAllocation, groups } = this.grouping
    const group = state.hoveredGroup >= 0 ? state.hoveredGroup : state.chosenGroup
    const rows = state.hoveredGroup < 0 ? state.selection?.rows : undefined
    const [bright, dim] = [new Uint32Array(groups.length), new Uint32Array(groups.length)]
    groups.forEach((_, row) => {
      const rgb = [...this.colours.subarray(row * 4, row * 4 + 3)] as Rgb
      bright[row] = packed(rgb)
      dim[row] = packed(rgb.map((channel, c) => this.theme.background[c] + (channel - this.theme.background[c]) * DIMMED) as Rgb)
    })
    const out = new Uint32Array(ofAllocation.length)
    for (let i = 0; i < out.length; i++) {
      const row = ofAllocation[i]
      out[i] = (group < 0 || row === group) && (!rows || rows[i]) ? bright[row] : dim[row]
    }
    return out
  }

  private hoverAt(x: number, y: number): void {
    const { geometry: g, overlay } = this
    const { history, state, scale } = this.store
    const region = regionAt(g, x, y)
    const oom = region === "plot" ? overlay.oomAt(x, y) : -1
    const stage = region === "bands" ? overlay.stageAt(g, x, y) : -1
    const mark = region === "rug" ? overlay.markAt(g, x) : null
    const grip = region === "map" ? this.map.gripAt(g, scale, state.window, x) : ""
    this.plot.dataset.over = oom >= 0 || stage >= 0 ? "target" : grip || region
    this.hover(region === "plot" && oom < 0 ? this.pick(x, y) : -1)
    const { hovered } = this.store.state
    if (oom >= 0) this.tooltip.show(oomTip(history, oom), x, y, g)
    else if (stage >= 0) this.tooltip.show(stageTip(history.device.summary.stages, stage), x, y, g)
    else if (mark) this.tooltip.show(markTip(history.device, mark), x, y, g)
    else if (hovered >= 0) {
      const row = this.grouping.ofAllocation[hovered]
      const group = this.grouping.colouring === "site" ? "" : this.grouping.groups[row].label
      this.tooltip.show(allocationTip(history, hovered, cssColour(this.colours, row), group), x, y, g)
    }
  }

  private hover(allocation: number): void {
    this.tooltip.hide()
    if (allocation !== this.store.state.hovered) this.store.set({ hovered: allocation })
  }

  private clickAt(x: number, y: number): void {
    const { store, geometry: g } = this
    const region = regionAt(g, x, y)
    const stage = region === "bands" ? this.overlay.stageAt(g, x, y) : -1
    const oom = region === "plot" ? this.overlay.oomAt(x, y) : -1
    const mark = region === "rug" ? this.overlay.markAt(g, x) : null
    if (oom >= 0) store.pinOom(oom)
    else if (stage >= 0) this.zoomToStage(stage)
    else if (mark) store.set({ cursor: store.history.device.eventStep[mark.first] })
    else if (region === "plot") store.set({ cursor: this.stepAt(x), pinned: this.pick(x, y), pinnedOom: -1 })
  }

  /** Shows the steps of a stage with a little on each side. */
  zoomToStage(stage: number): void {
    const { start_step, end_step } = this.store.history.device.summary.stages[stage]
    const { scale, whole } = this.store
    const [from, to] = [scale.xOf(start_step), scale.xOf(Math.max(end_step, start_step))]
    const margin = Math.max((to - from) * 0.04, 2)
    this.store.set({ window: { ...whole, x0: from - margin, x1: to + margin } })
  }

  /** Brings the cursor to the peak, and the peak to the middle, at a tenth of the recording or closer. */
  private showPeak(): void {
    const { whole, history, state, scale } = this.store
    const cursor = history.peakStep[state.curve]
    const w = state.window
    const half = Math.min(w.x1 - w.x0, (whole.x1 - whole.x0) / 10) / 2
    const middle = (scale.xOf(cursor) + scale.endOf(cursor)) / 2
    const peak = history.at(state.curve, cursor)
    const { y0, y1 } = peak > w.y0 && peak < w.y1 ? w : whole
    this.store.set({ cursor, window: { y0, y1, x0: middle - half, x1: middle + half } })
  }

  private save(kind: "png" | "svg"): void {
    if (!this.raster) return
    savePicture(kind, {
      title: this.title, scene: this.scene(), overlay: new Overlay(this.store.history),
      raster: this.raster, palette: this.palette(), legend: pictureLegend(this.store, this.grouping, this.colours),
    })
  }

  private showSide(): void {
    const { history, state } = this.store
    const unpin = () => {
      this.store.pin(-1)
      this.plot.focus({ preventScroll: true })
    }
    const key = state.pinnedOom >= 0 ? `oom ${state.pinnedOom}` : state.pinned >= 0 ? `${this.grouping.colouring} ${state.pinned} ${this.theme.dark}` : ""
    if (key && key === this.side.dataset.shows) return
    const fresh = key !== this.side.dataset.shows
    this.side.dataset.shows = key
    if (state.pinnedOom >= 0) {
      this.side.replaceChildren(oomDetails(history, state.pinnedOom, (oom) => this.store.pinOom(oom), unpin))
      this.live.textContent = oomTip(history, state.pinnedOom).textContent
    } else if (state.pinned < 0) {
      this.legend.update(this.grouping, this.colours)
      if (this.side.firstChild !== this.legend.element) this.side.replaceChildren(this.legend.element)
    } else {
      const colour = cssColour(this.colours, this.grouping.ofAllocation[state.pinned])
      this.side.replaceChildren(details(history, state.pinned, colour, unpin))
      this.live.textContent = allocationTip(history, state.pinned, "", "").textContent
    }
    if (fresh) this.side.scrollTop = 0
  }
}
