/** Places in what is in order. */

/** The first place from `low` on from which on `reached` holds; `high` where it holds at none before. */
export function firstPlace(low: number, high: number, reached: (place: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >> 1
    if (reached(middle)) high = middle
    else low = middle + 1
  }
  return low
}
