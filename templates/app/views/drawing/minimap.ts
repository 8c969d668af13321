/** The map of the entire recording, with the timeline's window as a box to move and resize. */

import type { History } from "../../lib/data/history"
import { cssColour } from "../../lib/picture/colours"
import { outline } from "../../lib/picture/outline"
import type { Scale } from "../../lib/data/scale"
import type { Window } from "../../lib/picture/window"
import type { Geometry } from "./geometry"
import { type Scene, traceLine } from "./scene"
import { type Pen, penOf } from "./pen"

/** The part of the box that a point grabs. */
export type Grip = "left" | "right" | "box" | "outside"

const GRIP_PX = 7

/** x of the map in CSS pixels for a place on the axis. */
function xOf(g: Geometry, scale: Scale, x: number): number {
  const [low, high] = scale.whole
  return g.left + ((x - low) / (high - low)) * g.plotWidth
}

export class Minimap {
  /** The curves, which change seldom, and what they were drawn for. */
  private readonly still = document.createElement("canvas")
  private drawnFor = ""
  private drawnOf: History | null = null

  constructor(private readonly history: History) {}

  /** Draws into the overlay; `context` is null for a picture without a map's own canvas. */
  draw(context: CanvasRenderingContext2D, scene: Scene, ratio: number): void {
    const { g, state, scale, theme } = scene
    const key = [g.plotWidth, g.mapHeight, ratio, state.curve, state.axis, theme.dark].join()
    if (key !== this.drawnFor || this.drawnOf !== scene.counted) {
      this.drawStill(scene, ratio)
      this.drawnFor = key
      this.drawnOf = scene.counted
    }
    const pen = context
    pen.drawImage(this.still, g.left, g.mapTop, g.plotWidth, g.mapHeight)
    const cursor = xOf(g, scale, (scale.xOf(state.cursor) + scale.endOf(state.cursor)) / 2)
    pen.fillStyle = theme.text
    pen.fillRect(Math.round(cursor) - 0.5, g.mapTop, 1, g.mapHeight)
    const [left, right] = this.box(g, scale, state.window)
    pen.fillStyle = cssColour(theme.page)
    pen.globalAlpha = 0.62
    pen.fillRect(g.left, g.mapTop, left - g.left, g.mapHeight)
    pen.fillRect(right, g.mapTop, g.left + g.plotWidth - right, g.mapHeight)
    pen.globalAlpha = 1
    pen.strokeStyle = theme.accent
    pen.lineWidth = 1.5
    pen.strokeRect(left, g.mapTop + 0.5, right - left, g.mapHeight - 1)
    pen.fillStyle = theme.accent
    for (const x of [left, right]) pen.fillRect(x - 1.5, g.mapTop + g.mapHeight * 0.3, 3, g.mapHeight * 0.4)
  }

  /** The part of the box under a point of the map. */
  gripAt(g: Geometry, scale: Scale, w: Window, x: number): Grip {
    const [left, right] = this.box(g, scale, w)
    // In a narrow box the outer halves of its grips still count, and the middle moves it.
    const inner = Math.min(GRIP_PX, (right - left) / 4)
    if (x >= left - GRIP_PX && x <= left + inner) return "left"
    if (x <= right + GRIP_PX && x >= right - inner) return "right"
    return x > left && x < right ? "box" : "outside"
  }

  /** The box's edges in CSS pixels; always wide enough to be visible. */
  private box(g: Geometry, scale: Scale, w: Window): [number, number] {
    const [left, right] = [xOf(g, scale, w.x0), xOf(g, scale, w.x1)]
    const least = 6
    if (right - left >= least) return [left, right]
    const middle = Math.min(Math.max((left + right) / 2, g.left + least / 2), g.left + g.plotWidth - least / 2)
    return [middle - least / 2, middle + least / 2]
  }

  private drawStill({ g, state, scale, counted, theme }: Scene, ratio: number): void {
    const { history } = this
    this.still.width = Math.max(Math.round(g.plotWidth * ratio), 1)
    this.still.height = Math.max(Math.round(g.mapHeight * ratio), 1)
    const context = this.still.getContext("2d", { willReadFrequently: true })!
    context.scale(ratio, ratio)
    const pen: Pen = penOf(context)
    pen.fillStyle = cssColour(theme.background)
    pen.fillRect(0, 0, g.plotWidth, g.mapHeight)
    const whole = {
      x0: scale.whole[0],
      x1: scale.whole[1],
      y0: 0,
      y1: Math.max(counted.partial ? counted.ceiling : history.highest, 1) * 1.05,
    }
    const line = outline(counted.curves[state.curve], scale, whole, g.plotWidth)
    context.fillStyle = theme.meter
    for (let k = 0; k < line.length; k += 3) {
      const height = (line[k + 2] / whole.y1) * g.mapHeight
      context.fillRect(line[k], g.mapHeight - height, line[k + 1] - line[k], height)
    }
    if (!history.hasReserved || counted.partial) return
    traceLine(
      pen,
      { left: 0, top: 0, plotHeight: g.mapHeight },
      whole,
      outline(history.curves.reserved, scale, whole, g.plotWidth, history.reservedFrom),
      theme.reserved,
      1,
    )
  }
}
