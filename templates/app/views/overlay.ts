/** Draws what lies over the strips: axes, curves, stages, events, the peak and the cursor. */

import { type Band, bandsIn } from "../lib/bands"
import { hash } from "../lib/colours"
import { formatBytes, formatCount, formatDuration, formatStep } from "../lib/format"
import type { History } from "../lib/history"
import { overlap, placeLabels, type Rect } from "../lib/labels"
import { type Mark, type MarkKind, marksIn } from "../lib/marks"
import { outline } from "../lib/outline"
import type { Scale } from "../lib/scale"
import type { Theme } from "../lib/theme"
import { byteTickLabels, byteTicks, stepTicks, timeTickLabels, timeTicks } from "../lib/ticks"
import type { Window } from "../lib/window"
import type { Ruler, State } from "../store"
import { bandTop, type Geometry } from "./geometry"
import { fit, type Pen } from "./pen"

/** A box being dragged, in CSS pixels of the plot element. */
export interface Box {
  x0: number
  y0: number
  x1: number
  y1: number
}

/** What a drawing shows. */
export interface Scene {
  g: Geometry
  state: State
  scale: Scale
  theme: Theme
  box: Box | null
}

/** A labelled point of a curve. */
interface Point {
  x: number
  y: number
  label: string
  colour: string
  /** Position among the failed requests, or -1. */
  oom: number
}

/** The cursor's label on the axis, and the x that it stands for. */
interface Handle extends Rect {
  x: number
  label: string
}

/** Where a drawing put what can be pointed at. */
export interface Drawn {
  bands: Band[]
  marks: Mark[]
  ooms: (Rect & { oom: number })[]
}

/** More labels of failed requests than these help nobody. */
const MOST_LABELS = 8
const HIT_PX = 8

/** Works in CSS pixels. */
export class Overlay {
  drawn: Drawn = { bands: [], marks: [], ooms: [] }

  constructor(readonly history: History) {}

  /** Draws everything on an empty pen whose font is not yet set. */
  draw(pen: Pen, scene: Scene): void {
    const { g, theme } = scene
    pen.font = `${g.font}px ${theme.font}`
    this.drawn = { bands: [], marks: [], ooms: [] }
    this.bytesAxis(pen, scene)
    const handle = this.handle(pen, scene)
    this.stepsAxis(pen, scene, handle)
    pen.save()
    pen.clipTo(g.left, g.top, g.plotWidth, g.plotHeight)
    this.curves(pen, scene)
    pen.restore()
    this.limit(pen, scene)
    this.cursorLine(pen, scene)
    this.bands(pen, scene)
    this.rug(pen, scene)
    this.points(pen, scene)
    if (handle) this.cursorHandle(pen, scene, handle)
    if (scene.state.ruler) this.ruler(pen, scene, scene.state.ruler)
    if (scene.box) this.box(pen, scene.box, theme)
  }

  /** The failed request whose mark is under a point, or -1. */
  oomAt(x: number, y: number): number {
    return this.drawn.ooms.find((hit) => overlap(hit, { left: x, top: y, width: 0.5, height: 0.5 }))?.oom ?? -1
  }

  /** The innermost stage whose band is under a point, or -1. */
  stageAt(g: Geometry, x: number, y: number): number {
    const hits = this.drawn.bands.filter((band) => {
      const top = bandTop(g, band.row)
      return y >= top && y < top + g.bandHeight + 2 && x >= g.left + band.left && x < g.left + band.right
    })
    return hits.length ? hits[hits.length - 1].stage : -1
  }

  /** The mark of the rug nearest to a place, or null. */
  markAt(g: Geometry, x: number): Mark | null {
    let best: Mark | null = null
    for (const mark of this.drawn.marks) {
      if (Math.abs(g.left + mark.pixel - x) <= 3 && (!best || Math.abs(g.left + mark.pixel - x) < Math.abs(g.left + best.pixel - x))) best = mark
    }
    return best
  }

  private bytesAxis(pen: Pen, { g, state: { window: w }, theme }: Scene): void {
    const bottom = g.top + g.plotHeight
    const ticks = byteTicks(w.y0, w.y1, g.plotHeight / (g.font * 5))
    const labels = byteTickLabels(ticks)
    pen.textBaseline = "middle"
    pen.textAlign = "right"
    ticks.forEach((tick, k) => {
      const y = Math.round(bottom - ((tick - w.y0) / (w.y1 - w.y0)) * g.plotHeight)
      pen.fillStyle = theme.grid
      if (y < bottom) pen.fillRect(g.left, y, g.plotWidth, 1)
      pen.fillStyle = theme.muted
      pen.fillText(labels[k], g.left - g.font * 0.6, Math.min(y + 0.5, bottom - 2))
    })
    pen.fillStyle = theme.grid
    pen.fillRect(g.left, bottom, g.plotWidth, 1)
  }

