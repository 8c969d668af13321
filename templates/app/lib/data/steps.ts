/** The steps of the program's loop, and their curves in a common number of columns. */

import type { Bytes } from "./curves"
import type { Payload, StepsHeader } from "./payload"

export type Steps = ReturnType<typeof readSteps>

/** Step k has the events from bounds[k] to before bounds[k + 1]. */
export function readSteps(payload: Payload, { told, peak, kinds, names, columns }: StepsHeader) {
  return {
    told,
    /** Index of the step with the allocated peak, or -1. */
    peak: (peak ?? 0) - 1,
    names,
    kind: Array.from(payload.ints(columns.kind), (kind) => kinds[kind]),
    bounds: payload.ints(columns.bounds),
    kept: payload.floats(columns.kept),
    allocations: payload.ints(columns.allocations),
    allocated: payload.floats(columns.allocated),
  }
}

/** A step's number, and its name if it has one. */
export function stepName(steps: Steps, step: number): string {
  const name = steps.names[step]
  return name ? `${step + 1} ${name}` : String(step + 1)
}

/** The place in the curve of the maximum in each of `columns` equal shares of a step's events, with the state that a share begins in.
 *
 * So no peak is lost, however few the columns, and their maximum is the step's peak. */
export function columnPlaces(curve: Bytes, bounds: Int32Array, step: number, columns: number): Int32Array {
  const [start, events] = [bounds[step], bounds[step + 1] - bounds[step]]
  const places = new Int32Array(columns)
  for (let c = 0; c < columns; c++) {
    const from = start + Math.floor((c * events) / columns)
    const to = start + Math.floor(((c + 1) * events) / columns)
    places[c] = curve.firstMax(from, to + 1) // place s + 1 belongs to event s
  }
  return places
}

/** The minimum and maximum of some steps in each column. */
export function envelope(curves: Float64Array[]): { least: Float64Array; most: Float64Array } {
  const [least, most] = [curves[0].slice(), curves[0].slice()]
  for (const curve of curves) {
    for (let c = 0; c < curve.length; c++) {
      if (curve[c] < least[c]) least[c] = curve[c]
      if (curve[c] > most[c]) most[c] = curve[c]
    }
  }
  return { least, most }
}
