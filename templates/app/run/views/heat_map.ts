/** The heat map of all ranks: its cells, what is drawn around them, and a tooltip for the cell under the pointer. */

import { Surface } from "../../gl/surface"
import { differs } from "../../lib/data/observed"
import type { Raster } from "../../lib/picture/raster"
import { onTheme, readTheme, styleOf, type Theme } from "../../lib/picture/theme"
import { common, inWindow, sameWindow, type Window, zoomed } from "../../lib/picture/window"
import { Layers } from "../../views/drawing/layers"
import { penOf } from "../../views/drawing/pen"
import { tip, Tooltip } from "../../views/drawing/tooltip"
import { h } from "../../views/shared/dom"
import { atRest, guarded, later, onFailure } from "../../views/shared/failure"
import { listenGestures, panWith } from "../../views/shared/gestures"
import { heatPalette, heatScale, heatStops } from "../picture/heat_colours"
import { bundleAt, type Grain, grainOf, heatRaster, type HeatSource, mostOf } from "../picture/heat_raster"
import type { RunState, RunStore } from "../run_store"
import { drawHeatAxes, type HeatGeometry, HeatPlaces, layOutHeat } from "./heat_axes"
import { spanText, valueText, whereText } from "./run_words"

/** The part that is painted, in window sizes: more than the window, so that a small move needs no repainting. */
const PAINTED = 1.5
const SAYS_AFTER_MS = 400

interface Pointed {
  /** Index in the order. */
  place: number
  /** Counted in cells of the present width. */
  cell: number
  /** The rows that share the pixel, as [first, end) of the order. */
  bundle: [number, number]
}

export class HeatMap {
  readonly element: HTMLElement
  readonly plot: HTMLElement
  private readonly surface = new Surface()
  private readonly layers = new Layers(this.surface, () => this.redraw())
  private readonly box = h("div.heat-box", { hidden: true, "aria-hidden": "true" })
  private readonly tip = new Tooltip()
  private readonly says = h("p.hidden", { "aria-live": "polite" })
  private readonly note = h("div")
  private readonly resizing = new ResizeObserver(() => guarded(this.plot, () => this.resize()))
  geometry!: HeatGeometry
  private theme!: Theme
  private raster: { of: Raster; grain: Grain } | null = null
  private frame = 0
  private stale = { raster: true, overlay: true, palette: true }

  constructor(
    private readonly store: RunStore,
    private readonly onGeometry: (geometry: HeatGeometry) => void,
  ) {
    this.plot = h(
      "div.plot.heat-plot",
      {
        tabindex: 0,
        role: "application",
        "aria-roledescription": "heat map",
        "aria-label":
          "Heat map: a row is a rank. Arrow keys move the selected cell, W, A, S and D move the map, plus and minus zoom, 0 shows all, P goes to the rank's peak, K keeps its curve.",
      },
      this.surface.canvas,
      this.layers.strips,
      this.box,
      this.tip.element,
    )
    this.plot.style.setProperty("--rows", String(store.state.order.length)) // so that a few rows are not too tall
    this.element = h("div", this.note, this.plot, this.says)
    onFailure(this.element, "The heat map", this.note)
    this.listen()
    store.on((state, before) => this.changed(state, before))
    onTheme(() => this.restyle())
  }

  /** Has pointer, wheel, touch and keys move the window and the cursor. */
  private listen(): void {
    const { plot, store } = this
    const moves = listenGestures(plot, store, this, {
      follow: (drag) => {
        this.leave()
        panWith(plot, store, this.geometry, drag)
      },
      drop: ({ from, moved }, { type, shiftKey, ctrlKey, metaKey }) => {
        if (!moved && type === "pointerup") this.clickAt(from.x, from.y, shiftKey || ctrlKey || metaKey)
      },
      wheeled: ({ x, y }) => this.hoverAt(x, y),
    })
    plot.addEventListener("dblclick", () => store.set({ window: store.whole }))
    const keys: Record<string, () => void> = {
      ...moves,
      arrowleft: () => this.step(0, -1),
      arrowright: () => this.step(0, 1),
      arrowup: () => this.step(-1, 0),
      arrowdown: () => this.step(1, 0),
      pageup: () => this.step(-10, 0),
      pagedown: () => this.step(10, 0),
      p: () => store.state.cursor && store.look(store.state.cursor.row),
      k: () => store.state.cursor && store.keep(store.state.cursor.row),
      escape: () => this.leave(),
    }
    plot.addEventListener("keydown", (event) => {
      const act = keys[event.key.toLowerCase()]
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return
      act()
      event.preventDefault()
    })
  }

