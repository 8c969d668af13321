/** Draws what lies over the strips: axes, curves, stages and markers, on a 2D canvas. */

import { bandRows, bandsIn } from "../lib/bands"
import { hash } from "../lib/colours"
import type { Curve } from "../lib/curves"
import { formatBytes, formatCount, formatDuration } from "../lib/format"
import type { History } from "../lib/history"
import { overlap, placeLabels, type Rect } from "../lib/labels"
import type { Theme } from "../lib/theme"
import { byteTickLabels, byteTicks, stepTicks } from "../lib/ticks"
import type { Window } from "../lib/window"
import type { Geometry } from "./geometry"

/** A box being dragged, in CSS pixels of the plot element. */
export interface Box {
  x0: number
  y0: number
  x1: number
  y1: number
}

/** A point of a curve with a label. */
interface Mark {
  x: number
  y: number
  label: string
  colour: string
  /** Position among the failed requests, or -1. */
  oom: number
}

/** More labels of failed requests than these help nobody. */
const MOST_LABELS = 8
const HIT_PX = 8

/** Works in CSS pixels; the context is scaled to device pixels by `begin`. */
export class Overlay {
  private readonly context: CanvasRenderingContext2D
  /** Where the last drawing shows a failed request, its label or its dot. */
  private hits: (Rect & { oom: number })[] = []

  /** `software`: no graphics card; plain painting is then twice as fast as emulating one. */
  constructor(private readonly canvas: HTMLCanvasElement, private readonly history: History, software: boolean) {
    this.context = canvas.getContext("2d", { willReadFrequently: software })!
  }

