/** Draws the peak and the failed requests, with what was requested and the most that was available. */

import { formatBytes } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import { placeLabels, placeOnLine, type Rect } from "../../lib/picture/labels"
import { yOn } from "../../lib/picture/window"
import type { Theme } from "../../lib/picture/theme"
import type { Geometry } from "./geometry"
import type { Pen } from "./pen"
import { dot, place, type Scene, tag } from "./scene"

/** A labelled point of a curve. */
interface Point {
  x: number
  y: number
  label: string
  colour: string
  /** Position among the failed requests, or -1. */
  oom: number
  /** The y that the curve would have reached with the failed request. */
  wanted: number | null
}

/** Where a failed request can be pointed at, and its position among them. */
export type OomHit = Rect & { oom: number }

/** The most labels of failed requests that are drawn. */
const MOST_LABELS = 8
const HIT_PX = 8

/** The most that could have been reserved, and its y. */
export interface Limit {
  y: number
  colour: string
  /** Its label, the longest version first. */
  texts: string[]
}

/** Draws a line, a dot, and a label where there is room for one; returns where failed requests can be pointed at.
 *
 * The limit's label takes the room that the others leave. */
export function drawPoints(pen: Pen, scene: Scene, limit: Limit | null): OomHit[] {
  const { g, counted: history, theme } = scene
  const { curve, pinnedOom } = scene.state
  const at = (event: number, bytes: number) => place(scene, event, bytes)
  const points: Point[] = history.ooms.map((oom, k) => {
    const label = `out of memory: ${formatBytes(oom.size)} requested`
    const then = history.at(curve, oom.event)
    return { ...at(oom.event, then), wanted: at(oom.event, then + oom.size).y, oom: k, label, colour: theme.danger }
  })
  const peak = history.peakEvent[curve]
  const bytes = history.at(curve, peak)
  if (bytes > 0) points.push({ ...at(peak, bytes), wanted: null, oom: -1, label: `peak ${formatBytes(bytes)}`, colour: theme.accent })
  const right = g.left + g.plotWidth
  const bottom = g.top + g.plotHeight
  const inX = points.filter((point) => point.x >= g.left - 1 && point.x <= right + 1)
  for (const point of inX) pointLine(pen, g, point)
  const seen = inX.filter((point) => point.y >= g.top - 1 && point.y <= bottom)
  // The peak's smaller dot is drawn last, so that both are visible where they meet.
  for (const point of seen) dot(pen, point, theme, point.oom < 0 ? 3.5 : point.oom === pinnedOom ? 8 : 6)
  // The peak's label is placed first, then those of failed requests in order.
  const [peaks, ooms] = [seen.filter((point) => point.oom < 0), seen.filter((point) => point.oom >= 0)]
  return [
    ...labels(pen, g, [...peaks, ...ooms.slice(0, MOST_LABELS)], limit, theme),
    ...ooms.map((point) => ({ ...around(point), oom: point.oom })),
  ]
}

function around({ x, y }: Point): Rect {
  return { left: x - HIT_PX, top: y - HIT_PX, width: 2 * HIT_PX, height: 2 * HIT_PX }
}

function pointLine(pen: Pen, g: Geometry, point: Point): void {
  const { wanted } = point
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

/** Draws the most that could have been reserved at the last visible failed request; without one, all memory of
 * the device. Null if it is not visible. */
export function drawLimit(pen: Pen, { g, state: { window: w }, scale, theme }: Scene, history: History): Limit | null {
  const [first, end] = scale.eventsIn(w.x0, w.x1)
  const oom = history.ooms.filter(({ event }) => event >= first && event < end).at(-1)
  const free = oom && oom.reserved !== null ? oom.reserved + oom.device_free : null
  const bytes = free ?? history.memory
  if (bytes === null) return null
  const y = yOn(g, w, bytes)
  if (y < g.top || y > g.top + g.plotHeight) return null
  const colour = free === null ? theme.reserved : theme.danger
  pen.strokeStyle = colour
  pen.lineWidth = 1
  pen.globalAlpha = 0.7
  pen.setLineDash([7, 4])
  pen.beginPath()
  pen.moveTo(g.left, Math.round(y) + 0.5)
  pen.lineTo(g.left + g.plotWidth, Math.round(y) + 0.5)
  pen.stroke()
  pen.setLineDash([])
  pen.globalAlpha = 1
  const size = formatBytes(bytes)
  const texts =
    free === null
      ? [`${size}: all memory of ${history.device.summary.card?.title ?? "the device"}`, size]
      : [`${size}: all that PyTorch could have had when a request failed`, `${size}: all that PyTorch could have had`, `at most ${size}`]
  return { y, colour, texts }
}

function labels(pen: Pen, g: Geometry, points: Point[], limit: Limit | null, theme: Theme): OomHit[] {
  const pad = g.font * 0.45
  const height = g.font * 1.5
  const area = { left: g.left, top: g.top + 2, width: g.plotWidth, height: g.plotHeight - 4 }
  const wanted = points.map((point) => ({ x: point.x, y: point.y, width: pen.measureText(point.label).width + 2 * pad, height }))
  const hits: OomHit[] = []
  // The points themselves are kept free, too.
  const taken: Rect[] = points.map(around)
  placeLabels(wanted, area, g.font * 0.8).forEach((rect, k) => {
    if (!rect) return
    taken.push(rect)
    tag(pen, rect, points[k].label, pad, theme.surface, points[k].colour, 0.92)
    if (points[k].oom >= 0) hits.push({ ...rect, oom: points[k].oom })
  })
  if (limit) {
    const widths = limit.texts.map((text) => pen.measureText(text).width + 2 * pad)
    const found = placeOnLine(widths, limit.y, height, area, taken)
    if (found) tag(pen, found.rect, limit.texts[found.text], pad, theme.surface, limit.colour, 0.8)
  }
  return hits
}
