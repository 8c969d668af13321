/** The timeline of one device: has its strips painted and its overlay drawn, and updates its parts. */

import { packed } from "../../gl/strip_painter"
import type { Surface } from "../../gl/surface"
import { groupColours, type Rgb } from "../../lib/picture/colours"
import { bandRows } from "../../lib/picture/bands"
import { stripsOf } from "../../lib/data/device"
import { differs } from "../../lib/data/observed"
import { groupBy, type Grouping } from "../../lib/tables/grouping"
import { areasOf, type Raster } from "../../lib/picture/raster"
import { inLight, onTheme, readTheme, type Theme } from "../../lib/picture/theme"
import { sameWindow, type Window } from "../../lib/picture/window"
import type { State, Store } from "../../store"
import type { RasterClient } from "../../worker/client"
import { h } from "../shared/dom"
import { atRest, guarded, onFailure } from "../shared/failure"
import { type Geometry, layOut, sameGeometry } from "../drawing/geometry"
import { Layers } from "../drawing/layers"
import { showKeys } from "./help"
import { listenKeys } from "../shared/keys"
import { listen, Tools } from "./input"
import { Minimap } from "../drawing/minimap"
import { Overlay } from "../drawing/overlay"
import { penOf } from "../drawing/pen"
import { drawn, type PictureParts, savePicture } from "../drawing/picture"
import { pictureLegend } from "../drawing/picture_legend"
import { Pointing } from "./pointing"
import type { Scene } from "../drawing/scene"
import { Side } from "./side"
import { Toolbar } from "./toolbar"

/** Areas are measured once the window has rested for this long, not during a drag. */
const RESTS_MS = 120
/** How much of their colour strips keep while others are highlighted. */
const DIMMED = 0.2

/** Works in CSS pixels; rasters and canvases in device pixels, names ending in Px. */
export class Timeline {
  readonly element: HTMLElement
  private readonly plot: HTMLElement
  private readonly side: Side
  private readonly pointing: Pointing
  private readonly layers: Layers
  private readonly failure = h("div")
  private readonly live = h("p.hidden", { "aria-live": "polite" })
  private readonly toolbar: Toolbar
  private readonly overlay: Overlay
  private readonly map: Minimap
  private readonly resizing = new ResizeObserver(() => this.resize())
  private readonly listening = new AbortController()
  private readonly tools: Tools
  private theme!: Theme
  private grouping!: Grouping
  private geometry!: Geometry
  private raster: Raster | null = null
  private base: Raster | null = null
  /** Pixels of each group in the raster, or null until its window rests. */
  private areas: Float64Array | null = null
  private frame = 0
  /** Whether the list beside the picture is drawn, too. */
  private withSide = false
  /** What the next frame has to redraw. */
  private stale = { overlay: true, palette: true, side: true }

  /** `title`: of the report, for saved pictures. */
  constructor(
    private readonly store: Store,
    private readonly surface: Surface,
    private readonly client: RasterClient,
    private readonly title: string,
    private readonly onFirstPicture: () => void,
  ) {
    const { history } = store
    const { signal } = this.listening
    this.layers = new Layers(surface, () => this.redraw())
    this.plot = h(
      "div.plot",
      {
        tabindex: 0,
        role: "application",
        "aria-roledescription": "memory timeline",
        "aria-label": `Timeline of ${history.device.id}. Arrow keys move, plus and minus zoom, brackets step the cursor, P goes to the peak, question mark lists the keys.`,
      },
      surface.canvas,
      this.layers.strips,
    )
    this.side = new Side(
      store,
      (text) => (this.live.textContent = text),
      () => this.plot.focus({ preventScroll: true }),
    )
    this.tools = new Tools(store, () => {
      this.toolbar.setTool(this.tools.tool)
      this.plot.dataset.tool = this.tools.tool
      this.redrawOverlay()
    })
    this.toolbar = new Toolbar(
      store,
      { showHelp: () => showKeys(store), toggleBox: () => this.tools.toggleBox(), save: (kind) => this.save(kind) },
      signal,
    )
    this.element = h("div.live", this.toolbar.element, this.failure, h("div.panes", this.plot, this.side.element), this.live)
    onFailure(this.side.element, "The legend", (note) => this.side.fail(note))
    onFailure(this.element, "The timeline", this.failure)
    this.tellNote()
    this.overlay = new Overlay(history)
    this.map = new Minimap(history)
    this.pointing = new Pointing(store, this.plot, this.overlay, this.map, () => {
      const { geometry, raster, grouping } = this
      return { geometry, raster, grouping }
    })
    client.onRaster = (raster) => this.receive(raster)
    this.regroup()
    this.load()
    store.on((state, before) => this.changed(state, before), signal)
    listenKeys(this.plot, this.keys(listen(this.plot, store, this.pointing, this.tools)), signal)
    onTheme(() => this.restyle(), signal)
    addEventListener("beforeprint", () => this.print(), { signal })
  }

