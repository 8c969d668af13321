/** Lays the heat map out, and draws over and around its cells: ranks, the axis, failures, odd ranks, and the selected cell. */

import type { Theme } from "../../lib/picture/theme"
import { eventTicks, timeTickLabels, timeTicks } from "../../lib/picture/ticks"
import { xOn, yOn } from "../../lib/picture/window"
import { formatCount } from "../../lib/text/format"
import { fit, type Pen } from "../../views/drawing/pen"
import { polygon } from "../../views/drawing/scene"
import type { Grain } from "../picture/heat_raster"
import type { RunStore } from "../run_store"
import { oddColour } from "./run_words"

export type HeatGeometry = ReturnType<typeof layOutHeat>

/** The cells begin and end at device pixels, so that a cell one pixel wide has a pixel of its own. `labels`: width of the widest. */
export function layOutHeat(width: number, height: number, remPx: number, ratio: number, labels: number) {
  const whole = (css: number) => Math.round(css * ratio) / ratio
  const font = Math.round(remPx * 0.75)
  const strip = Math.round(font * 0.5)
  const left = whole(Math.min(labels + font * 0.6 + strip + 3, width * 0.4))
  const top = whole(Math.round(font * 0.4))
  return {
    width,
    height,
    left,
    top,
    /** Left of the cells: a strip with the colour of each row's group. */
    strip,
    /** Font size. */
    font,
    plotWidth: whole(Math.max(width - left - Math.round(font * 1.2), 1)),
    plotHeight: whole(Math.max(height - top - Math.round(font * 2.2), 1)),
  }
}

/** Where rows and places of the axis are drawn. */
export class HeatPlaces {
  constructor(
    private readonly g: HeatGeometry,
    private readonly store: RunStore,
  ) {}

  x(place: number): number {
    return xOn(this.g, this.store.state.window, place)
  }

  /** The top of a row, given by its place in the order. */
  y(place: number): number {
    const { window: w, order } = this.store.state
    return yOn(this.g, w, order.length - place)
  }

  /** The visible part of the order, as [first, end). */
  get rows(): [number, number] {
    const { window: w, order } = this.store.state
    return [Math.max(Math.floor(order.length - w.y1), 0), Math.min(Math.ceil(order.length - w.y0), order.length)]
  }
}

export function drawHeatAxes(pen: Pen, g: HeatGeometry, store: RunStore, grain: Grain, colours: Theme): void {
  pen.font = `${g.font}px ${colours.font}`
  const places = new HeatPlaces(g, store)
  drawRows(pen, g, store, places, colours)
  drawAxis(pen, g, store, places, colours)
  pen.save()
  pen.clipTo(g.left, g.top, g.plotWidth, g.plotHeight)
  drawFailures(pen, store, places, colours)
  pen.restore()
  drawCursor(pen, g, store, places, grain, colours)
  drawOdd(pen, g, store, places, colours)
}

/** Writes names beside as many rows as there is room for, and the groups if rows are in their order. */
function drawRows(pen: Pen, g: HeatGeometry, { data, state }: RunStore, places: HeatPlaces, colours: Theme): void {
  const [first, end] = places.rows
  const rowPx = g.plotHeight / (state.window.y1 - state.window.y0)
  let every = 1
  while (every * rowPx < g.font * 1.25) every *= 2
  pen.textAlign = "right"
  pen.textBaseline = "middle"
  pen.fillStyle = colours.muted
  const right = g.left - g.strip - g.font * 0.5
  for (let place = Math.ceil(first / every) * every; place < end; place += every) {
    const y = places.y(place + 0.5)
    if (y < g.top + g.font * 0.4 || y > g.top + g.plotHeight - g.font * 0.3) continue
    pen.fillText(fit(pen, data.label[state.order[place]], right - 2), right, y)
  }
  if (state.sort !== "group") return
  for (let place = first; place < end;) {
    const group = data.group[state.order[place]]
    let to = place + 1
    while (to < end && data.group[state.order[to]] === group) to++
    const [top, bottom] = [Math.max(places.y(place), g.top), Math.min(places.y(to), g.top + g.plotHeight)]
    pen.fillStyle = group < 0 ? colours.grid : colours.muted
    pen.globalAlpha = group % 2 ? 0.35 : 0.8
    pen.fillRect(g.left - g.strip - 1, top, g.strip - 1, Math.max(bottom - top - 0.5, 0.5))
    pen.globalAlpha = 1
    place = to
  }
}