  /** Steps with their times under them, or the other way round. */
  private stepsAxis(pen: Pen, { g, state: { window: w }, scale, theme }: Scene, handle: Handle | null): void {
    const { history } = this
    const byTime = scale.axis === "time"
    const top = g.top + g.plotHeight + g.rugHeight
    const wanted = g.plotWidth / (g.font * 9)
    const ticks = (byTime ? timeTicks(w.x0, w.x1, wanted) : stepTicks(w.x0, w.x1, wanted)).filter((tick) => byTime || tick < scale.events)
    const labels = byTime ? timeTickLabels(ticks) : ticks.map(formatCount)
    pen.textAlign = "center"
    pen.textBaseline = "top"
    let clear = -Infinity
    ticks.forEach((tick, k) => {
      const x = g.left + ((tick - w.x0) / (w.x1 - w.x0)) * g.plotWidth
      const time = history.timeOf(tick)
      const below = byTime ? formatStep(scale.stepAt(tick)) : time === null ? "" : formatDuration(time)
      const half = Math.max(pen.measureText(labels[k]).width, pen.measureText(below).width) / 2
      if (x - half < clear || x + half > g.width) return // no room
      if (handle && x + half + g.font * 0.3 > handle.left && x - half - g.font * 0.3 < handle.left + handle.width) return // it says more
      clear = x + half + g.font
      pen.fillStyle = theme.grid
      pen.fillRect(Math.round(x), top - g.rugHeight, 1, g.rugHeight + g.font * 0.3)
      pen.fillStyle = theme.muted
      pen.fillText(labels[k], x, top + g.font * 0.5)
      pen.globalAlpha = 0.8
      pen.fillText(below, x, top + g.font * 1.75)
      pen.globalAlpha = 1
    })
    pen.textAlign = "left"
    pen.fillStyle = theme.muted
    pen.fillText(byTime ? "time" : "step", g.edge, top + g.font * 0.5)
    if (byTime || history.hasTimes) pen.fillText(byTime ? "step" : "time", g.edge, top + g.font * 1.75)
  }

  /** The curves that the strips do not show. */
  private curves(pen: Pen, { g, state, scale, theme }: Scene): void {
    const { history } = this
    const draw = (name: "allocated" | "requested" | "reserved", colour: string, width: number, dash: number[] = []) => {
      const line = outline(history.curves[name], scale, state.window, g.plotWidth)
      pen.setLineDash(dash)
      traceLine(pen, g, state.window, line, colour, width)
      pen.setLineDash([])
    }
    if (history.hasReserved) draw("reserved", theme.reserved, 1.75, [7, 3])
    draw(state.curve === "allocated" ? "requested" : "allocated", theme.other, 1)
    // With some strips left out, only a line shows how high all of them stand.
    if (state.filtered.size) draw(state.curve, theme.accent, 1.25, [3, 3])
  }

  private bands(pen: Pen, { g, state, scale, theme }: Scene): void {
    const { stages } = this.history.device.summary
    if (!stages.length) return
    this.drawn.bands = bandsIn(stages, scale, state.window, g.plotWidth)
    pen.textAlign = "left"
    pen.textBaseline = "middle"
    for (const band of this.drawn.bands) {
      const { name } = stages[band.stage]
      const x = g.left + band.left
      const y = bandTop(g, band.row)
      const width = band.right - band.left
      pen.fillStyle = theme.band[hash(name) % theme.band.length]
      pen.fillRect(x, y, Math.max(width - 1, 0.75), g.bandHeight)
      if (width < g.font * 2.5) continue
      pen.fillStyle = theme.text
      pen.fillText(fit(pen, name, width - g.font), x + g.font * 0.5, y + g.bandHeight / 2 + 0.5)
    }
  }

