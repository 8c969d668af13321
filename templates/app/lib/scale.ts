/** Where steps lie along the timeline's x axis: evenly, or by the clock. */

export type Axis = "steps" | "time"

/** x is in steps, or in microseconds after the first event. The state after a step covers [xOf, endOf). */
export interface Scale {
  readonly axis: Axis
  readonly events: number
  /** The whole axis, the state before the first event included. */
  readonly whole: [x0: number, x1: number]
  xOf(step: number): number
  endOf(step: number): number
  /** The last step that begins at or before x; -1 for the start, at most the last step. */
  stepAt(x: number): number
  /** Every step that touches [x0, x1), those without a width included, as [first, end); empty outside the recording. */
  stepsIn(x0: number, x1: number): [first: number, end: number]
}

/** One unit per step; the start covers -1 to 0. */
export class StepScale implements Scale {
  readonly axis = "steps"
  readonly whole: [number, number]

  constructor(readonly events: number) {
    this.whole = [-1, Math.max(events, 1)]
  }

  xOf(step: number): number {
    return step
  }

  endOf(step: number): number {
    return step + 1
  }

  stepAt(x: number): number {
    return Math.min(Math.max(Math.floor(x), -1), this.events - 1)
  }

  stepsIn(x0: number, x1: number): [number, number] {
    return [Math.max(Math.floor(x0), -1), Math.min(Math.ceil(x1), this.events)]
  }
}

/** Room for the start and the last step, as a share of the recording. */
const MARGIN = 0.008

/** One unit per microsecond. Clocks that step back are held where they were. */
export class TimeScale implements Scale {
  readonly axis = "time"
  readonly events: number
  readonly whole: [number, number]
  /** Where each step begins; element 0 is the start, the last one the end of the last step. */
  private readonly edges: Float64Array

  /** `times`: microseconds, one per step, at least one. */
  constructor(times: Float64Array) {
    this.events = times.length
    this.edges = new Float64Array(times.length + 2)
    let latest = times[0]
    for (let s = 0; s < times.length; s++) {
      latest = Math.max(latest, times[s])
      this.edges[s + 1] = latest - times[0]
    }
    const last = this.edges[times.length]
    const margin = Math.max(last * MARGIN, 1)
    this.edges[0] = -margin
    this.edges[times.length + 1] = last + margin
    this.whole = [-margin, last + margin]
  }

  xOf(step: number): number {
    return this.edges[Math.min(Math.max(step, -1), this.events) + 1]
  }

  endOf(step: number): number {
    return this.xOf(step + 1)
  }

  stepAt(x: number): number {
    const after = this.firstFrom(x)
    return Math.min(Math.max(this.edges[after + 1] === x ? this.lastAt(after) : after - 1, -1), this.events - 1)
  }

  stepsIn(x0: number, x1: number): [number, number] {
    if (x0 >= this.whole[1]) return [this.events, this.events]
    const at = this.firstFrom(x0)
    const first = this.edges[at + 1] === x0 ? at : at - 1
    return [Math.max(first, -1), Math.min(this.firstFrom(x1), this.events)]
  }

  /** The first step that begins at or after x. */
  private firstFrom(x: number): number {
    let low = 0
    let high = this.edges.length - 1
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.edges[middle] < x) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  /** The last step that begins where this one does. */
  private lastAt(step: number): number {
    let last = step
    while (last < this.events - 1 && this.edges[last + 2] === this.edges[step + 1]) last++
    return last
  }
}