function drawAxis(pen: Pen, g: HeatGeometry, store: RunStore, places: HeatPlaces, colours: Theme): void {
  const { axis, window: w } = store.state
  const wanted = g.plotWidth / (g.font * 8)
  const shift = axis === "time" ? 0 : store.origin
  const ticks = axis === "time" ? timeTicks(w.x0, w.x1, wanted) : eventTicks(w.x0 + shift, w.x1 + shift, wanted)
  const labels = axis === "time" ? timeTickLabels(ticks) : ticks.map(formatCount)
  const top = g.top + g.plotHeight
  pen.textBaseline = "top"
  pen.textAlign = "left"
  pen.fillStyle = colours.muted
  pen.fillText(axis, 0, top + g.font * 0.55)
  let clear = pen.measureText(axis).width + g.font * 0.5
  pen.textAlign = "center"
  ticks.forEach((tick, k) => {
    const x = places.x(tick - shift + (axis === "step" ? 0.5 : 0))
    const half = pen.measureText(labels[k]).width / 2
    if (x - half < clear || x + half > g.width || x < g.left - 1 || x > g.left + g.plotWidth + 1) return
    clear = x + half + g.font
    pen.fillStyle = colours.grid
    pen.fillRect(Math.round(x), top, 1, g.font * 0.4)
    pen.fillStyle = colours.muted
    pen.fillText(labels[k], x, top + g.font * 0.55)
  })
}

/** A ring where a request for memory failed. */
function drawFailures(pen: Pen, store: RunStore, places: HeatPlaces, colours: Theme): void {
  const { data, origin, state } = store
  if (state.axis === "step") return
  const [first, end] = places.rows
  for (let place = first; place < end; place++) {
    if (!data.hasFailed(state.order[place])) continue
    for (const { event, timeUs } of data.failures(state.order[place])) {
      const at = state.axis === "event" ? event : timeUs
      if (at === null) continue
      pen.beginPath()
      pen.arc(places.x(at - origin), places.y(place + 0.5), 4, 0, 2 * Math.PI)
      pen.strokeStyle = colours.surface
      pen.lineWidth = 4
      pen.stroke()
      pen.strokeStyle = colours.danger
      pen.lineWidth = 2
      pen.stroke()
    }
  }
}

/** Marks the selected cell and its row, on top of everything else. */
function drawCursor(pen: Pen, g: HeatGeometry, store: RunStore, places: HeatPlaces, grain: Grain, colours: Theme): void {
  const { cursor, order } = store.state
  const place = cursor ? order.indexOf(cursor.row) : -1
  if (!cursor || place < 0) return
  const middle = places.y(place + 0.5)
  if (middle < g.top || middle > g.top + g.plotHeight) return
  const [tip, back, half] = [g.left - 1, g.left - 1 - g.font * 0.5, g.font * 0.35]
  polygon(pen, colours.text, [tip, middle], [back, middle - half], [back, middle + half])
  const width = 2 ** grain.level
  const cell = Math.floor((cursor.x + store.origin) / width) * width - store.origin
  const [x, end] = [places.x(cell), places.x(cell + width)]
  const across = Math.max(end - x, 6)
  const left = (x + end - across) / 2
  if (left + across < g.left || left > g.left + g.plotWidth) return
  const height = Math.max(places.y(place + 1) - places.y(place), 6)
  pen.lineWidth = 1.5
  for (const [colour, by] of [
    [colours.surface, 2.5],
    [colours.text, 1],
  ] as const) {
    pen.strokeStyle = colour
    pen.strokeRect(left - by, middle - height / 2 - by, across + 2 * by, height + 2 * by)
  }
}

/** Marks odd ranks at the right edge, visible however many rows share a pixel. */
function drawOdd(pen: Pen, g: HeatGeometry, { data, state }: RunStore, places: HeatPlaces, colours: Theme): void {
  const [first, end] = places.rows
  const x = g.left + g.plotWidth + 3
  for (let place = first; place < end; place++) {
    const odd = data.odd.get(state.order[place])
    if (!odd) continue
    const y = places.y(place + 0.5)
    if (y < g.top || y > g.top + g.plotHeight) continue
    const [back, half] = [x + g.font * 0.6, g.font * 0.4]
    polygon(pen, colours[oddColour(odd)], [x, y], [back, y - half], [back, y + half])
  }
}