  /** Begins, once the element stands in the page. */
  start(): void {
    this.restyle()
    this.resize()
    this.draw()
    if (this.layers.accelerate()) {
      this.stale = { raster: true, overlay: true, palette: true }
      this.draw()
    } else if (this.surface.note) this.note.append(h("p.note", this.surface.note.replace("timeline", "heat map")))
    this.resizing.observe(this.plot)
  }

  get settled(): boolean {
    return !this.frame
  }

  /** The cells as drawn. */
  pixels(): ImageData {
    this.draw()
    return this.layers.pixels()
  }

  private changed(state: RunState, before: RunState): void {
    const cells = differs(state, before, "order", "axis", "quantity", "full", "kind")
    if (cells) {
      this.stale.raster = true
      this.leave()
    }
    if (cells || differs(state, before, "window", "cursor")) {
      this.stale.overlay = true
      this.redraw()
    }
    if (state.order !== before.order) this.resize()
    if (state.cursor !== before.cursor) this.saySoon()
  }

  private source(): HeatSource | null {
    const { data, origin, state } = this.store
    const cells = data.drawn(state.axis, state.quantity)
    if (!cells) return null
    return { cells, order: state.order, origin, factor: (row) => data.factor(state.quantity, row) }
  }

  private restyle(): void {
    this.theme = readTheme(this.plot)
    this.stale.palette = this.stale.overlay = true
    this.redraw()
  }