  /** Ticks for all other events, under the strips. */
  private rug(pen: Pen, { g, state, scale, theme }: Scene): void {
    const { device } = this.history
    this.drawn.marks = marksIn(device, scale, state.window, g.plotWidth)
    const colours: Record<MarkKind, string> = {
      oom: theme.danger, snapshot: theme.accent, grow: theme.reserved, shrink: theme.reserved, other: theme.muted,
    }
    const top = g.top + g.plotHeight + 1
    for (const { pixel, kind } of this.drawn.marks) {
      pen.fillStyle = colours[kind]
      pen.globalAlpha = kind === "shrink" ? 0.55 : 1
      const strong = kind === "oom" || kind === "snapshot"
      // Memory that came fills the rug; memory that went, its lower half.
      const from = kind === "shrink" ? Math.ceil(g.rugHeight / 2) : 0
      pen.fillRect(g.left + pixel - (strong ? 0.5 : 0), top + from, strong ? 2 : 1, g.rugHeight - from - 1)
    }
    pen.globalAlpha = 1
  }

  /** The peak and the failed requests: a line, a dot, and a label where there is room for one. */
  private points(pen: Pen, scene: Scene): void {
    const { g, state: { curve, pinnedOom }, theme } = scene
    const { history } = this
    const at = (step: number, bytes: number) => place(scene, step, bytes)
    const points: Point[] = history.ooms.map((oom, k) => {
      const label = `out of memory: ${formatBytes(oom.size)} wanted`
      return { ...at(oom.step, history.at(curve, oom.step)), oom: k, label, colour: theme.danger }
    })
    const peak = history.peakStep[curve]
    const bytes = history.at(curve, peak)
    if (bytes > 0) points.push({ ...at(peak, bytes), oom: -1, label: `peak ${formatBytes(bytes)}`, colour: theme.accent })
    const right = g.left + g.plotWidth
    const bottom = g.top + g.plotHeight
    const inX = points.filter((point) => point.x >= g.left - 1 && point.x <= right + 1)
    for (const point of inX) this.pointLine(pen, g, point, point.oom < 0 ? null : this.wantedTop(scene, point.oom))
    const seen = inX.filter((point) => point.y >= g.top - 1 && point.y <= bottom)
    // The peak's smaller dot is drawn last: where the two meet, both are seen.
    for (const point of seen) dot(pen, point, theme, point.oom < 0 ? 3.5 : point.oom === pinnedOom ? 8 : 6)
    // The peak chooses its label's place first, then the failed requests in order.
    this.labels(pen, g, [...seen.filter((point) => point.oom < 0), ...seen.filter((point) => point.oom >= 0).slice(0, MOST_LABELS)], theme)
    this.drawn.ooms.push(...seen.filter((point) => point.oom >= 0).map(({ x, y, oom }) =>
      ({ left: x - HIT_PX, top: y - HIT_PX, width: 2 * HIT_PX, height: 2 * HIT_PX, oom })))
  }

  /** How high a failed request would have gone, as a y. */
  private wantedTop(scene: Scene, oom: number): number {
    const { size, step } = this.history.ooms[oom]
    return place(scene, step, this.history.at(scene.state.curve, step) + size).y
  }

  private pointLine(pen: Pen, g: Geometry, point: Point, wanted: number | null): void {
    const line = (from: number, to: number, dash: number[]) => {
      const [high, low] = [Math.max(Math.min(from, to), g.top), Math.min(Math.max(from, to), g.top + g.plotHeight)]
      if (high >= low) return
      pen.setLineDash(dash)
      pen.beginPath()
      pen.moveTo(point.x, high)
      pen.lineTo(point.x, low)
      pen.stroke()
      pen.setLineDash([])
    }
    pen.strokeStyle = point.colour
    pen.lineWidth = 1.5
    pen.globalAlpha = 0.55
    line(point.y, g.top + g.plotHeight, point.oom >= 0 ? [4, 3] : [])
    pen.globalAlpha = 1
    if (wanted === null) return
    line(point.y, wanted, [2, 2])
    if (wanted < g.top || wanted > g.top + g.plotHeight) return
    pen.beginPath()
    pen.moveTo(point.x - 6, wanted)
    pen.lineTo(point.x + 6, wanted)
    pen.stroke()
  }

  /** The most that could have been reserved when the last failed request in sight was made. */
  private limit(pen: Pen, { g, state: { window: w }, scale, theme }: Scene): void {
    const [first, end] = scale.stepsIn(w.x0, w.x1)
    const oom = this.history.ooms.filter(({ step }) => step >= first && step < end).at(-1)
    if (!oom || oom.reserved === null) return
    const bytes = oom.reserved + oom.device_free
    const y = g.top + g.plotHeight * (1 - (bytes - w.y0) / (w.y1 - w.y0))
    if (y < g.top || y > g.top + g.plotHeight) return
    pen.strokeStyle = theme.danger
    pen.lineWidth = 1
    pen.globalAlpha = 0.7
    pen.setLineDash([7, 4])
    pen.beginPath()
    pen.moveTo(g.left, Math.round(y) + 0.5)
    pen.lineTo(g.left + g.plotWidth, Math.round(y) + 0.5)
    pen.stroke()
    pen.setLineDash([])
    pen.globalAlpha = 1
    pen.textAlign = "left"
    pen.textBaseline = y - g.font * 1.6 < g.top ? "top" : "bottom"
    pen.fillStyle = theme.danger
    pen.fillText(`${formatBytes(bytes)}: reserved and free when a request failed`, g.left + g.font * 0.5, y + (pen.textBaseline === "top" ? 3 : -2))
  }

