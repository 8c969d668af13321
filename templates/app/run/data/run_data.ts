/** A run as the page works with it: a row is one device of one rank. */

import { CellRows, NO_CELL } from "./cell_rows"
import type { OddRank, RunPayload, ScaleEnds } from "./run_payload"

export type RunAxis = "time" | "event" | "step"
export type Quantity = "allocated" | "reserved" | "share"

export interface RunHolder {
  kind: string
  /** "" for all others of its kind. */
  key: string
  bytes: number
  count: number
  size: number
  ofSize: number
}

export interface RunFailure {
  event: number
  /** Since 1970; null where unknown. */
  timeUs: number | null
  size: number
  site: string
}

/** If step numbers span more than this, they are not used as an axis. */
const MOST_STEPS = 1 << 16

export class RunData {
  readonly count: number
  readonly label: string[]
  readonly source: string[]
  readonly host: string[]
  /** The position in the parallel layout: `tp=0 pp=3`. */
  readonly place: string[]
  readonly kind: string[]
  /** A link to the page of the rank; "" for none. */
  readonly link: string[]
  readonly rank: Int32Array
  readonly dump: Int32Array
  readonly group: Int32Array
  readonly events: Float64Array
  readonly capacity: Float64Array
  readonly allocated: Float64Array
  readonly allocatedWidth: Float64Array
  readonly reserved: Float64Array
  readonly peakEvent: Float64Array
  readonly peakTime: Float64Array
  /** Bytes that a row gains per step; NaN where that is not known. */
  readonly growth: Float64Array
  readonly recorded: Int32Array
  readonly groups: string[]
  /** Rows of each group. */
  readonly members: number[][]
  /** The first finding about each row that is odd. */
  readonly odd: Map<number, OddRank>
  readonly scales: Record<string, Record<"allocated" | "reserved", ScaleEnds>>
  private readonly tables = new Map<string, CellRows | null>()
  private readonly strings: string[]
  private readonly steps
  private readonly held
  private readonly failed
  private readonly found

  constructor(private readonly payload: RunPayload) {
    const { columns, groups, odd, scales, steps, holders, failed, findings, strings } = payload.header
    const numbers = (name: string) => payload.floats(columns[name])
    this.label = payload.texts("label")
    this.count = this.label.length
    this.source = payload.texts("source")
    this.host = payload.texts("host")
    this.place = payload.texts("place")
    this.kind = payload.texts("kind")
    this.link = payload.texts("link")
    this.rank = payload.ints(columns.rank)
    this.dump = payload.ints(columns.dump)
    this.group = payload.ints(columns.group)
    this.recorded = payload.ints(columns.recorded)
    this.events = numbers("events")
    this.capacity = numbers("capacity")
    this.allocated = numbers("allocated")
    this.allocatedWidth = numbers("allocated_width")
    this.reserved = numbers("reserved")
    this.peakEvent = numbers("peak_event")
    this.peakTime = numbers("peak_time_us")
    const known = payload.ints(columns.growth_known)
    this.growth = numbers("growth").map((bytes, row) => (known[row] ? bytes : NaN))
    this.groups = groups.map(({ name }) => name)
    this.members = groups.map(() => [])
    this.group.forEach((group, row) => group >= 0 && this.members[group].push(row))
    this.odd = new Map()
    for (const each of odd) if (!this.odd.has(each.row)) this.odd.set(each.row, each)
    this.scales = scales
    this.steps = {
      starts: payload.starts(steps.count),
      number: payload.floats(steps.number),
      allocated: payload.bytesOf(steps.allocated),
      left: payload.bytesOf(steps.left),
    }
    this.strings = strings
    this.held = {
      starts: payload.starts(holders.count),
      kind: payload.ints(holders.kind),
      key: payload.ints(holders.key),
      bytes: payload.bytesOf(holders.bytes),
      count: payload.floats(holders.allocations),
      size: payload.floats(holders.size),
      ofSize: payload.floats(holders.of_size),
    }
    this.failed = {
      starts: payload.starts(failed.count),
      event: payload.floats(failed.event),
      time: payload.floats(failed.time_us),
      size: payload.floats(failed.size),
      site: payload.ints(failed.site),
    }
    this.found = { starts: payload.starts(findings.count), severity: payload.ints(findings.severity), title: payload.ints(findings.title) }
  }

