/** The state of the page of a run, and its listeners. */

import { differs, Observed } from "../lib/data/observed"
import { clampWindow, sameWindow, type Window } from "../lib/picture/window"
import type { CellRows } from "./data/cell_rows"
import { aboveGroup, orderRows, type RowView } from "./data/row_order"
import type { Quantity, RunAxis, RunData } from "./data/run_data"

/** The selected cell: a row, and a place on the axis, from the origin. */
export interface HeatCursor {
  row: number
  x: number
}

export interface RunState extends RowView {
  axis: RunAxis
  quantity: Quantity
  /** Whether the scale extends to the highest value. */
  full: boolean
  /** Places of the axis from the origin; rows from the bottom up. */
  window: Window
  /** Rows from the top down. */
  order: Int32Array
  cursor: HeatCursor | null
  /** Rows whose curves are kept beside that of the cursor. */
  kept: number[]
}

/** The most curves whose colours are distinct. */
export const MOST_KEPT = 5
const LEAST_CELLS = 4
const LEAST_ROWS = 3

export class RunStore extends Observed<RunState> {
  readonly above: Float64Array
  protected current: RunState

  constructor(readonly data: RunData) {
    super()
    this.above = aboveGroup(data)
    const counts = new Map<string, number>()
    for (const kind of data.kind) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    const [kind] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? [""]
    const view: RowView = { sort: "rank", descending: false, query: "", group: -1, kind, onlyOdd: false }
    this.current = {
      ...view,
      axis: data.axes[0] ?? "event",
      quantity: "allocated",
      full: false,
      window: { x0: 0, x1: 1, y0: 0, y1: 1 },
      order: orderRows(data, view, this.above),
      cursor: null,
      kept: [],
    }
    this.current.window = this.whole
    const first = [...data.odd.keys()].find((row) => data.kind[row] === kind) ?? this.current.order[0]
    if (first !== undefined) this.current.cursor = { row: first, x: this.peakOf(first) }
  }

  private get cells(): CellRows | null {
    return this.data.cells(this.current.axis, "allocated")
  }

  /** Where the axis begins: windows count from here. */
  get origin(): number {
    return this.cells?.low ?? 0
  }

  /** Everything. */
  get whole(): Window {
    return { x0: 0, x1: this.cells ? this.cells.high - this.cells.low : 1, y0: 0, y1: Math.max(this.current.order.length, 1) }
  }

  set(change: Partial<RunState>): void {
    const before = this.current
    const next = { ...before, ...change }
    if (!this.data.quantities(next.axis).includes(next.quantity)) next.quantity = "allocated"
    const rows = differs(next, before, "sort", "descending", "query", "group", "kind", "onlyOdd")
    if (rows) next.order = orderRows(this.data, next, this.above)
    this.current = next
    const { whole } = this
    if (next.axis !== before.axis) {
      next.window = { ...next.window, x0: whole.x0, x1: whole.x1 }
      if (next.cursor) next.cursor = { ...next.cursor, x: this.peakOf(next.cursor.row) }
    }
    if (rows) next.window = { ...next.window, y0: whole.y0, y1: whole.y1 }
    if (next.window !== before.window) {
      const narrowest = 2 ** (this.cells?.narrowest ?? 0)
      next.window = clampWindow(next.window, whole, LEAST_CELLS * narrowest, LEAST_ROWS)
    }
    if (sameWindow(next.window, before.window)) next.window = before.window
    this.tell(before)
  }

  /** Selects a row at a place, by default at its peak, and shows it even if a filter left it out. */
  look(row: number, x = this.peakOf(row)): void {
    if (!this.current.order.includes(row)) this.set({ query: "", group: -1, onlyOdd: false, kind: this.data.kind[row] })
    const { window: w, order } = this.current
    const y = order.length - order.indexOf(row) - 0.5
    const [halfX, halfY] = [(w.x1 - w.x0) / 2, (w.y1 - w.y0) / 2]
    const window = {
      ...w,
      ...((x < w.x0 || x > w.x1) && { x0: x - halfX, x1: x + halfX }),
      ...((y < w.y0 + 0.5 || y > w.y1 - 0.5) && { y0: y - halfY, y1: y + halfY }),
    }
    this.set({ cursor: { row, x }, window })
  }

  /** Keeps a row's curve, or lets it go. */
  keep(row: number): void {
    const { kept } = this.current
    this.set({ kept: kept.includes(row) ? kept.filter((each) => each !== row) : [...kept, row].slice(-MOST_KEPT) })
  }

  /** Where on the axis a row has its peak. */
  private peakOf(row: number): number {
    return (this.cells?.peakPlace(row) ?? this.origin) - this.origin
  }
}