  private labels(pen: Pen, g: Geometry, points: Point[], theme: Theme): void {
    const pad = g.font * 0.45
    const height = g.font * 1.5
    const area = { left: g.left, top: g.top + 2, width: g.plotWidth, height: g.plotHeight - 4 }
    const wanted = points.map((point) => ({ x: point.x, y: point.y, width: pen.measureText(point.label).width + 2 * pad, height }))
    placeLabels(wanted, area, g.font * 0.8).forEach((rect, k) => {
      if (!rect) return
      tag(pen, rect, points[k].label, pad, theme.surface, points[k].colour, 0.92)
      if (points[k].oom >= 0) this.drawn.ooms.push({ ...rect, oom: points[k].oom })
    })
  }

  /** Where the cursor is; null out of sight. */
  private cursorX(scene: Scene): number | null {
    const { g, state } = scene
    const { x } = place(scene, state.cursor, 0)
    return x < g.left - 1 || x > g.left + g.plotWidth + 1 ? null : x
  }

  /** A line through the step that every panel shows. */
  private cursorLine(pen: Pen, scene: Scene): void {
    const x = this.cursorX(scene)
    if (x === null) return
    const { g, theme } = scene
    pen.fillStyle = theme.text
    pen.globalAlpha = 0.75
    pen.fillRect(Math.round(x) - 0.5, g.top, 1, g.plotHeight + g.rugHeight)
    pen.globalAlpha = 1
  }

  /** Where the cursor's handle on the axis lies, beside the axis' name; null out of sight. */
  private handle(pen: Pen, scene: Scene): Handle | null {
    const x = this.cursorX(scene)
    if (x === null) return null
    const { g, state: { cursor }, scale } = scene
    const time = scale.axis === "time" && cursor >= 0 ? this.history.timeOf(cursor) : null
    const label = time === null ? formatStep(cursor) : `${formatStep(cursor)}  \u00b7  ${formatDuration(time)}`
    const width = pen.measureText(label).width + g.font
    const least = g.edge + pen.measureText("step").width + g.font * 0.4
    const left = Math.max(Math.min(x - width / 2, g.width - width), least)
    return { x, label, left, top: g.top + g.plotHeight + g.rugHeight, width, height: g.font * 1.6 }
  }

  private cursorHandle(pen: Pen, { g, theme }: Scene, handle: Handle): void {
    const { x, top, label } = handle
    pen.beginPath()
    pen.moveTo(x - g.font * 0.35, top + 1)
    pen.lineTo(x, top - g.font * 0.35)
    pen.lineTo(x + g.font * 0.35, top + 1)
    pen.closePath()
    pen.fillStyle = theme.text
    pen.fill()
    tag(pen, handle, label, g.font * 0.5, theme.text, theme.surface, 1)
  }

  private ruler(pen: Pen, scene: Scene, ruler: Ruler): void {
    const { g, state: { window: w }, scale, theme } = scene
    const x = (value: number) => g.left + ((value - w.x0) / (w.x1 - w.x0)) * g.plotWidth
    const y = (value: number) => g.top + g.plotHeight * (1 - (value - w.y0) / (w.y1 - w.y0))
    const [ax, ay, bx, by] = [x(ruler.x0), y(ruler.y0), x(ruler.x1), y(ruler.y1)]
    pen.save()
    pen.clipTo(g.left, g.top, g.plotWidth, g.plotHeight)
    pen.fillStyle = theme.accent
    pen.globalAlpha = 0.1
    pen.fillRect(Math.min(ax, bx), Math.min(ay, by), Math.abs(bx - ax), Math.abs(by - ay))
    pen.globalAlpha = 1
    pen.strokeStyle = theme.accent
    pen.lineWidth = 1.5
    pen.beginPath()
    pen.moveTo(ax, ay)
    pen.lineTo(bx, ay)
    pen.lineTo(bx, by)
    pen.stroke()
    pen.restore()
    dot(pen, { x: ax, y: ay, colour: theme.accent }, theme, 3)
    dot(pen, { x: bx, y: by, colour: theme.accent }, theme, 3)
    const label = rulerText(this.history, scale, ruler)
    const pad = g.font * 0.6
    const width = pen.measureText(label).width + 2 * pad
    const height = g.font * 1.8
    const left = Math.min(Math.max((ax + bx) / 2 - width / 2, g.left + 2), g.left + g.plotWidth - width - 2)
    const above = Math.min(ay, by) - height - 6
    const top = above > g.top ? above : Math.min(Math.max(ay, by) + 6, g.top + g.plotHeight - height - 2)
    tag(pen, { left, top, width, height }, label, pad, theme.accent, theme.surface, 1)
  }