  /** Begins, once the element stands in the page. */
  start(): void {
    this.restyle()
    this.resizing.observe(this.plot)
    this.resize()
  }

  /** After the first picture: has a graphics card draw from now on, where there is one. */
  accelerate(): void {
    const { layers, raster } = this
    if (this.surface.final) return
    if (layers.accelerate()) {
      if (this.base) layers.painter.setBase(this.base)
      if (raster) layers.painter.setDetail(raster)
      this.stale.palette = this.stale.overlay = true
      this.draw()
    } else {
      this.tellNote()
      this.redrawOverlay() // of times there were none yet
    }
  }

  private tellNote(): void {
    const { note } = this.surface
    if (note) this.toolbar.element.lastElementChild!.before(h("p.note", { title: note }, note)) // in a row that is there: the picture stays as high
  }

  /** Releases the canvas and the worker, which the next timeline takes over. */
  free(): void {
    this.resizing.disconnect()
    this.listening.abort()
    cancelAnimationFrame(this.frame)
    this.element.remove()
  }

  get window(): Window {
    return this.store.state.window
  }

  /** Whether the screen shows the exact picture of the current window. */
  get settled(): boolean {
    return this.surface.final && this.client.idle && !this.frame
  }

  /** The strips as drawn, without the overlay. */
  pixels(): ImageData {
    this.draw()
    this.paint(false)
    const pixels = this.layers.pixels()
    this.paint(true)
    return pixels
  }

  /** `moves`: the keys that move and zoom. */
  private keys(moves: Record<string, () => void>): Record<string, () => void> {
    const { store, tools } = this
    const { device } = store.history
    const step = (events: number) => () => store.goTo(store.state.cursor + events)
    const toEnd = (events: Int32Array) => () => store.state.pinned >= 0 && store.goTo(events[store.state.pinned])
    const { a, d, w, s } = moves
    return {
      ...moves,
      arrowleft: a,
      arrowright: d,
      arrowup: w,
      arrowdown: s,
      "[": step(-1),
      "]": step(1),
      "{": toEnd(device.allocEvent),
      "}": toEnd(device.freeRequestedEvent),
      p: () => store.showPeak(),
      b: () => tools.toggleBox(),
      ...(store.beside ? {} : { 1: () => store.pinMarker("a"), 2: () => store.pinMarker("b"), 3: () => store.pinMarker("c") }),
      escape: () => tools.escape(),
      "?": () => showKeys(store),
    }
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
    const px = (css: number) => Math.round(css * ratio) / ratio
    const remPx = parseFloat(getComputedStyle(document.documentElement).fontSize)
    const rows = bandRows(this.store.history.device.summary.stages)
    const g = layOut(px(width), px(height), rows, remPx, ratio)
    if (ratio === this.layers.ratio && sameGeometry(g, this.geometry)) return // a fresh observer tells what is known
    this.geometry = g
    this.layers.place(g, ratio)
    this.stale.overlay = true
    const { raster } = this
    this.ask() // the worker paints while the rest is drawn
    if (this.raster === raster) this.draw()
  }

  private changed(state: State, before: State): void {
    const changed = (...parts: (keyof State)[]) => differs(state, before, ...parts)
    // What lies under the pointer has changed, or what is measured may lie under the tooltip.
    if (changed("colouring", "curve", "axis", "window", "filters", "markers")) this.pointing.hideTip()
    if (changed("colouring")) this.regroup()
    if (changed("curve", "axis", "filters")) {
      this.load()
      this.ask()
    } else if (changed("window")) this.ask()
    if (changed("window", "curve", "axis", "filters", "cursor", "pinnedOom", "markers", "replay")) this.stale.overlay = true
    const asked = changed("filters", "curve", "question", "markers") || (changed("cursor") && this.store.asked.kind !== "live")
    if (asked || changed("colouring", "chosenGroup", "hoveredGroup", "selection")) this.stale.palette = true
    if (asked || changed("pinned", "pinnedOom", "chosenGroup", "colouring", "cursor")) this.stale.side = true
    this.redraw()
  }

  /** Has the worker paint the current curve, axis and filter from now on. */
  private load(): void {
    const { history, counted, hidden, state } = this.store
    const { axis, curve } = state
    this.base = null
    this.client.load(
      { strips: stripsOf(history.device, curve), hidden, times: axis === "time" ? history.device.eventTime : null },
      counted.curves[curve],
    )
  }

  private ask(): void {
    if (!this.geometry) return
    const { width, height } = this.layers.plotPx
    this.client.want(this.store.state.window, width, height)
  }

