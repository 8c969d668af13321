/** Draws everything over the strips: axes, curves, stages, events, the peak and the cursor. */

import type { Bytes } from "../../lib/data/curves"
import { type Band, bandsIn } from "../../lib/picture/bands"
import { hash } from "../../lib/picture/colours"
import type { History } from "../../lib/data/history"
import { overlap, type Rect } from "../../lib/picture/labels"
import { type Mark, type MarkKind, marksIn } from "../../lib/picture/marks"
import { outline } from "../../lib/picture/outline"
import type { Theme } from "../../lib/picture/theme"
import { yOn } from "../../lib/picture/window"
import { cursorHandle, drawBytesAxis, drawCursorHandle, drawCursorLine, drawEventsAxis } from "./axes"
import { bandTop, type Geometry } from "./geometry"
import { fit, type Pen } from "./pen"
import { drawLimit, drawPoints, type OomHit } from "./points"
import { drawBox, drawRuler } from "./ruler"
import { type Scene, tag, traceLine } from "./scene"

/** The positions of everything drawn that can be pointed at. */
export interface Drawn {
  bands: Band[]
  marks: Mark[]
  ooms: OomHit[]
  /** The ruler's text. */
  ruler: Rect | null
}

/** Works in CSS pixels. */
export class Overlay {
  drawn: Drawn = { bands: [], marks: [], ooms: [], ruler: null }

  constructor(readonly history: History) {}

  /** Draws everything on an empty pen whose font is not yet set. */
  draw(pen: Pen, scene: Scene): void {
    const { g, theme } = scene
    pen.font = `${g.font}px ${theme.font}`
    this.drawn = { bands: [], marks: [], ooms: [], ruler: null }
    const { history } = this
    drawBytesAxis(pen, scene)
    const handle = cursorHandle(pen, scene, history)
    drawEventsAxis(pen, scene, history, handle)
    pen.save()
    pen.clipTo(g.left, g.top, g.plotWidth, g.plotHeight)
    this.curves(pen, scene)
    pen.restore()
    // What the device could give is compared with everything, or not at all.
    const limit = scene.counted.partial ? null : drawLimit(pen, scene, history)
    drawCursorLine(pen, scene)
    this.bands(pen, scene)
    this.rug(pen, scene)
    this.drawn.ooms = drawPoints(pen, scene, limit)
    if (handle) drawCursorHandle(pen, scene, handle)
    if (scene.state.ruler) this.drawn.ruler = drawRuler(pen, scene, history, scene.state.ruler)
    if (scene.box) drawBox(pen, scene.box, theme)
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
      if (Math.abs(g.left + mark.pixel - x) <= 3 && (!best || Math.abs(g.left + mark.pixel - x) < Math.abs(g.left + best.pixel - x)))
        best = mark
    }
    return best
  }

  /** The curves that the strips do not show. */
  private curves(pen: Pen, { g, state, scale, counted, theme }: Scene): void {
    const { history } = this
    /** Returns the height at the right edge. */
    const draw = (curve: Bytes, colour: string, width: number, dash: number[] = [], known = -1) => {
      const line = outline(curve, scale, state.window, g.plotWidth, known)
      pen.setLineDash(dash)
      traceLine(pen, g, state.window, line, colour, width)
      pen.setLineDash([])
      return yOn(g, state.window, line.at(-1) ?? 0)
    }
    // What is reserved is reserved for all allocations.
    if (history.hasReserved && !counted.partial) {
      let top = draw(history.curves.reserved, theme.reserved, 1.75, [7, 3], history.reservedFrom)
      for (const { pool, edge } of history.device.envelopes) {
        const bottom = draw(edge, theme.pool, 1.75, [2, 3])
        this.poolName(pen, g, theme, `pool ${pool}`, Math.max(top, g.top), Math.min(bottom, g.top + g.plotHeight))
        top = bottom
      }
      const replay = history.device.replays[state.replay]
      if (replay) draw(replay.curve, theme.replay, 1.75)
    }
    draw(counted.curves[state.curve === "allocated" ? "requested" : "allocated"], theme.other, 1)
  }

  /** Names a private pool at the end of what it reserves, if there is room. */
  private poolName(pen: Pen, g: Geometry, theme: Theme, name: string, top: number, bottom: number): void {
    if (bottom - top < g.font * 1.5) return
    const text = fit(pen, name, g.plotWidth / 2)
    const [width, height] = [pen.measureText(text).width + 6, g.font * 1.4]
    const left = g.left + g.plotWidth - g.font * 0.5 - width
    tag(pen, { left, top: (top + bottom - height) / 2, width, height }, text, 3, theme.surface, theme.pool, 0.8)
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
      oom: theme.danger,
      snapshot: theme.accent,
      grow: theme.reserved,
      shrink: theme.reserved,
      other: theme.muted,
    }
    const top = g.top + g.plotHeight + 1
    for (const { pixel, kind } of this.drawn.marks) {
      pen.fillStyle = colours[kind]
      pen.globalAlpha = kind === "shrink" ? 0.55 : 1
      const strong = kind === "oom" || kind === "snapshot"
      // Growth fills the rug; shrinking fills its lower half.
      const from = kind === "shrink" ? Math.ceil(g.rugHeight / 2) : 0
      pen.fillRect(g.left + pixel - (strong ? 0.5 : 0), top + from, strong ? 2 : 1, g.rugHeight - from - 1)
    }
    pen.globalAlpha = 1
  }
}