  draw(g: Geometry, w: Window, curve: Curve, theme: Theme, pixelRatio: number, box: Box | null, pinnedOom: number): void {
    const c = this.context
    c.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0)
    c.clearRect(0, 0, g.width, g.height)
    c.font = `${g.font}px ${theme.font}`
    c.lineJoin = "round"
    this.axes(g, w, theme)
    c.save()
    c.beginPath()
    c.rect(g.left, g.top, g.plotWidth, g.plotHeight)
    c.clip()
    if (this.history.hasReserved) this.curve(g, w, "reserved", theme.reserved, 1.5)
    this.curve(g, w, curve === "allocated" ? "requested" : "allocated", theme.other, 1)
    c.restore()
    this.bands(g, w, theme)
    this.marks(g, w, curve, pinnedOom, theme)
    if (box) this.box(box, theme)
  }

  /** The failed request whose mark is under a point, or -1. */
  oomAt(x: number, y: number): number {
    return this.hits.find((hit) => overlap(hit, { left: x, top: y, width: 0.5, height: 0.5 }))?.oom ?? -1
  }

  resize(width: number, height: number): void {
    this.canvas.width = width
    this.canvas.height = height
  }

  private axes(g: Geometry, w: Window, theme: Theme): void {
    const c = this.context
    const bottom = g.top + g.plotHeight
    const ticks = byteTicks(w.y0, w.y1, g.plotHeight / (g.font * 5))
    const labels = byteTickLabels(ticks)
    c.textBaseline = "middle"
    c.textAlign = "right"
    ticks.forEach((tick, k) => {
      const y = Math.round(bottom - ((tick - w.y0) / (w.y1 - w.y0)) * g.plotHeight) + 0.5
      c.fillStyle = theme.grid
      c.fillRect(g.left, y - 0.5, g.plotWidth, 1)
      c.fillStyle = theme.muted
      c.fillText(labels[k], g.left - g.font * 0.6, Math.min(y, bottom - 2))
    })
    c.textAlign = "center"
    c.textBaseline = "top"
    let clear = -Infinity
    for (const tick of stepTicks(w.x0, w.x1, g.plotWidth / (g.font * 9))) {
      if (tick >= this.history.device.events) break
      const x = g.left + ((tick - w.x0) / (w.x1 - w.x0)) * g.plotWidth
      const time = this.history.timeOf(tick)
      const label = formatCount(tick)
      const half = c.measureText(label).width / 2
      if (x - half < clear || x + half > g.width) continue // no room
      clear = x + half + g.font
      c.fillStyle = theme.grid
      c.fillRect(Math.round(x), bottom, 1, g.font * 0.4)
      c.fillStyle = theme.muted
      c.fillText(label, x, bottom + g.font * 0.6)
      if (time !== null) {
        c.globalAlpha = 0.8
        c.fillText(formatDuration(time), x, bottom + g.font * 1.9)
        c.globalAlpha = 1
      }
    }
    c.textAlign = "left"
    c.fillStyle = theme.muted
    c.fillText("step", 0, bottom + g.font * 0.6)
    if (this.history.hasTimes) c.fillText("time", 0, bottom + g.font * 1.9)
    c.fillStyle = theme.grid
    c.fillRect(g.left, bottom, g.plotWidth, 1)
  }

  /** A line of the most in each pixel column. */
  private curve(g: Geometry, w: Window, name: Curve | "reserved", colour: string, width: number): void {
    const c = this.context
    const extremes = this.history.curves[name]
    const perPixel = (w.x1 - w.x0) / g.plotWidth
    const y = (value: number) => g.top + g.plotHeight * (1 - (value - w.y0) / (w.y1 - w.y0))
    c.strokeStyle = colour
    c.lineWidth = width
    c.beginPath()
    let started = false
    const first = Math.max(Math.floor(w.x0), -1)
    const last = Math.min(Math.ceil(w.x1), this.history.device.events)
    const line = (from: number, to: number, value: number) => {
      if (started) c.lineTo(from, y(value))
      else c.moveTo(from, y(value))
      started = true
      c.lineTo(to, y(value))
    }
    if (perPixel < 1) {
      for (let s = first; s < last; s++) {
        line(g.left + (s - w.x0) / perPixel, g.left + (s + 1 - w.x0) / perPixel, extremes.values[s + 1])
      }
    } else {
      for (let x = 0; x < g.plotWidth; x++) {
        const from = Math.max(Math.floor(w.x0 + x * perPixel), -1)
        const to = Math.min(Math.ceil(w.x0 + (x + 1) * perPixel), this.history.device.events)
        if (to > from) line(g.left + x, g.left + x + 1, extremes.values[extremes.firstMax(from + 1, to + 1)])
      }
    }
    c.stroke()
  }

  private bands(g: Geometry, w: Window, theme: Theme): void {
    const c = this.context
    const { stages } = this.history.device.summary
    const rows = bandRows(stages)
    c.textAlign = "left"
    c.textBaseline = "middle"
    for (const band of bandsIn(stages, w, g.plotWidth)) {
      const { name } = stages[band.stage]
      const x = g.left + band.left
      const y = bandTop(g, rows, band.row)
      const width = band.right - band.left
      c.fillStyle = theme.band[hash(name) % theme.band.length]
      c.fillRect(x, y, Math.max(width - 1, 0.75), g.bandHeight)
      if (width < g.font * 2.5) continue
      c.fillStyle = theme.text
      c.fillText(fit(c, name, width - g.font), x + g.font * 0.5, y + g.bandHeight / 2 + 0.5)
    }
  }

  /** The peak and the failed requests: a line, a dot, and a label where there is room for one. */
  private marks(g: Geometry, w: Window, curve: Curve, pinnedOom: number, theme: Theme): void {
    const { history } = this
    const peak = history.peakStep[curve]
    const marks: Mark[] = history.ooms.map((oom, k) => {
      const label = `out of memory: ${formatBytes(oom.size)} wanted`
      return { ...point(g, w, oom.step, history.at(curve, oom.step)), oom: k, label, colour: theme.danger }
    })
    const bytes = history.at(curve, peak)
    if (bytes > 0) marks.push({ ...point(g, w, peak, bytes), oom: -1, label: `peak ${formatBytes(bytes)}`, colour: theme.accent })
    const right = g.left + g.plotWidth
    const inX = marks.filter((mark) => mark.x >= g.left - 1 && mark.x <= right + 1)
    for (const mark of inX) this.markLine(g, mark)
    const bottom = g.top + g.plotHeight
    const seen = inX.filter((mark) => mark.y >= g.top - 1 && mark.y <= bottom)
    // The peak's smaller dot is drawn last: where the two meet, both are seen.
    for (const mark of seen) this.dot(mark, theme, mark.oom < 0 ? 3.5 : mark.oom === pinnedOom ? 8 : 6)
    // The peak chooses its label's place first, then the failed requests in order.
    this.labels(g, [...seen.filter((mark) => mark.oom < 0), ...seen.filter((mark) => mark.oom >= 0).slice(0, MOST_LABELS)], theme)
    this.hits.push(...seen.filter((mark) => mark.oom >= 0).map(({ x, y, oom }) =>
      ({ left: x - HIT_PX, top: y - HIT_PX, width: 2 * HIT_PX, height: 2 * HIT_PX, oom })))
  }

  private markLine(g: Geometry, mark: Mark): void {
    const c = this.context
    c.strokeStyle = mark.colour
    c.lineWidth = 1.5
    c.setLineDash(mark.oom >= 0 ? [4, 3] : [])
    c.beginPath()
    c.moveTo(mark.x, Math.max(mark.y, g.top))
    c.lineTo(mark.x, g.top + g.plotHeight)
    c.globalAlpha = 0.55
    c.stroke()
    c.globalAlpha = 1
    c.setLineDash([])
  }

  private dot(mark: Mark, theme: Theme, radius: number): void {
    const c = this.context
    c.fillStyle = mark.colour
    c.strokeStyle = theme.surface
    c.beginPath()
    c.arc(mark.x, mark.y, radius, 0, 2 * Math.PI)
    c.fill()
    c.stroke()
  }

  private labels(g: Geometry, marks: Mark[], theme: Theme): void {
    const c = this.context
    const pad = g.font * 0.45
    const height = g.font * 1.5
    const area = { left: g.left, top: g.top + 2, width: g.plotWidth, height: g.plotHeight - 4 }
    const wanted = marks.map((mark) => ({ x: mark.x, y: mark.y, width: c.measureText(mark.label).width + 2 * pad, height }))
    c.textAlign = "left"
    c.textBaseline = "middle"
    this.hits = []
    placeLabels(wanted, area, g.font * 0.8).forEach((place, k) => {
      if (!place) return
      c.fillStyle = theme.surface
      c.globalAlpha = 0.92
      c.beginPath()
      c.roundRect(place.left, place.top, place.width, place.height, 4)
      c.fill()
      c.globalAlpha = 1
      c.fillStyle = marks[k].colour
      c.fillText(marks[k].label, place.left + pad, place.top + height / 2 + 0.5)
      if (marks[k].oom >= 0) this.hits.push({ ...place, oom: marks[k].oom })
    })
  }

  private box(box: Box, theme: Theme): void {
    const c = this.context
    const [x, y, width, height] = [Math.min(box.x0, box.x1), Math.min(box.y0, box.y1), Math.abs(box.x1 - box.x0), Math.abs(box.y1 - box.y0)]
    c.fillStyle = theme.accent
    c.globalAlpha = 0.15
    c.fillRect(x, y, width, height)
    c.globalAlpha = 1
    c.strokeStyle = theme.accent
    c.lineWidth = 1
    c.strokeRect(x, y, width, height)
  }
}

/** Where a step and a number of bytes lie; the middle of the step. */
function point(g: Geometry, w: Window, step: number, bytes: number): { x: number; y: number } {
  return {
    x: g.left + ((step + 0.5 - w.x0) / (w.x1 - w.x0)) * g.plotWidth,
    y: g.top + g.plotHeight * (1 - (bytes - w.y0) / (w.y1 - w.y0)),
  }
}

/** The outermost stages on top. */
export function bandTop(g: Geometry, rows: number, row: number): number {
  return g.top - g.font * 0.5 - (rows - row) * (g.bandHeight + 2)
}

/** Cuts a text to a width, with an ellipsis. */
function fit(c: CanvasRenderingContext2D, text: string, width: number): string {
  if (c.measureText(text).width <= width) return text
  let low = 0
  let high = Math.min(text.length, 200)
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (c.measureText(`${text.slice(0, middle)}\u2026`).width <= width) low = middle
    else high = middle - 1
  }
  return low > 1 ? `${text.slice(0, low)}\u2026` : ""
}
