/** Positions of events on the timeline's x axis: evenly spaced, or by the clock. */

import type { Numbers } from "./curves"
import { firstPlace } from "./places"

export type Axis = "events" | "time"

/** x is in events, or in microseconds after the first event. The state after an event covers [xOf, endOf). */
export interface Scale {
  readonly axis: Axis
  readonly events: number
  /** The entire axis, including the state before the first event. */
  readonly whole: [x0: number, x1: number]
  xOf(event: number): number
  endOf(event: number): number
  /** The last event that begins at or before x; -1 for the start, at most the last event. */
  eventAt(x: number): number
  /** Every event that touches [x0, x1), those without a width included, as [first, end); empty outside the recording. */
  eventsIn(x0: number, x1: number): [first: number, end: number]
}

/** One unit per event; the start covers -1 to 0. */
export class EventScale implements Scale {
  readonly axis = "events"
  readonly whole: [number, number]

  constructor(readonly events: number) {
    this.whole = [-1, Math.max(events, 1)]
  }

  xOf(event: number): number {
    return event
  }

  endOf(event: number): number {
    return event + 1
  }

  eventAt(x: number): number {
    return Math.min(Math.max(Math.floor(x), -1), this.events - 1)
  }

  eventsIn(x0: number, x1: number): [number, number] {
    return [Math.max(Math.floor(x0), -1), Math.min(Math.ceil(x1), this.events)]
  }
}

/** Room for the start and the last event, as a share of the recording. */
const MARGIN = 0.008

/** One unit per microsecond. If the clock steps back, time stands still until it has caught up. */
export class TimeScale implements Scale {
  readonly axis = "time"
  readonly events: number
  readonly whole: [number, number]
  /** Where each event begins. */
  private readonly edges: Numbers
  /** Where the last event ends: the axis may go on. */
  private readonly end: number

  /** `times`: microseconds, one per event, at least one; `least`: how many the axis has room for. */
  constructor(times: Numbers, least = 0) {
    this.events = times.length
    // The type of `times` also holds the values after this step.
    this.edges = times instanceof Uint32Array ? new Uint32Array(times.length) : new Float64Array(times.length)
    let latest = times[0]
    for (let s = 0; s < times.length; s++) {
      if (times[s] > latest) latest = times[s]
      this.edges[s] = latest - times[0]
    }
    const last = latest - times[0]
    const [own, margin] = [last, Math.max(last, least)].map((time) => Math.max(time * MARGIN, 1))
    this.end = last + own
    this.whole = [-margin, Math.max(last, least) + margin]
  }

  xOf(event: number): number {
    return event < 0 ? this.whole[0] : event >= this.events ? this.end : this.edges[event]
  }

  endOf(event: number): number {
    return this.xOf(event + 1)
  }

  eventAt(x: number): number {
    return firstPlace(0, this.events, (event) => this.edges[event] > x) - 1
  }

  eventsIn(x0: number, x1: number): [number, number] {
    if (x0 >= this.end) return [this.events, this.events]
    const at = this.firstFrom(x0)
    const first = this.xOf(at) === x0 ? at : at - 1
    return [Math.max(first, -1), Math.min(this.firstFrom(x1), this.events)]
  }

  /** The first event that begins at or after x: -1 for the start, at most the end of the last. */
  private firstFrom(x: number): number {
    if (x <= this.whole[0]) return -1
    return firstPlace(0, this.events, (event) => this.edges[event] >= x)
  }
}
