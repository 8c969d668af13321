/** Binary search. */

/** The first place in [low, high) at which `reached` holds, as it then does at all later ones; `high` if there is none. */
export function firstPlace(low: number, high: number, reached: (place: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >> 1
    if (reached(middle)) high = middle
    else low = middle + 1
  }
  return low
}
