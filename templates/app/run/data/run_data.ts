/** A run as the page works with it: a row is one device of one rank. */

import { ColumnBlock, type ColumnSpec } from "../../lib/data/payload"
import { CellRows, NO_CELL } from "./cell_rows"

export type RunAxis = "time" | "event" | "step"
export type Quantity = "allocated" | "reserved" | "share"

export type RunHolder = ReturnType<RunData["holders"]>[number]

const RUN_FORMAT = 1

/** A column of bytes, in multiples of `unit`. */
interface BytesSpec {
  unit: number
  column: ColumnSpec
}

interface CellsSpec {
  first: ColumnSpec
  shift: ColumnSpec
  count: ColumnSpec
  allocated: BytesSpec
  reserved: BytesSpec
}

interface OddDifference {
  kind: string
  name: string
  bytes: number
  usual: number
  /** Bytes of the commonest allocation, and how many of them; zeros where that is not known. */
  each: [size: number, count: number]
  usual_each: [size: number, count: number]
}

export interface OddRank {
  row: number
  code: string
  word: string
  sentence: string
  parting: string
  event: number | null
  differences: OddDifference[]
}

/** The ends of the colour scale, and the lowest and highest value, in bytes. */
type ScaleEnds = [low: number, high: number, least: number, most: number]

interface RunHeader {
  format: number
  strings: string[]
  columns: Record<string, ColumnSpec>
  cells: Record<"event" | "time", CellsSpec | null>
  steps: { count: ColumnSpec; number: ColumnSpec; allocated: BytesSpec; left: BytesSpec }
  holders: { count: ColumnSpec; kind: ColumnSpec; key: ColumnSpec; bytes: BytesSpec } & Record<
    "allocations" | "size" | "of_size",
    ColumnSpec
  >
  failed: Record<"count" | "event" | "time_us" | "size" | "site", ColumnSpec>
  findings: Record<"count" | "severity" | "title", ColumnSpec>
  /** The axis shown at first. */
  axis: "time" | "event"
  scales: Record<string, Record<"allocated" | "reserved", ScaleEnds>>
  groups: { name: string }[]
  odd: OddRank[]
}

/** If step numbers span more than this, they are not used as an axis. */
const MOST_STEPS = 1 << 16

/** What `reporters/run_payload.py` packed. */
export class RunData extends ColumnBlock<RunHeader> {
  readonly label = this.texts("label")
  readonly count = this.label.length
  readonly source = this.texts("source")
  readonly host = this.texts("host")
  /** The position in the parallel layout: `tp=0 pp=3`. */
  readonly place = this.texts("place")
  readonly kind = this.texts("kind")
  /** A link to the page of the rank; "" for none. */
  readonly link = this.texts("link")
  readonly rank = this.ints(this.header.columns.rank)
  readonly group = this.ints(this.header.columns.group)
  readonly recorded = this.ints(this.header.columns.recorded)
  readonly events = this.numbers("events")
  readonly capacity = this.numbers("capacity")
  readonly allocated = this.numbers("allocated")
  readonly allocatedWidth = this.numbers("allocated_width")
  readonly reserved = this.numbers("reserved")
  readonly peakEvent = this.numbers("peak_event")
  readonly peakTime = this.numbers("peak_time_us")
  /** Bytes that a row gains per step; NaN where that is not known. */
  readonly growth: Float64Array
  readonly groups = this.header.groups.map(({ name }) => name)
  /** Rows of each group. */
  readonly members: number[][] = this.groups.map(() => [])
  /** The first finding about each row that is odd. */
  readonly odd = new Map<number, OddRank>()
  readonly scales = this.header.scales
  private readonly tables = new Map<string, CellRows | null>()
  private readonly steps
  private readonly held
  private readonly failed
  private readonly found

  /** Throws when the bytes are of another format. */
  constructor(bytes: ArrayBuffer) {
    super(bytes)
    if (this.header.format !== RUN_FORMAT) throw new Error(`unknown format ${this.header.format} of a run's data`)
    const { columns, odd, steps, holders, failed, findings } = this.header
    const known = this.ints(columns.growth_known)
    this.growth = this.numbers("growth").map((gained, row) => (known[row] ? gained : NaN))
    this.group.forEach((group, row) => group >= 0 && this.members[group].push(row))
    for (const each of odd) if (!this.odd.has(each.row)) this.odd.set(each.row, each)
    this.steps = {
      starts: this.starts(steps.count),
      number: this.floats(steps.number),
      allocated: this.bytesOf(steps.allocated),
      left: this.bytesOf(steps.left),
    }
    this.held = {
      starts: this.starts(holders.count),
      kind: this.ints(holders.kind),
      key: this.ints(holders.key),
      bytes: this.bytesOf(holders.bytes),
      count: this.floats(holders.allocations),
      size: this.floats(holders.size),
      ofSize: this.floats(holders.of_size),
    }
    this.failed = {
      starts: this.starts(failed.count),
      event: this.floats(failed.event),
      time: this.floats(failed.time_us),
      size: this.floats(failed.size),
      site: this.ints(failed.site),
    }
    this.found = { starts: this.starts(findings.count), severity: this.ints(findings.severity), title: this.ints(findings.title) }
  }

  private numbers(name: string): Float64Array {
    return this.floats(this.header.columns[name])
  }

  private bytesOf({ unit, column }: BytesSpec): Float64Array {
    const values = this.floats(column)
    if (unit > 1) for (let k = 0; k < values.length; k++) values[k] *= unit
    return values
  }

  /** One text for each row, "" for none. */
  private texts(name: string): string[] {
    const { strings, columns } = this.header
    return [...this.ints(columns[name])].map((id) => (id < 0 ? "" : strings[id]))
  }

  /** Where the entries of each row begin, with the end of the last. */
  private starts(counts: ColumnSpec): Int32Array {
    const count = this.ints(counts)
    const starts = new Int32Array(count.length + 1)
    for (let k = 0; k < count.length; k++) starts[k + 1] = starts[k] + count[k]
    return starts
  }

  /** The axes on which something can be drawn, the best first. */
  get axes(): RunAxis[] {
    const others = this.header.axis === "time" ? (["time", "event"] as const) : (["event", "time"] as const)
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
    const cells = this.header.cells[axis]
    if (!cells || (curve === "reserved" && !this.reserved.some((bytes) => bytes >= 0))) return null
    return new CellRows(this.floats(cells.first), this.ints(cells.shift), this.ints(cells.count), this.bytesOf(cells[curve]))
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
  holders(row: number) {
    const { starts, kind, key, bytes, count, size, ofSize } = this.held
    const { strings } = this.header
    return range(starts, row).map((k) => ({
      kind: strings[kind[k]],
      /** "" for all others of its kind. */
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

  failures(row: number) {
    const { starts, event, time, size, site } = this.failed
    return range(starts, row).map((k) => ({
      event: event[k],
      /** Since 1970; null where unknown. */
      timeUs: time[k] < 0 ? null : time[k],
      size: size[k],
      site: this.header.strings[site[k]],
    }))
  }

  /** The severity and title of each finding in a row's own report. */
  findings(row: number): [severity: string, title: string][] {
    const { starts, severity, title } = this.found
    return range(starts, row).map((k) => [this.header.strings[severity[k]], this.header.strings[title[k]]])
  }
}

/** The entries of a row. */
function range(starts: Int32Array, row: number): number[] {
  return Array.from({ length: starts[row + 1] - starts[row] }, (_, k) => starts[row] + k)
}
