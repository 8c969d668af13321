/** Places in what is sorted: binary search, the middle, and the order of events. */

/** The first place in [low, high) at which `reached` holds, as it then does at all later ones; `high` if there is none. */
export function firstPlace(low: number, high: number, reached: (place: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >> 1
    if (reached(middle)) high = middle
    else low = middle + 1
  }
  return low
}

/** The median of sorted values, rounded down; 0 without any. */
export function medianOf(sorted: ArrayLike<number>): number {
  const n = sorted.length
  return n ? Math.floor((sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2) : 0
}

/** Rows in the order of their events, which begin at -1; those at `events` or later are left out. */
export function byEvent(column: Int32Array, events: number): Int32Array {
  const starts = new Int32Array(events + 2)
  for (let row = 0; row < column.length; row++) if (column[row] < events) starts[column[row] + 2]++
  for (let s = 1; s < starts.length; s++) starts[s] += starts[s - 1]
  const order = new Int32Array(starts[events + 1])
  for (let row = 0; row < column.length; row++) if (column[row] < events) order[starts[column[row] + 1]++] = row
  return order
}
