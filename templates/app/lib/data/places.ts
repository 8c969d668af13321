/** Places in what is sorted: binary search, and the middle. */

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
