/** What a drawing of the timeline shows, and the strokes that its parts share. */

import type { History } from "../../lib/data/history"
import type { Rect } from "../../lib/picture/labels"
import type { Scale } from "../../lib/data/scale"
import type { Theme } from "../../lib/picture/theme"
import { type Window, xOn, yOn } from "../../lib/picture/window"
import type { State } from "../../store"
import type { Geometry } from "./geometry"
import type { Pen } from "./pen"

/** What a drawing shows. */
export interface Scene {
  g: Geometry
  state: State
  scale: Scale
  /** The recording without what is left out. */
  counted: History
  theme: Theme
  /** A box being dragged from (x0, y0) to (x1, y1), in CSS pixels of the plot element. */
  box: Window | null
}

/** Strokes a line of horizontal pieces. */
export function traceLine(
  pen: Pen,
  g: Pick<Geometry, "left" | "top" | "plotHeight">,
  w: Pick<Window, "y0" | "y1">,
  line: Float64Array,
  colour: string,
  width: number,
): void {
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

/** Where a number of bytes at an event is drawn, in the middle of the event. */
export function place({ g, state: { window: w }, scale }: Scene, event: number, bytes: number): { x: number; y: number } {
  const middle = (scale.xOf(event) + scale.endOf(event)) / 2
  return { x: xOn(g, w, middle), y: yOn(g, w, bytes) }
}

export function dot(pen: Pen, { x, y, colour }: { x: number; y: number; colour: string }, theme: Theme, radius: number): void {
  pen.fillStyle = colour
  pen.strokeStyle = theme.surface
  pen.lineWidth = 1.5
  pen.beginPath()
  pen.arc(x, y, radius, 0, 2 * Math.PI)
  pen.fill()
  pen.stroke()
}

/** Fills a shape of straight sides. */
export function polygon(pen: Pen, colour: string, ...corners: [x: number, y: number][]): void {
  pen.fillStyle = colour
  pen.beginPath()
  for (const [x, y] of corners) pen.lineTo(x, y)
  pen.closePath()
  pen.fill()
}

/** Draws a text on a background of its own. */
export function tag(
  pen: Pen,
  { left, top, width, height }: Rect,
  text: string,
  pad: number,
  back: string,
  front: string,
  alpha: number,
): void {
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
