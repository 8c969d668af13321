/** Curves of many ranks as cells of an axis, with edges at multiples of powers of two; cells merge by their maximum. */

import { medianOf } from "../../lib/data/places"

/** The value of a cell that a rank does not reach. */
export const NO_CELL = -1

/** Cells of all rows, one row after the other. */
export class CellRows {
  /** Where each row's cells begin, with the end of the last. */
  readonly starts: Int32Array
  /** The least and the highest place of any cell, and the widths of the narrowest and the widest, as powers of two. */
  readonly low: number
  readonly high: number
  readonly narrowest: number

  /** `first` counts cells of the row's own width, `1 << shift`; a value of -1 is an empty cell. */
  constructor(
    readonly first: Float64Array,
    readonly shift: Int32Array,
    counts: Int32Array,
    readonly values: Float64Array,
  ) {
    const rows = counts.length
    this.starts = new Int32Array(rows + 1)
    let [low, high, narrowest] = [Infinity, -Infinity, Infinity]
    for (let row = 0; row < rows; row++) {
      this.starts[row + 1] = this.starts[row] + counts[row]
      if (!counts[row]) continue
      const width = 2 ** shift[row]
      low = Math.min(low, first[row] * width)
      high = Math.max(high, (first[row] + counts[row]) * width)
      narrowest = Math.min(narrowest, shift[row])
    }
    this.low = high > low ? low : 0
    this.high = high > low ? high : 1
    this.narrowest = Number.isFinite(narrowest) ? narrowest : 0
  }

  /** Raises `out` to a row's maxima, times a factor, in cells `1 << level` wide from the `from`th on.
   *
   * A wider cell of the row counts in every cell that it covers. */
  joinInto(out: Float64Array, row: number, level: number, from: number, factor = 1): void {
    const start = this.starts[row]
    const count = this.starts[row + 1] - start
    const { values } = this
    const shift = this.shift[row]
    if (shift <= level) {
      const per = 2 ** (level - shift)
      const head = this.first[row] - from * per // of the row's first cell, counted from the first wanted
      const begin = Math.max(0, -head)
      const end = Math.min(count, out.length * per - head)
      for (let k = begin; k < end; k++) {
        const value = values[start + k]
        const at = Math.floor((head + k) / per)
        if (value >= 0 && value * factor > out[at]) out[at] = value * factor
      }
      return
    }
    const covers = 2 ** (shift - level)
    const begin = Math.max(0, Math.floor(from / covers) - this.first[row])
    const end = Math.min(count, Math.floor((from + out.length - 1) / covers) - this.first[row] + 1)
    for (let k = begin; k < end; k++) {
      const value = values[start + k] * factor
      if (value < 0) continue
      const to = (this.first[row] + k) * covers - from
      for (let at = Math.max(to, 0); at < Math.min(to + covers, out.length); at++) if (value > out[at]) out[at] = value
    }
  }

  /** The maximum of a row in one cell; NO_CELL where it has none there. */
  mostIn(row: number, level: number, cell: number): number {
    const out = new Float64Array(1).fill(NO_CELL)
    this.joinInto(out, row, level, cell)
    return out[0]
  }

  /** The maximum of a row. */
  peak(row: number): number {
    let most = NO_CELL
    for (let k = this.starts[row]; k < this.starts[row + 1]; k++) if (this.values[k] > most) most = this.values[k]
    return most
  }

  /** The middle of the first cell that holds a row's maximum; null for a row without cells. */
  peakPlace(row: number): number | null {
    const most = this.peak(row)
    if (most < 0) return null
    let k = this.starts[row]
    while (this.values[k] !== most) k++
    return (this.first[row] + (k - this.starts[row]) + 0.5) * 2 ** this.shift[row]
  }
}

/** The width, as a power of two, of the narrowest cells that are at least `least` wide. */
export function levelFor(least: number): number {
  let level = Math.max(Math.ceil(Math.log2(least)), 0)
  while (2 ** level < least) level++
  while (level > 0 && 2 ** (level - 1) >= least) level--
  return level
}

/** The median curve of some rows: for each cell, the median over those that have it; NO_CELL where none has. */
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
