/** The curves of chosen ranks on one chart, as wide as the heat map above it, with the median of the group. */

import { differs } from "../../lib/data/observed"
import { byteTickLabels, byteTicks } from "../../lib/picture/ticks"
import { onTheme, readTheme, type Theme } from "../../lib/picture/theme"
import { button } from "../../views/shared/controls"
import { xOn } from "../../lib/picture/window"
import { h, swatch } from "../../views/shared/dom"
import { guarded, later, onFailure } from "../../views/shared/failure"
import { type CellRows, levelFor, medianCurve } from "../data/cell_rows"
import type { RunStore } from "../run_store"
import type { HeatGeometry } from "./heat_axes"
import { valueText } from "./run_words"

/** The visible values of one curve, one per cell; -1 where there is none. */
interface Line {
  values: Float64Array
  colour: string
  dashed: boolean
}

const HEADROOM = 1.08
/** The median is computed after the picture has rested for this long. */
const RESTS_MS = 80

export class CurvesChart {
  readonly element: HTMLElement
  private readonly canvas = h("canvas", { "aria-hidden": "true" })
  private readonly pen = this.canvas.getContext("2d", { willReadFrequently: true })!
  private readonly keys = h("ul.curve-keys")
  private readonly note = h("div")
  private geometry: HeatGeometry | null = null
  private theme: Theme | null = null
  private frame = 0
  /** With many ranks a median takes longer than a frame, so the last one is kept. */
  private median: { key: string; from: number; values: Float64Array } | null = null
  private working = 0

  constructor(private readonly store: RunStore) {
    this.element = h("figure.curves-chart", this.note, h("div.curves-plot", this.canvas), this.keys)
    onFailure(this.element, "The curves", this.note)
    store.on((state, before) => {
      const keys = differs(state, before, "cursor", "kept", "axis", "quantity", "order")
      if (keys || state.window !== before.window) this.redraw()
      if (keys) guarded(this.element, () => this.writeKeys())
    })
    new ResizeObserver(() => this.redraw()).observe(this.canvas)
    onTheme(() => {
      this.theme = null
      this.redraw()
    })
  }

  /** Sets the width of the heat map, so that its cells are above ours. */
  fit(geometry: HeatGeometry): void {
    if (!this.geometry) this.writeKeys()
    this.geometry = geometry
    this.redraw()
  }

  get settled(): boolean {
    return !this.frame && !this.working
  }

  private redraw(): void {
    this.frame ||= requestAnimationFrame(later(this.element, () => this.draw()))
  }

  private writeKeys(): void {
    const { data, state } = this.store
    const rows = drawnRows(state.cursor, state.kept)
    const group = state.cursor ? data.group[state.cursor.row] : -1
    this.keys.replaceChildren(
      ...rows.map((row, place) =>
        h(
          "li",
          swatch(curveColour(place)),
          data.label[row],
          state.kept.includes(row) && button("\u00d7", `Leave ${data.label[row]} out`, () => this.store.keep(row)),
        ),
      ),
      ...(group >= 0 && data.members[group].length > 2 ? [h("li.median-key", `median of ${data.groups[group]}`)] : []),
    )
  }

