/** What `reporters/run_payload.py` packed: the header of a run's data, and its columns as arrays. */

import { ColumnBlock, type ColumnSpec } from "../../lib/data/payload"

export const RUN_FORMAT = 1

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

export interface OddDifference {
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
export type ScaleEnds = [low: number, high: number, least: number, most: number]

export interface RunHeader {
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

export class RunPayload extends ColumnBlock<RunHeader> {
  /** Throws when the bytes are of another format. */
  constructor(bytes: ArrayBuffer) {
    super(bytes)
    if (this.header.format !== RUN_FORMAT) throw new Error(`unknown format ${this.header.format} of a run's data`)
  }

  numbers(name: string): Float64Array {
    return this.floats(this.header.columns[name])
  }

  bytesOf({ unit, column }: BytesSpec): Float64Array {
    const values = this.floats(column)
    if (unit > 1) for (let k = 0; k < values.length; k++) values[k] *= unit
    return values
  }

  /** One text for each row, "" for none. */
  texts(name: string): string[] {
    const { strings, columns } = this.header
    return [...this.ints(columns[name])].map((id) => (id < 0 ? "" : strings[id]))
  }

  /** Where the entries of each row begin, with the end of the last. */
  starts(counts: ColumnSpec): Int32Array {
    const count = this.ints(counts)
    const starts = new Int32Array(count.length + 1)
    for (let k = 0; k < count.length; k++) starts[k + 1] = starts[k] + count[k]
    return starts
  }
}
