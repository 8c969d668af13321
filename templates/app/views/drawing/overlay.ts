/** Draws everything over the strips: axes, curves, stages, events, the peak, the cursor, the markers and the box to zoom to. */

import type { Bytes } from "../../lib/data/curves"
import { type Band, bandsIn } from "../../lib/picture/bands"
import { hash } from "../../lib/picture/colours"
import type { History } from "../../lib/data/history"
import { poolsAt } from "../../lib/data/replays"
import { formatBytes } from "../../lib/text/format"
import { overlap, type Rect } from "../../lib/picture/labels"
import { type Mark, type MarkKind, marksIn } from "../../lib/picture/marks"
import { type Outline, outline } from "../../lib/picture/outline"
import type { Theme } from "../../lib/picture/theme"
import { type Window, xOn, yOn } from "../../lib/picture/window"
import type { Markers } from "../../store"
import { cursorHandle, drawBytesAxis, drawCursorHandle, drawCursorLine, drawEventsAxis, type Handle } from "./axes"
import { bandTop, type Geometry } from "./geometry"
import { fit, type Pen } from "./pen"
import { drawLimit, drawPoints, type OomHit } from "./points"
import { type Scene, tag, traceLine } from "./scene"

/** Between the lines of a hatch. */
const HATCH_PX = 8

/** Keeps a height inside the plot. */
const within = (g: Geometry, y: number) => Math.min(Math.max(y, g.top), g.top + g.plotHeight)

/** The positions of everything drawn that can be pointed at. */
export interface Drawn {
  bands: Band[]
  marks: Mark[]
  ooms: OomHit[]
  flags: Flag[]
  /** The cursor's handle. */
  handle: Handle | null
}

/** Works in CSS pixels. */
export class Overlay {
  drawn: Drawn = { bands: [], marks: [], ooms: [], flags: [], handle: null }

  constructor(readonly history: History) {}

  /** Draws everything on an empty pen whose font is not yet set. */
  draw(pen: Pen, scene: Scene): void {
    const { g, theme } = scene
    pen.font = `${g.font}px ${theme.font}`
    this.drawn = { bands: [], marks: [], ooms: [], flags: [], handle: null }
    const { history } = this
    drawBytesAxis(pen, scene)
    const handle = cursorHandle(pen, scene, history)
    this.drawn.handle = handle
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
    this.drawn.flags = drawMarkers(pen, scene)
    if (scene.box) drawBox(pen, scene.box, theme)
  }

  /** The failed request whose mark is under a point, or -1. */
  oomAt(x: number, y: number): number {
    return this.drawn.ooms.find((hit) => overlap(hit, { left: x, top: y, width: 0.5, height: 0.5 }))?.oom ?? -1
  }

  /** The marker whose flag is under a point, or null. */
  flagAt(x: number, y: number): Flag["name"] | null {
    return this.drawn.flags.findLast((flag) => overlap(flag, { left: x, top: y, width: 0.5, height: 0.5 }))?.name ?? null
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
    const off = ({ pixel }: Mark) => Math.abs(g.left + pixel - x)
    const near = this.drawn.marks.filter((mark) => off(mark) <= 3)
    return near.reduce<Mark | null>((best, mark) => (best && off(best) <= off(mark) ? best : mark), null)
  }

  /** The curves that the strips do not show. */
  private curves(pen: Pen, { g, state, scale, counted, theme }: Scene): void {
    const { history } = this
    const lineOf = (curve: Bytes, known = -1) => outline(curve, scale, state.window, g.plotWidth, known)
    const draw = (line: Outline, colour: string, width: number, dash: number[] = []) => {
      pen.setLineDash(dash)
      traceLine(pen, g, state.window, line, colour, width)
      pen.setLineDash([])
    }
    // What is reserved is reserved for all allocations.
    if (history.hasReserved && !counted.partial) {
      const { envelopes, replays } = history.device
      const reserved = lineOf(history.curves.reserved, history.reservedFrom)
      let top = reserved
      for (const [k, { pool, top: from, bottom: to }] of poolsAt(history.curves.reserved, envelopes, state.cursor).entries()) {
        const edge = lineOf(envelopes[k].edge, history.reservedFrom)
        this.hatch(pen, g, state.window, top, edge, theme.pool)
        draw(edge, theme.pool, 1)
        this.poolName(
          pen,
          g,
          theme,
          `pool ${pool}`,
          `: ${formatBytes(from - to)} reserved`,
          this.endOf(g, state.window, top),
          this.endOf(g, state.window, edge),
        )
        top = edge
      }
      draw(reserved, theme.reserved, 1.75, [7, 3])
      const replay = replays[state.replay]
      if (replay) draw(lineOf(replay.curve), theme.replay, 1.75)
    }
    draw(lineOf(counted.curves[state.curve === "allocated" ? "requested" : "allocated"]), theme.other, 1)
  }

