/** The timeline of one device: has its strips painted and its overlay drawn, and updates its parts. */

import type { Surface } from "../../gl/surface"
import { areasOf } from "../../lib/picture/areas"
import { bandRows } from "../../lib/picture/bands"
import { stripsOf } from "../../lib/data/device"
import { groupBy, type Grouping } from "../../lib/tables/grouping"
import type { Raster } from "../../lib/picture/raster"
import { onTheme, readTheme, type Theme } from "../../lib/picture/theme"
import { sameWindow, type Window } from "../../lib/picture/window"
import type { State, Store } from "../../store"
import type { RasterClient } from "../../worker/client"
import { h } from "../shared/dom"
import { guarded, onFailure } from "../shared/failure"
import { type Geometry, layOut, plotPx, sameGeometry } from "../drawing/geometry"
import { Help } from "./help"
import { listen, type Tool } from "./input"
import { Minimap } from "../drawing/minimap"
import { showPeak } from "./moves"
import { Overlay } from "../drawing/overlay"
import { palette } from "../drawing/palette"
import { penOf } from "../drawing/pen"
import { savePicture } from "../drawing/picture"
import { pictureLegend } from "../drawing/picture_legend"
import { Pointing } from "./pointing"
import { rulerText } from "../drawing/ruler"
import type { Scene } from "../drawing/scene"
import { Side } from "./side"
import { Toolbar } from "./toolbar"

/** Areas are measured once the window has rested for this long, not during a drag. */
const RESTS_MS = 120

/** Works in CSS pixels; rasters and canvases in device pixels, names ending in Px. */
export class Timeline {
  readonly element: HTMLElement
  private readonly plot: HTMLElement
  private readonly side: Side
  private readonly pointing: Pointing
  /** Where the strips are, for tests and pointers; the canvas reaches further. */
  private readonly strips = h("div", { class: "strips" })
  private readonly failure = h("div")
  private readonly live = h("p", { class: "hidden", "aria-live": "polite" })
  private readonly help: Help
  private readonly toolbar: Toolbar
  private lines!: HTMLCanvasElement
  private pen!: CanvasRenderingContext2D
  private readonly overlay: Overlay
  private readonly map: Minimap
  private readonly resizing = new ResizeObserver(() => this.resize())
  private readonly stopTheme: () => void
  private readonly listening = new AbortController()
  private theme!: Theme
  private grouping!: Grouping
  private geometry!: Geometry
  private sizePx = { width: 0, height: 0 }
  private ratio = 1
  private raster: Raster | null = null
  private base: Raster | null = null
  /** Pixels of each group in the raster, or null until its window rests. */
  private areas: Float64Array | null = null
  private measuring = 0
  private box: Window | null = null
  private tool: Tool = "move"
  /** Whether the ruler's second end goes with the cursor. */
  private rulerFollows = false
  private frame = 0
  /** What the next frame has to redraw. */
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
    this.plot = h(
      "div",
      {
        class: "plot",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "memory timeline",
        "aria-label": `Timeline of ${history.device.id}. Arrow keys move, plus and minus zoom, brackets step the cursor, P goes to the peak, question mark lists the keys.`,
      },
      surface.canvas,
      this.strips,
    )
    this.side = new Side(
      store,
      (text) => (this.live.textContent = text),
      () => this.plot.focus({ preventScroll: true }),
    )
    this.toolbar = new Toolbar(store, {
      showPeak: () => showPeak(store),
      showHelp: () => this.help.toggle(),
      setTool: (tool) => this.setTool(tool),
      save: (kind) => this.save(kind),
    })
    this.element = h(
      "div",
      { class: "live" },
      this.toolbar.element,
      this.failure,
      h("div", { class: "panes" }, this.plot, this.side.element),
      this.live,
      this.help.element,
    )
    onFailure(
      this.side.element,
      () => "The legend",
      (note) => this.side.fail(note),
    )
    onFailure(
      this.element,
      () => "The timeline",
      (note) => this.failure.replaceChildren(note),
    )
    this.takePainter()
    if (surface.note) this.tellNote()
    this.overlay = new Overlay(history)
    this.map = new Minimap(history)
    this.pointing = new Pointing(store, this.plot, this.overlay, this.map, () => {
      const { geometry, raster, grouping } = this
      return { geometry, raster, grouping }
    })
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

