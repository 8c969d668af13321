/** The median curve of a group: for each cell, the median over the ranks that have it. */

import { medianOf } from "../../lib/data/places"
import { type CellRows, NO_CELL } from "../data/cell_rows"

/** NO_CELL where no row has a cell. */
export function medianCurve(cells: CellRows, rows: ArrayLike<number>, level: number, from: number, columns: number): Float64Array {
  const count = rows.length
  // Row after row, so that a column is a stride: joined once, then read across.
  const all = new Float64Array(columns * count).fill(NO_CELL)
  for (let k = 0; k < count; k++) cells.joinInto(all.subarray(k * columns, (k + 1) * columns), rows[k], level, from)
  const out = new Float64Array(columns).fill(NO_CELL)
  const column = new Float64Array(count)
  for (let c = 0; c < columns; c++) {
    let present = 0
    for (let k = 0; k < count; k++) if (all[k * columns + c] >= 0) column[present++] = all[k * columns + c]
    if (present) out[c] = medianOf(column.subarray(0, present).sort())
  }
  return out
}