  /** The axes on which something can be drawn, the best first. */
  get axes(): RunAxis[] {
    const others = this.payload.header.axis === "time" ? (["time", "event"] as const) : (["event", "time"] as const)
    return [...others, "step" as const].filter((axis) => this.cells(axis, "allocated"))
  }

  /** What can be drawn on an axis. */
  quantities(axis: RunAxis): Quantity[] {
    const reserved = axis !== "step" && this.reserved.some((bytes) => bytes >= 0)
    const share = this.capacity.some((bytes) => bytes > 0)
    return (["allocated", "reserved", "share"] as const).filter((each) => each === "allocated" || (each === "reserved" ? reserved : share))
  }

  /** The cells that a quantity is drawn from; null if there are none. Shares use reserved bytes where these are known. */
  drawn(axis: RunAxis, quantity: Quantity): CellRows | null {
    return (quantity === "allocated" ? null : this.cells(axis, "reserved")) ?? this.cells(axis, "allocated")
  }

  /** The factor from a row's cells to a quantity; 0 where it is not known. */
  factor(quantity: Quantity, row: number): number {
    if (quantity !== "share") return 1
    return this.capacity[row] > 0 ? 1 / this.capacity[row] : 0
  }

  cells(axis: RunAxis, curve: "allocated" | "reserved"): CellRows | null {
    const key = `${axis} ${curve}`
    if (!this.tables.has(key)) this.tables.set(key, this.read(axis, curve))
    return this.tables.get(key)!
  }

  private read(axis: RunAxis, curve: "allocated" | "reserved"): CellRows | null {
    if (axis === "step") return curve === "allocated" ? this.stepCells() : null
    const { payload } = this
    const cells = payload.header.cells[axis]
    if (!cells || (curve === "reserved" && !this.reserved.some((bytes) => bytes >= 0))) return null
    return new CellRows(payload.floats(cells.first), payload.ints(cells.shift), payload.ints(cells.count), payload.bytesOf(cells[curve]))
  }

  /** The peaks of steps as cells one step wide; missing step numbers have empty cells. */
  private stepCells(): CellRows | null {
    const { starts, number, allocated } = this.steps
    const [first, counts] = [new Float64Array(this.count), new Int32Array(this.count)]
    const values: number[] = []
    for (let row = 0; row < this.count; row++) {
      const [from, end] = [starts[row], starts[row + 1]]
      const span = from < end ? number[end - 1] - number[from] + 1 : 0
      if (span < 1 || span > MOST_STEPS) continue
      first[row] = number[from]
      counts[row] = span
      const at = values.length
      for (let k = 0; k < span; k++) values.push(NO_CELL)
      for (let k = from; k < end; k++) values[at + number[k] - number[from]] = allocated[k]
    }
    if (!values.length) return null
    return new CellRows(first, new Int32Array(this.count), counts, Float64Array.from(values))
  }

  /** Allocated bytes when a step ended; null where the row has no such step. */
  leftAfter(row: number, step: number): number | null {
    const { starts, number, left } = this.steps
    for (let k = starts[row]; k < starts[row + 1]; k++) if (number[k] === step) return left[k]
    return null
  }

  /** What held the memory at a row's peak. */
  holders(row: number): RunHolder[] {
    const { starts, kind, key, bytes, count, size, ofSize } = this.held
    const { strings } = this
    return range(starts, row).map((k) => ({
      kind: strings[kind[k]],
      key: strings[key[k]],
      bytes: bytes[k],
      count: count[k],
      size: size[k],
      ofSize: ofSize[k],
    }))
  }

  hasFailed(row: number): boolean {
    return this.failed.starts[row + 1] > this.failed.starts[row]
  }

  failures(row: number): RunFailure[] {
    const { starts, event, time, size, site } = this.failed
    return range(starts, row).map((k) => ({
      event: event[k],
      timeUs: time[k] < 0 ? null : time[k],
      size: size[k],
      site: this.strings[site[k]],
    }))
  }

  /** The severity and title of each finding in a row's own report. */
  findings(row: number): [severity: string, title: string][] {
    const { starts, severity, title } = this.found
    return range(starts, row).map((k) => [this.strings[severity[k]], this.strings[title[k]]])
  }
}

/** The entries of a row. */
function range(starts: Int32Array, row: number): number[] {
  return Array.from({ length: starts[row + 1] - starts[row] }, (_, k) => starts[row] + k)
}
