/** The legend of a saved picture: the groups that hold the most at the cursor, in columns below it. */

import { cssColour, groupColours } from "../../lib/picture/colours"
import { formatAmount, plural } from "../../lib/text/format"
import { filterText, type Grouping, rowsAt } from "../../lib/tables/grouping"
import { isDark, type Theme } from "../../lib/picture/theme"
import { momentTitle } from "../../lib/data/moment"
import type { Store } from "../../store"
import type { Geometry } from "./geometry"
import { fit, type Pen } from "./pen"

const MOST_ROWS = 10
/** In font sizes. */
const COLUMN = 24
const LINE = 1.7

export type PictureLegend = ReturnType<typeof pictureLegend>

/** The legend of a picture; groups that are left out of the timeline are left out here. */
export function pictureLegend(store: Store, grouping: Grouping) {
  const { history, counted, state, asked } = store
  const amount = (bytes: number) => formatAmount(bytes, asked.kind === "change")
  const amounts = store.amounts(grouping.ofAllocation, grouping.groups.length)
  const { bytes, moved } = amounts
  const colours = groupColours(grouping, isDark())
  const all = rowsAt(grouping, amounts)
  const shown = new Set([...all].sort((a, b) => moved[b] - moved[a]).slice(0, MOST_ROWS))
  const rest = all.filter((row) => !shown.has(row))
  const more = rest.length
    ? `; not listed: ${plural(rest.length, "smaller group")} with ${amount(rest.reduce((sum, row) => sum + bytes[row], 0))}`
    : ""
  return {
    title: `${momentTitle(counted, asked)}${more}`,
    /** What is left out, in words; "" where nothing is. */
    filter: filterText(history, state.filters),
    rows: all
      .filter((row) => shown.has(row))
      .map((row) => {
        const { label, detail } = grouping.groups[row]
        return { colour: cssColour(colours[row]), label: detail ? `${label}  ${detail}` : label, bytes: amount(bytes[row]) }
      }),
  }
}

/** The legend's height; 0 without rows. */
export function legendHeight({ rows }: PictureLegend, g: Geometry): number {
  return rows.length ? Math.round(g.font * (LINE * (linesOf(rows.length, g) + 1) + 1)) : 0
}

/** Draws the legend from a y on, column by column. */
export function drawLegend(pen: Pen, { title, rows }: PictureLegend, g: Geometry, theme: Theme, top: number): void {
  if (!rows.length) return
  const lines = linesOf(rows.length, g)
  const width = (g.plotWidth + g.font) / columnsOf(g)
  pen.textBaseline = "middle"
  pen.textAlign = "left"
  pen.font = `600 ${g.font}px ${theme.font}`
  pen.fillStyle = theme.text
  pen.fillText(title, g.left, top + (g.font * LINE) / 2)
  pen.font = `${g.font}px ${theme.font}`
  rows.forEach(({ colour, label, bytes }, k) => {
    const x = g.left + Math.floor(k / lines) * width
    const y = top + g.font * LINE * ((k % lines) + 1.5)
    const end = x + width - g.font * 1.5
    pen.fillStyle = colour
    pen.beginPath()
    pen.roundRect(x, y - g.font * 0.4, g.font * 0.8, g.font * 0.8, 3)
    pen.fill()
    pen.textAlign = "right"
    pen.fillStyle = theme.text
    pen.fillText(bytes, end, y)
    pen.textAlign = "left"
    pen.fillText(fit(pen, label, end - pen.measureText(bytes).width - g.font - (x + g.font * 1.3)), x + g.font * 1.3, y)
  })
}

function columnsOf(g: Geometry): number {
  return Math.min(Math.max(Math.floor(g.plotWidth / (g.font * COLUMN)), 1), 3)
}

function linesOf(rows: number, g: Geometry): number {
  return Math.ceil(rows / columnsOf(g))
}