  /** After the first picture: has a graphics card draw from now on, where there is one. */
  accelerate(): void {
    const { surface, raster } = this
    const { canvas } = surface
    if (surface.final) return
    if (surface.accelerate()) {
      canvas.replaceWith(surface.canvas)
      this.takePainter()
      this.place()
      if (this.base) surface.painter.setBase(this.base)
      if (raster) surface.painter.setDetail(raster)
      this.stale.palette = true
      this.draw()
    } else {
      this.tellNote()
      this.redrawOverlay() // of times there were none yet
    }
  }

  private takePainter(): void {
    const { painter } = this.surface
    painter.clear()
    painter.onRestored = () => this.redraw()
    // Without a graphics card, plain painting is twice as fast as emulating one.
    this.lines = document.createElement("canvas")
    this.pen = this.lines.getContext("2d", { willReadFrequently: painter.software })!
  }

  private tellNote(): void {
    this.toolbar.element.after(h("p", { class: "note" }, this.surface.note))
  }

  /** Releases the canvas and the worker, which the next timeline takes over. */
  free(): void {
    this.freed = true
    this.resizing.disconnect()
    this.stopTheme()
    this.listening.abort()
    cancelAnimationFrame(this.frame)
    clearTimeout(this.measuring)
    this.element.remove()
  }

  /** Whether the screen shows the exact picture of the current window. */
  get settled(): boolean {
    return this.surface.final && this.client.idle && !this.frame
  }

  /** The strips as drawn, without the overlay. */
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

  private listen(): void {
    const { store } = this
    listen(
      this.plot,
      store,
      {
        geometry: () => this.geometry,
        tool: () => this.tool,
        toggleBox: () => this.setTool(this.tool === "box" ? "move" : "box"),
        gripAt: (x) => this.map.gripAt(this.geometry, store.scale, store.state.window, x),
        hoverAt: (x, y) => this.pointing.hoverAt(x, y),
        clickAt: (x, y) => this.pointing.clickAt(x, y),
        leave: () => this.pointing.leave(),
        showBox: (box) => {
          if (box === this.box) return
          this.box = box
          if (!box && this.tool === "box") this.setTool("move")
          this.redrawOverlay()
        },
        scrubTo: (x) => store.set({ cursor: this.pointing.eventAt(x) }),
        stepBy: (events) => store.goTo(store.state.cursor + events),
        toEnd: (which) => {
          const { device } = store.history
          const { pinned } = store.state
          if (pinned >= 0) store.goTo(which === "birth" ? device.allocEvent[pinned] : device.freeRequestedEvent[pinned])
        },
        showPeak: () => showPeak(store),
        toggleRuler: () => this.toggleRuler(),
        escape: () => {
          this.setTool("move")
          this.rulerFollows = false
          store.set({ pinned: -1, pinnedOom: -1, chosenGroup: -1, hovered: -1, hoveredGroup: -1, ruler: null, selection: null })
        },
        toggleHelp: () => this.help.toggle(),
      },
      this.listening.signal,
    )
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
    this.stale = { overlay: true, palette: true, side: true }
    this.redraw()
  }

  private regroup(): void {
    const { history, state } = this.store
    this.grouping = groupBy(history, state.colouring)
    this.areas = null
    this.measureLater()
  }

  private resize(): void {
    const ratio = devicePixelRatio || 1
    const { width, height } = this.plot.getBoundingClientRect()
    if (width < 1 || height < 1) return // not laid out
    const [widthPx, heightPx] = [Math.round(width * ratio), Math.round(height * ratio)]
    const remPx = parseFloat(getComputedStyle(document.documentElement).fontSize)
    const rows = bandRows(this.store.history.device.summary.stages)
    const g = layOut(widthPx / ratio, heightPx / ratio, rows, remPx, ratio)
    if (ratio === this.ratio && sameGeometry(g, this.geometry)) return // a fresh observer tells what is known
    this.geometry = g
    this.ratio = ratio
    this.sizePx = { width: widthPx, height: heightPx }
    Object.assign(this.strips.style, { left: `${g.left}px`, top: `${g.top}px`, width: `${g.plotWidth}px`, height: `${g.plotHeight}px` })
    this.place()
    this.ask() // the worker paints while the rest is drawn
    this.draw()
  }