  private receive(raster: Raster): void {
    const first = this.raster === null
    const { whole, state } = this.store
    const { painter } = this.layers
    if (sameWindow(raster.window, whole)) {
      // The finest picture of everything stays behind all later ones.
      if (!this.base || this.base.width <= raster.width) painter.setBase((this.base = raster))
      if (!sameWindow(state.window, whole) && this.raster) return this.redraw()
    }
    if (this.raster && this.raster !== this.base) this.client.recycle(this.raster)
    this.raster = raster
    painter.setDetail(raster)
    this.measureLater()
    if (first) {
      this.draw()
      return this.onFirstPicture()
    }
    this.redraw()
    this.wantBase()
  }

  private wantBase(): void {
    if (this.base || !this.client.idle) return
    const { width, height } = this.layers.plotPx
    this.client.want(this.store.whole, Math.ceil(width / 2), Math.ceil(height / 2))
  }

  /** Draws what is beside and behind the first picture, once that is on the screen. */
  drawRest(): void {
    this.withSide = true
    this.redraw()
    if (this.raster) this.wantBase()
  }

  /** Measures each group's area of the picture, once it rests. */
  private readonly measureLater = atRest(RESTS_MS, () => {
    if (!this.raster || this.listening.signal.aborted) return
    this.areas = areasOf(this.raster, this.grouping.ofAllocation, this.grouping.groups.length)
    this.stale.side = true
    this.redraw()
  })

  private redraw(): void {
    this.frame ||= requestAnimationFrame(() => this.draw())
  }

  private redrawOverlay(): void {
    this.stale.overlay = true
    this.redraw()
  }

  private scene(): Scene {
    const { state, scale } = this.store
    return { g: this.geometry, state, scale, counted: this.store.counted, theme: this.theme, box: this.tools.box }
  }

  private draw(): void {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    if (!this.geometry || this.listening.signal.aborted) return
    const { overlay, palette } = this.stale
    const side = this.stale.side && this.withSide
    this.stale = { overlay: false, palette: false, side: this.stale.side && !side }
    if (overlay) guarded(this.plot, () => this.drawOverlay())
    if (side) guarded(this.side.element, () => this.side.show(this.grouping, this.areas))
    guarded(this.plot, () => {
      if (palette) this.layers.painter.setColours(this.palette(), this.theme.background, this.theme.page)
      this.paint(true)
    })
  }

  private paint(lines: boolean): void {
    const { window, hovered, pinned } = this.store.state
    this.layers.painter.draw(window, this.layers.plotPx, { hovered, pinned }, lines)
  }

  private drawOverlay(): void {
    this.failure.replaceChildren()
    this.layers.drawLines((pen) => {
      pen.lineJoin = "round"
      this.overlay.draw(penOf(pen), this.scene())
      this.map.draw(pen, this.scene(), this.layers.ratio)
    })
  }

  /** One RGBA for each allocation: pale where others are highlighted, or, while nothing else is, where they do not answer. */
  private palette(): Uint32Array {
    const { state, answering } = this.store
    const { dark, background } = this.theme
    const { ofAllocation } = this.grouping
    const group = state.hoveredGroup >= 0 ? state.hoveredGroup : state.chosenGroup
    const rows = state.hoveredGroup < 0 ? (state.selection?.rows ?? (group < 0 ? answering : null)) : null
    const colours = groupColours(this.grouping, dark)
    const bright = Uint32Array.from(colours, packed)
    const dim = Uint32Array.from(colours, (rgb) =>
      packed(rgb.map((channel, c) => background[c] + (channel - background[c]) * DIMMED) as Rgb),
    )
    const out = new Uint32Array(ofAllocation.length)
    const plain = group < 0 ? bright : dim.with(group, bright[group])
    for (let i = 0; i < out.length; i++) out[i] = plain[ofAllocation[i]]
    if (rows) for (let i = 0; i < out.length; i++) if (!rows[i]) out[i] = dim[ofAllocation[i]]
    return out
  }

  private save(kind: "png" | "svg"): void {
    if (this.raster) savePicture(kind, this.parts(this.raster))
  }

  private parts(raster: Raster): PictureParts {
    return {
      title: this.title,
      scene: this.scene(),
      overlay: new Overlay(this.store.history),
      raster,
      palette: this.palette(),
      legend: pictureLegend(this.store, this.grouping),
    }
  }

  /** Puts what is shown, in its colours, in the place of the still picture, until it is printed. */
  private print(): void {
    if (!this.raster) return
    const { theme, raster } = this
    const picture = inLight(() => {
      this.theme = readTheme(this.plot)
      return drawn(this.parts(raster))
    })
    this.theme = theme
    picture.className = "printed"
    const still = this.element.parentElement?.querySelector(".static")
    still?.insertBefore(picture, still.querySelector(":scope > :not(.printed)")) // after that of the timeline above, if any
    addEventListener("afterprint", () => picture.remove(), { once: true })
  }
}
