/** The axes of the timeline, and the cursor on them. */

import { formatCount, formatDuration, formatEvent } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import type { Rect } from "../../lib/picture/labels"
import { byteTickLabels, byteTicks, eventTicks, timeTickLabels, timeTicks } from "../../lib/picture/ticks"
import { xOn, yOn } from "../../lib/picture/window"
import type { Pen } from "./pen"
import { place, polygon, type Scene, tag } from "./scene"

/** The cursor's label on the axis, and the x that it stands for. */
export interface Handle extends Rect {
  x: number
  label: string
}

export function drawBytesAxis(pen: Pen, { g, state: { window: w }, theme }: Scene): void {
  const bottom = g.top + g.plotHeight
  const ticks = byteTicks(w.y0, w.y1, g.plotHeight / (g.font * 5))
  const labels = byteTickLabels(ticks)
  pen.textBaseline = "middle"
  pen.textAlign = "right"
  ticks.forEach((tick, k) => {
    const y = Math.round(yOn(g, w, tick))
    pen.fillStyle = theme.grid
    if (y < bottom) pen.fillRect(g.left, y, g.plotWidth, 1)
    pen.fillStyle = theme.muted
    pen.fillText(labels[k], g.left - g.font * 0.6, Math.min(y + 0.5, bottom - 2))
  })
  pen.fillStyle = theme.grid
  pen.fillRect(g.left, bottom, g.plotWidth, 1)
}

/** Events with their times under them, or the other way round. */
export function drawEventsAxis(pen: Pen, { g, state: { window: w }, scale, theme }: Scene, history: History, handle: Handle | null): void {
  const byTime = scale.axis === "time"
  const top = g.top + g.plotHeight + g.rugHeight
  const wanted = g.plotWidth / (g.font * 9)
  const ticks = (byTime ? timeTicks(w.x0, w.x1, wanted) : eventTicks(w.x0, w.x1, wanted)).filter((tick) => byTime || tick < scale.events)
  const labels = byTime ? timeTickLabels(ticks) : ticks.map(formatCount)
  pen.textAlign = "center"
  pen.textBaseline = "top"
  let clear = -Infinity
  ticks.forEach((tick, k) => {
    const x = xOn(g, w, tick)
    const time = history.timeOf(tick)
    const below = byTime
      ? tick < scale.xOf(scale.events)
        ? formatEvent(scale.eventAt(tick))
        : ""
      : time === null
        ? ""
        : formatDuration(time)
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
  pen.fillText(byTime ? "time" : "event", g.edge, top + g.font * 0.5)
  if (byTime || history.hasTimes) pen.fillText(byTime ? "event" : "time", g.edge, top + g.font * 1.75)
}

/** The x of the cursor; null if it is not visible. */
function cursorX(scene: Scene): number | null {
  const { g, state } = scene
  const { x } = place(scene, state.cursor, 0)
  return x < g.left - 1 || x > g.left + g.plotWidth + 1 ? null : x
}

/** A line through the event that every panel shows. */
export function drawCursorLine(pen: Pen, scene: Scene): void {
  const x = cursorX(scene)
  if (x === null) return
  const { g, theme } = scene
  pen.fillStyle = theme.text
  pen.globalAlpha = 0.75
  pen.fillRect(Math.round(x) - 0.5, g.top, 1, g.plotHeight + g.rugHeight)
  pen.globalAlpha = 1
}

/** The cursor's handle on the axis, clear of the axis' name; null if it is not visible. */
export function cursorHandle(pen: Pen, scene: Scene, history: History): Handle | null {
  const x = cursorX(scene)
  if (x === null) return null
  const { g, scale } = scene
  const { cursor } = scene.state
  const time = scale.axis === "time" && cursor >= 0 ? history.timeOf(cursor) : null
  const label = time === null ? formatEvent(cursor) : `${formatEvent(cursor)}  \u00b7  ${formatDuration(time)}`
  const width = pen.measureText(label).width + g.font
  const least = g.edge + pen.measureText("event").width + g.font * 0.4
  const left = Math.max(Math.min(x - width / 2, g.width - width), least)
  return { x, label, left, top: g.top + g.plotHeight + g.rugHeight, width, height: g.font * 1.6 }
}

export function drawCursorHandle(pen: Pen, { g, theme }: Scene, handle: Handle): void {
  const { x, top, label } = handle
  const tip = g.font * 0.35
  polygon(pen, theme.text, [x - tip, top + 1], [x, top - tip], [x + tip, top + 1])
  tag(pen, handle, label, g.font * 0.5, theme.text, theme.surface, 1)
}