  private draw(): void {
    this.frame = 0
    const g = this.geometry
    const { data, state, origin } = this.store
    const cells = data.drawn(state.axis, state.quantity)
    if (!g || !cells) return
    const ratio = devicePixelRatio || 1
    const height = this.canvas.parentElement!.clientHeight
    const [widthPx, heightPx] = [Math.round(g.width * ratio), Math.round(height * ratio)]
    if (this.canvas.width !== widthPx) this.canvas.width = widthPx
    if (this.canvas.height !== heightPx) this.canvas.height = heightPx
    const { pen } = this
    pen.setTransform(ratio, 0, 0, ratio, 0, 0)
    pen.clearRect(0, 0, g.width, height)
    const theme = (this.theme ??= readTheme(this.element))
    const { window: w } = state
    const level = Math.max(levelFor((w.x1 - w.x0) / (g.plotWidth * ratio)), cells.narrowest)
    const width = 2 ** level
    const from = Math.floor((w.x0 + origin) / width)
    const columns = Math.max(Math.ceil((w.x1 + origin) / width) - from, 1)
    const lines = this.lines(cells, level, from, columns, theme.muted)
    const most = Math.max(...lines.map(({ values }) => values.reduce((a, b) => Math.max(a, b), 0)), 0) * HEADROOM || 1
    const [top, bottom] = [g.font * 0.3, height - g.font * 0.4]
    const y = (value: number) => bottom - (value / most) * (bottom - top)
    this.axis(g, most, y, theme)
    pen.save()
    pen.beginPath()
    pen.rect(g.left, 0, g.plotWidth, height)
    pen.clip()
    pen.lineJoin = "round"
    const x = (cell: number) => xOn(g, w, cell * width - origin)
    for (const { values, colour, dashed } of lines.toReversed()) {
      pen.beginPath()
      values.forEach((value, k) => {
        if (value < 0) return
        if (k && values[k - 1] >= 0) pen.lineTo(x(from + k), y(value))
        else pen.moveTo(x(from + k), y(value))
        pen.lineTo(x(from + k + 1), y(value))
      })
      pen.setLineDash(dashed ? [5, 4] : [])
      pen.strokeStyle = colour
      pen.lineWidth = dashed ? 1.5 : 1.75
      pen.stroke()
    }
    pen.setLineDash([])
    if (state.cursor) {
      pen.fillStyle = theme.text
      pen.globalAlpha = 0.5
      pen.fillRect(xOn(g, w, state.cursor.x) - 0.5, 0, 1, bottom)
      pen.globalAlpha = 1
    }
    pen.restore()
  }

  private lines(cells: CellRows, level: number, from: number, columns: number, muted: string): Line[] {
    const { data, state } = this.store
    const share = state.quantity === "share"
    const lines = drawnRows(state.cursor, state.kept).map((row, place) => {
      const values = new Float64Array(columns).fill(-1)
      const factor = data.factor(state.quantity, row)
      if (factor) cells.joinInto(values, row, level, from, factor)
      return { values, colour: curveColour(place), dashed: false }
    })
    const group = state.cursor ? data.group[state.cursor.row] : -1
    if (share || group < 0 || data.members[group].length < 3) return lines
    const key = `${state.axis} ${state.quantity} ${group} ${level}`
    const { median } = this
    const covers = median?.key === key && median.from <= from && median.from + median.values.length >= from + columns
    if (!covers) {
      clearTimeout(this.working)
      this.working = window.setTimeout(
        later(this.element, () => {
          this.working = 0
          const first = from - (columns >> 1) // with what a small move shows
          const values = medianCurve(cells, data.members[group], level, first, 2 * columns)
          this.median = { key, from: first, values }
          this.redraw()
        }),
        RESTS_MS,
      )
      return lines
    }
    const part = median.values.subarray(from - median.from, from - median.from + columns)
    return [...lines, { values: part, colour: muted, dashed: true }]
  }

  private axis(g: HeatGeometry, most: number, y: (value: number) => number, theme: Theme): void {
    const { pen } = this
    const share = this.store.state.quantity === "share"
    const wanted = (y(0) - y(most)) / (g.font * 3)
    const ticks = share ? [0, 0.25, 0.5, 0.75, 1].filter((tick) => tick <= most) : byteTicks(0, most, wanted)
    const labels = share ? ticks.map((tick) => valueText("share", tick)) : byteTickLabels(ticks)
    pen.font = `${g.font}px ${theme.font}`
    pen.textAlign = "right"
    pen.textBaseline = "middle"
    ticks.forEach((tick, k) => {
      pen.fillStyle = theme.grid
      pen.fillRect(g.left, Math.round(y(tick)), g.plotWidth, 1)
      pen.fillStyle = theme.muted
      pen.fillText(labels[k], g.left - g.font * 0.5, Math.max(y(tick), g.font * 0.6))
    })
  }
}

// Okabe and Ito, "Color Universal Design" (2008), without yellow and black, which one of the two themes would hide.
const COLOURS = ["#d55e00", "#0092d6", "#009e73", "#cc79a7", "#e69f00", "#7a6ff0"]

function curveColour(place: number): string {
  return COLOURS[place % COLOURS.length]
}

/** Rows whose curves are drawn: the selected one, then those kept. */
function drawnRows(cursor: { row: number } | null, kept: number[]): number[] {
  return cursor ? [cursor.row, ...kept.filter((row) => row !== cursor.row)] : kept
}