  /** Gives the canvases their size. */
  private place(): void {
    const { geometry: g, sizePx, surface } = this
    Object.assign(surface.canvas.style, { width: `${g.width}px`, height: `${g.height}px` })
    surface.painter.resize(sizePx.width, sizePx.height)
    Object.assign(this.lines, sizePx)
    this.stale.overlay = true
  }

  private changed(state: State, before: State): void {
    if (this.freed || state === before) return
    const differs = (...names: (keyof State)[]) => names.some((name) => state[name] !== before[name])
    if (differs("colouring", "curve", "axis", "window")) this.pointing.hideTip() // what lies under the pointer has changed
    if (differs("colouring")) this.regroup()
    if (this.rulerFollows && differs("cursor") && state.ruler) return this.stretchRuler(state)
    if (differs("curve", "axis", "filtered")) {
      this.load()
      this.ask()
    } else if (differs("window")) this.ask()
    if (differs("window", "curve", "axis", "filtered", "cursor", "pinnedOom", "ruler", "replay")) this.stale.overlay = true
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

  /** Has the worker paint the current curve, axis and filter from now on. */
  private load(): void {
    const { history, state } = this.store
    const { filtered, axis, curve } = state
    const known = [...filtered].filter((row) => row >= 0 && row < this.grouping.groups.length)
    let hidden: Uint8Array | null = null
    if (known.length) {
      const out = new Uint8Array(this.grouping.groups.length)
      for (const row of known) out[row] = 1
      const { ofAllocation } = this.grouping
      hidden = new Uint8Array(ofAllocation.length)
      for (let i = 0; i < hidden.length; i++) hidden[i] = out[ofAllocation[i]]
    }
    this.base = null
    this.client.load(
      { strips: stripsOf(history.device, curve), hidden, times: axis === "time" ? history.device.eventTime : null },
      history.curves[curve],
    )
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
    this.measureLater()
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

  /** Measures each group's area of the picture, once it rests. */
  private measureLater(): void {
    clearTimeout(this.measuring)
    this.measuring = window.setTimeout(() => {
      if (!this.raster || this.freed) return
      this.areas = areasOf(this.raster, this.grouping.ofAllocation, this.grouping.groups.length)
      this.stale.side = true
      this.redraw()
    }, RESTS_MS)
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
    const { overlay, palette } = this.stale
    // The list beside it can wait for the first picture.
    const side = this.stale.side && this.raster !== null
    this.stale = { overlay: false, palette: false, side: this.stale.side && !side }
    if (overlay) guarded(this.plot, () => this.drawOverlay())
    if (side) guarded(this.side.element, () => this.side.show(this.grouping, this.areas))
    guarded(this.plot, () => {
      if (palette) painter.setColours(this.palette(), this.theme.background, this.theme.page)
      painter.draw(state.window, plotPx(this.geometry, this.ratio), { hovered: state.hovered, pinned: state.pinned }, true)
    })
  }

  private drawOverlay(): void {
    const { pen, ratio } = this
    this.failure.replaceChildren()
    pen.setTransform(ratio, 0, 0, ratio, 0, 0)
    pen.clearRect(0, 0, this.geometry.width, this.geometry.height)
    pen.lineJoin = "round"
    this.overlay.draw(penOf(pen), this.scene())
    this.map.draw(pen, this.scene(), ratio)
    this.surface.painter.setOverlay(this.lines)
  }

  private palette(): Uint32Array {
    return palette(this.store.state, this.grouping, this.theme)
  }

  private save(kind: "png" | "svg"): void {
    if (!this.raster) return
    savePicture(kind, {
      title: this.title,
      scene: this.scene(),
      overlay: new Overlay(this.store.history),
      raster: this.raster,
      palette: this.palette(),
      legend: pictureLegend(this.store, this.grouping),
    })
  }
}
