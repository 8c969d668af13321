/** Restores long columns that `reporters/payload.py` put into an order that compresses well. */

import type { Ints, Numbers } from "./curves"

/** Kinds of events: other than an allocation's, alloc, free_requested, free_completed. */
const KINDS = 4

/** The running sums, event by event, of numbers ordered by the kinds of their event and of the one before.
 *
 * In four bytes each if that is enough for all. */
export function sumsInEvents(
  values: ArrayLike<number>,
  allocEvent: Int32Array,
  freeRequestedEvent: Int32Array,
  freeEvent: Int32Array,
): Numbers {
  const { length } = values
  if (!length) return new Uint32Array(0)
  const kinds = new Uint8Array(length)
  // If an event is in two columns, the later column decides.
  const mark = (events: Int32Array, kind: number) => {
    for (let i = 0; i < events.length; i++) if (events[i] >= 0 && events[i] < length) kinds[events[i]] = kind
  }
  mark(freeRequestedEvent, 2)
  mark(freeEvent, 3)
  mark(allocEvent, 1)
  const starts = new Int32Array(KINDS * KINDS + 1)
  for (let event = 0, before = 0; event < length; before = kinds[event++]) starts[kinds[event] * KINDS + before + 1]++
  for (let k = 1; k < starts.length; k++) starts[k] += starts[k - 1]
  /** Fills in the sums; returns whether all are within these limits. */
  const fill = (out: Numbers, least: number, most: number) => {
    const next = starts.slice()
    let sum = 0
    for (let event = 0, before = 0; event < length; before = kinds[event++]) {
      out[event] = sum += values[next[kinds[event] * KINDS + before]++]
      if (sum < least || sum > most) return false
    }
    return true
  }
  const narrow = new Uint32Array(length)
  if (fill(narrow, 0, 2 ** 32 - 1)) return narrow
  const wide = new Float64Array(length)
  fill(wide, -Infinity, Infinity)
  return wide
}

/** Ids, given how many places back each was last used; 0 takes the next id of `first`. */
export function fromLastUse(back: Ints, first: Ints): Ints {
  const ids =
    first instanceof Uint8Array
      ? new Uint8Array(back.length)
      : first instanceof Uint16Array
        ? new Uint16Array(back.length)
        : new Int32Array(back.length)
  for (let i = 0, k = 0; i < ids.length; i++) ids[i] = back[i] ? ids[i - back[i]] : first[k++]
  return ids
}