  private box(pen: Pen, box: Box, theme: Theme): void {
    const [x, y, width, height] = [Math.min(box.x0, box.x1), Math.min(box.y0, box.y1), Math.abs(box.x1 - box.x0), Math.abs(box.y1 - box.y0)]
    pen.fillStyle = theme.accent
    pen.globalAlpha = 0.15
    pen.fillRect(x, y, width, height)
    pen.globalAlpha = 1
    pen.strokeStyle = theme.accent
    pen.lineWidth = 1
    pen.strokeRect(x, y, width, height)
  }
}

/** `1,204 steps, 35.2 ms, +1.20 GiB` */
export function rulerText(history: History, scale: Scale, { x0, y0, x1, y1 }: Ruler): string {
  const [from, to] = [scale.stepAt(Math.min(x0, x1)), scale.stepAt(Math.max(x0, x1))]
  const [start, end] = [history.timeOf(Math.max(from, 0)), history.timeOf(to)]
  const time = scale.axis === "time" ? Math.abs(x1 - x0) : start !== null && end !== null ? end - start : null
  const bytes = Math.round(y1 - y0)
  const steps = to - from
  return [
    `${formatCount(steps)} step${steps === 1 ? "" : "s"}`, time === null ? "" : formatDuration(time),
    bytes > 0 ? `+${formatBytes(bytes)}` : bytes < 0 ? `\u2212${formatBytes(-bytes)}` : "0 B",
  ].filter(Boolean).join("  \u00b7  ")
}

/** Strokes a line of level pieces. */
export function traceLine(pen: Pen, g: Pick<Geometry, "left" | "top" | "plotHeight">, w: Pick<Window, "y0" | "y1">, line: Float64Array, colour: string, width: number): void {
  const perByte = g.plotHeight / (w.y1 - w.y0)
  pen.strokeStyle = colour
  pen.lineWidth = width
  pen.beginPath()
  let last = NaN
  for (let k = 0; k < line.length; k += 3) {
    const y = g.top + g.plotHeight - (line[k + 2] - w.y0) * perByte
    if (k === 0) pen.moveTo(g.left + line[k], y)
    else if (y !== last) {
      pen.lineTo(g.left + line[k], last)
      pen.lineTo(g.left + line[k], y)
    }
    last = y
  }
  if (line.length) pen.lineTo(g.left + line[line.length - 2], last)
  pen.stroke()
}

/** Where a step and a number of bytes lie; the middle of the step. */
export function place({ g, state: { window: w }, scale }: Scene, step: number, bytes: number): { x: number; y: number } {
  const middle = (scale.xOf(step) + scale.endOf(step)) / 2
  return {
    x: g.left + ((middle - w.x0) / (w.x1 - w.x0)) * g.plotWidth,
    y: g.top + g.plotHeight * (1 - (bytes - w.y0) / (w.y1 - w.y0)),
  }
}

function dot(pen: Pen, { x, y, colour }: { x: number; y: number; colour: string }, theme: Theme, radius: number): void {
  pen.fillStyle = colour
  pen.strokeStyle = theme.surface
  pen.lineWidth = 1.5
  pen.beginPath()
  pen.arc(x, y, radius, 0, 2 * Math.PI)
  pen.fill()
  pen.stroke()
}

function tag(pen: Pen, { left, top, width, height }: Rect, text: string, pad: number, back: string, front: string, alpha: number): void {
  pen.fillStyle = back
  pen.globalAlpha = alpha
  pen.beginPath()
  pen.roundRect(left, top, width, height, 4)
  pen.fill()
  pen.globalAlpha = 1
  pen.textAlign = "left"
  pen.textBaseline = "middle"
  pen.fillStyle = front
  pen.fillText(text, left + pad, top + height / 2 + 0.5)
}