  /** Where a line ends at the right edge, kept inside the plot. */
  private endOf(g: Geometry, w: Window, line: Outline): number {
    return within(g, yOn(g, w, line.at(-1) ?? 0))
  }

  /** Fills what is between two lines so that strips behind it keep their colours. */
  private hatch(pen: Pen, g: Geometry, w: Window, top: Outline, bottom: Outline, colour: string): void {
    if (!top.length || !bottom.length) return
    pen.save()
    pen.beginPath()
    for (let k = 0; k < top.length; k += 3) for (const x of [top[k], top[k + 1]]) pen.lineTo(g.left + x, within(g, yOn(g, w, top[k + 2])))
    for (let k = bottom.length - 3; k >= 0; k -= 3)
      for (const x of [bottom[k + 1], bottom[k]]) pen.lineTo(g.left + x, within(g, yOn(g, w, bottom[k + 2])))
    pen.closePath()
    pen.fillStyle = pen.strokeStyle = colour
    pen.globalAlpha = 0.1
    pen.fill()
    pen.clip()
    pen.globalAlpha = 0.5
    pen.lineWidth = 1
    pen.beginPath()
    for (let x = -g.plotHeight; x < g.plotWidth; x += HATCH_PX) {
      pen.moveTo(g.left + x, g.top + g.plotHeight)
      pen.lineTo(g.left + x + g.plotHeight, g.top)
    }
    pen.stroke()
    pen.restore()
  }

  /** Names a private pool at the end of what it reserves, with its bytes at the cursor, if there is room. */
  private poolName(pen: Pen, g: Geometry, theme: Theme, name: string, bytes: string, top: number, bottom: number): void {
    if (bottom - top < g.font * 1.5) return
    const text = fit(pen, name, g.plotWidth / 2 - pen.measureText(bytes).width) + bytes
    const [width, height] = [pen.measureText(text).width + 6, g.font * 1.4]
    const left = g.left + g.plotWidth - g.font * 0.5 - width
    tag(pen, { left, top: (top + bottom - height) / 2, width, height }, text, 3, theme.surface, theme.pool, 0.85)
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

/** A marker's letter, which can be dragged. */
export interface Flag extends Rect {
  name: keyof Markers
}

/** Draws the markers that are set; where only one of A and B is, the cursor stands for the other. Returns their flags that are in sight. */
function drawMarkers(pen: Pen, { g, state, scale, theme }: Scene): Flag[] {
  const { markers, cursor, window: w } = state
  // A marker is the state after its event.
  const xAt = (event: number) => Math.min(Math.max(xOn(g, w, scale.endOf(event)), g.left), g.left + g.plotWidth)
  const [from, to] = [markers.a ?? cursor, markers.b ?? cursor].map(xAt)
  if (markers.a !== null || markers.b !== null) {
    pen.fillStyle = theme.accent
    pen.globalAlpha = 0.12
    pen.fillRect(Math.min(from, to), g.top, Math.abs(to - from), g.plotHeight + g.rugHeight)
    pen.globalAlpha = 1
  }
  const flags: Flag[] = []
  for (const name of ["a", "b", "c"] as const) {
    const event = markers[name]
    if (event === null) continue
    const at = xOn(g, w, scale.endOf(event))
    if (at < g.left - 1 || at > g.left + g.plotWidth + 1) continue
    const x = Math.round(xAt(event))
    const colour = name === "c" ? theme.replay : theme.accent
    pen.fillStyle = colour
    pen.fillRect(x - 0.75, g.top, 1.5, g.plotHeight + g.rugHeight)
    const size = g.font * 1.5
    // A stands left of its line and B right of it, so that they can be told apart where they meet.
    const left = Math.min(Math.max(name === "a" ? x - size : x, g.left), g.left + g.plotWidth - size)
    const flag = { name, left, top: g.top, width: size, height: size }
    tag(pen, flag, name.toUpperCase(), size / 2 - g.font * 0.34, colour, theme.surface, 1)
    flags.push(flag)
  }
  return flags
}

function drawBox(pen: Pen, box: Window, theme: Theme): void {
  const [x, y, width, height] = [Math.min(box.x0, box.x1), Math.min(box.y0, box.y1), Math.abs(box.x1 - box.x0), Math.abs(box.y1 - box.y0)]
  pen.fillStyle = theme.accent
  pen.globalAlpha = 0.15
  pen.fillRect(x, y, width, height)
  pen.globalAlpha = 1
  pen.strokeStyle = theme.accent
  pen.lineWidth = 1
  pen.strokeRect(x, y, width, height)
}