  private resize(): void {
    const { width, height } = this.plot.getBoundingClientRect()
    if (!width || !height) return
    const ratio = devicePixelRatio || 1
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize)
    const { data, state } = this.store
    const pen = h("canvas").getContext("2d")!
    pen.font = `${Math.round(rem * 0.75)}px ${this.theme.font}`
    let [longest, widest] = ["", 0] // letters, to measure few of thousands
    for (const row of state.order) {
      const label = data.label[row]
      if (label.length >= longest.length) {
        longest = label
        widest = Math.max(widest, label.length > 40 ? Infinity : pen.measureText(label).width)
      }
    }
    this.geometry = layOutHeat(width, height, rem, ratio, Math.min(widest, rem * 10))
    this.layers.place(this.geometry, ratio)
    this.stale.overlay = true
    this.onGeometry(this.geometry)
    this.redraw()
  }

  private redraw(): void {
    this.frame ||= requestAnimationFrame(later(this.plot, () => this.draw()))
  }

  private draw(): void {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    if (!this.geometry) return
    const { painter } = this.layers
    const { state } = this.store
    if (this.stale.palette) {
      painter.setColours(heatPalette(heatStops(this.plot), styleOf(this.plot)("over")), this.theme.background, this.theme.page)
    }
    this.paint(state.window)
    if (this.stale.overlay || this.stale.palette) this.drawOverlay()
    this.stale = { raster: false, overlay: false, palette: false }
    painter.draw(state.window, this.layers.plotPx, { hovered: -1, pinned: -1 }, true)
  }

  /** Repaints the cells if they do not cover the window, or are not of the right size. */
  private paint(w: Window): void {
    const source = this.source()
    const { painter } = this.layers
    if (!source) return painter.clear()
    const { grain, raster } = this
    const covered = raster && common(raster.of.window, w)
    const fits = covered && sameWindow(covered, w) && raster.grain.level === grain.level && raster.grain.bundle === grain.bundle
    if (fits && !this.stale.raster) return
    const wanted = common(zoomed(w, 0.5, 0.5, PAINTED, PAINTED), this.store.whole)!
    const { kind, quantity, full } = this.store.state
    const made = heatRaster(source, wanted, grain, heatScale(this.store.data, kind, quantity, full))
    this.raster = { of: made, grain }
    painter.setDetail(made)
  }

  private drawOverlay(): void {
    this.layers.drawLines((pen) => drawHeatAxes(penOf(pen), this.geometry, this.store, this.grain, this.theme))
  }

  /** How cells are merged in the current window. */
  get grain(): Grain {
    const source = this.source()
    if (!source || !this.geometry) return { level: 0, bundle: 1 }
    const { width, height } = this.layers.plotPx
    return grainOf(source, this.store.state.window, width, height)
  }

  /** What is under a point; null outside the cells. Of rows that share a pixel, the one with the highest value. */
  private pointedAt(x: number, y: number): Pointed | null {
    const { geometry: g, grain } = this
    const source = this.source()
    if (!source || x < g.left || x >= g.left + g.plotWidth || y < g.top || y >= g.top + g.plotHeight) return null
    const { window: w, order } = this.store.state
    const at = inWindow(g, w, { x, y })
    const row = Math.floor(order.length - at.y)
    if (row < 0 || row >= order.length) return null
    const cell = Math.floor((at.x + source.origin) / 2 ** grain.level)
    const place = grain.bundle > 1 ? mostOf(source, grain, row, cell) : row
    return { place: place < 0 ? row : place, cell, bundle: bundleAt(source, grain.bundle, row) }
  }

  hoverAt(x: number, y: number): void {
    guarded(this.plot, () => this.hover(x, y))
  }

  private hover(x: number, y: number): void {
    const pointed = this.pointedAt(x, y)
    if (!pointed) return this.leave()
    const { store, grain, geometry: g } = this
    const width = 2 ** grain.level
    const places = new HeatPlaces(g, store)
    const from = places.x(pointed.cell * width - store.origin)
    const to = places.x((pointed.cell + 1) * width - store.origin)
    const [top, bottom] = [places.y(pointed.bundle[0]), places.y(pointed.bundle[1])]
    this.box.hidden = false
    this.box.style.transform = `translate(${Math.max(from, g.left)}px, ${top}px)`
    this.box.style.width = `${Math.max(Math.min(to, g.left + g.plotWidth) - Math.max(from, g.left), 2)}px`
    this.box.style.height = `${Math.max(bottom - top, 2)}px`
    this.tip.show(this.tipOf(pointed), x, y, g)
  }

  private tipOf({ place, cell, bundle: [first, end] }: Pointed): HTMLElement {
    const { data, state } = this.store
    const row = state.order[place]
    const shared =
      end - first > 1 && `the highest of ${end - first} rows, ${data.label[state.order[first]]} to ${data.label[state.order[end - 1]]}`
    return tip(data.label[row], h("span", this.valueAt(row, cell)), this.spanOf(cell), whereText(data, row), shared)
  }

  private valueAt(row: number, cell: number): string {
    const source = this.source()!
    const value = source.cells.mostIn(row, this.grain.level, cell) * source.factor(row)
    return value < 0 || source.factor(row) === 0 ? "nothing recorded" : valueText(this.store.state.quantity, value)
  }

  private spanOf(cell: number): string {
    const width = 2 ** this.grain.level
    return spanText(this.store.state.axis, cell * width, (cell + 1) * width, this.store.origin)
  }

  leave(): void {
    this.box.hidden = true
    this.tip.hide()
  }

  clickAt(x: number, y: number, keep: boolean): void {
    const pointed = this.pointedAt(x, y)
    if (!pointed) return
    const row = this.store.state.order[pointed.place]
    if (keep) this.store.keep(row)
    else this.store.set({ cursor: { row, x: (pointed.cell + 0.5) * 2 ** this.grain.level - this.store.origin } })
  }

  step(rows: number, cells: number): void {
    const { order, cursor } = this.store.state
    if (!order.length) return
    const place = cursor ? Math.max(order.indexOf(cursor.row), 0) : 0
    const row = order[Math.min(Math.max(place + rows, 0), order.length - 1)]
    const { x0, x1 } = this.store.whole
    const x = Math.min(Math.max((cursor?.x ?? 0) + cells * 2 ** this.grain.level, x0), x1 - 0.5)
    this.store.look(row, x)
  }

  /** Announces to screen readers where the cursor rests. */
  private readonly saySoon = atRest(SAYS_AFTER_MS, () => {
    const { cursor } = this.store.state
    if (!cursor || document.activeElement !== this.plot) return
    const cell = Math.floor((cursor.x + this.store.origin) / 2 ** this.grain.level)
    this.says.textContent = `${this.store.data.label[cursor.row]}, ${this.spanOf(cell)}: ${this.valueAt(cursor.row, cell)}`
  })
}
