/** Unpacks what `reporters/payload.py` packed: a JSON header, then typed columns. */

import type { Ints } from "./curves"

export const FORMAT = 4

type ColumnType = "u8" | "u16" | "u32" | "i8" | "i16" | "i32" | "f64"

export interface ColumnSpec {
  type: ColumnType
  /** Bytes from the start of the column area. */
  offset: number
  length: number
  /** Values are differences; a running sum gives them back. */
  delta: boolean
  /** Whether it is in the second block, which the first picture does not need. */
  later?: true
}

export type StepKind = "unknown" | "warm-up" | "steady" | "other"

/** As in reporters/payload.py. */
export interface StepsHeader {
  /** A sentence on how the steps were identified. */
  told: string
  /** The number, from 1, of the step with the allocated peak, or null. */
  peak: number | null
  kinds: StepKind[]
  /** Empty where the file names none. */
  names: string[]
  columns: Record<"bounds" | "kind" | "kept" | "allocations" | "allocated", ColumnSpec>
}

export interface ReplayHeader {
  settings: string
  event: ColumnSpec
  bytes: ColumnSpec
}

/** The lower edge of what one private pool reserves; the columns are as those of a replay. */
export interface EnvelopeHeader {
  pool: string
  most: number
  event: ColumnSpec
  bytes: ColumnSpec
}

export interface DeviceHeader {
  id: string
  events: number
  time_origin_us: number | null
  actions: string[]
  pools: string[]
  /** The rule of each category, by its name. */
  category_rules: Record<string, string>
  /** The roles that allocations have, each with how it is known. */
  roles: [role: string, evidence: string][]
  /** Colourings by a column that would show only one colour. */
  one_colour: string[]
  /** Texts of allocations that only some recordings have, by name: `forward`, `metadata:KEY`. */
  labels: Record<string, ColumnSpec>
  /** First and last event that are drawn; null for all, and absent if nothing is cut. */
  window?: [number, number] | null
  /** Null where the recording shows no steps. */
  steps: StepsHeader | null
  /** Replays under other allocator settings; none if they were not compared. */
  replays: ReplayHeader[]
  /** What private pools reserve, the largest first. */
  envelopes: EnvelopeHeader[]
  /** What expandable segments of the large pool get and give back at a time. */
  large_page: number
  columns: Record<string, ColumnSpec>
}

export interface Header {
  format: number
  summary: Summary
  strings: string[]
  /** Why an allocation has no frames; the first is "" for those that have. */
  missing_reasons: string[]
  /** The colouring of the timeline at first. */
  colour: string
  /** What memory of each role is. */
  role_meanings: [role: string, meaning: string][]
  /** The folders that shortened file names of installed packages begin with. */
  packages: string[]
  /** What the lines of frames stand for, if not for the lines that ran; mostly "". */
  lines_note: string
  columns: Record<string, ColumnSpec>
  devices: DeviceHeader[]
  /** In the page of a comparison, whose devices are BASE and NEW: what was compared. */
  compared?: { events: [base: number, later: number]; curve: string }
}

/** The part of `findings_as_json` that the page reads. */
export interface Summary {
  title: string
  default: number
  devices: DeviceSummary[]
}

export interface StageSummary {
  name: string
  parent: number | null
  depth: number
  start_event: number
  end_event: number
  cut: string
  /** Null, here and below, if the recording does not have the data for it. */
  start_bytes: number | null
  end_bytes: number | null
  peak_bytes: number | null
  peak_event: number | null
  change: number | null
  allocations: number | null
  allocated_bytes: number | null
}

export interface OomSummary {
  event: number
  size: number
  device_free: number
  allocated: number
  reserved: number | null
}

export interface DeviceSummary {
  /** Bytes of the device's memory, if recorded. */
  capacity: number | null
  /** The card that was asked about. */
  card: { title: string; bytes: number } | null
  recorded: boolean
  /** The first event from which reserved memory is known: before it, segment events are missing. Null without an allocator (profiler files). */
  reserved_from: number | null
  /** Without `reserved` where that is not known at every event. */
  peaks: Record<"requested" | "allocated" | "active", { bytes: number }> & { reserved?: { bytes: number } }
  stages: StageSummary[]
  ooms: OomSummary[]
  /** What is not drawn one by one; absent where everything is. */
  cut?: Record<"not_drawn" | "not_drawn_bytes" | "not_drawn_requested_bytes" | "error_bytes", number>
}

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i8: Int8Array, i16: Int16Array, i32: Int32Array, f64: Float64Array }

/** A JSON header, and typed columns that are read on demand. */
export class ColumnBlock<H> {
  readonly header: H
  protected bytes: ArrayBuffer
  protected laterBytes: ArrayBuffer | null = null
  private readonly area: number

  constructor(bytes: ArrayBuffer) {
    this.bytes = bytes
    const length = new DataView(bytes).getUint32(0, true)
    this.header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as H
    this.area = (4 + length + 7) & ~7
  }

  /** A column of integers below 2^31: events, and ids used in arithmetic. */
  ints(spec: ColumnSpec): Int32Array {
    const { type, length, delta } = spec
    const out = new Int32Array(length)
    if (type === "u16" || type === "i16") {
      // Most numbers pass here: a single loop for all columns is compiled early.
      const planes = this.planes(spec)
      const sign = type === "i16" ? 0x8000 : 0
      const kept = delta ? -1 : 0
      for (let i = 0, sum = 0; i < length; i++) {
        out[i] = sum = (sum & kept) + (((planes[i] | (planes[length + i] << 8)) ^ sign) - sign)
      }
      return out
    }
    out.set(this.raw(spec))
    if (delta) for (let i = 1; i < out.length; i++) out[i] += out[i - 1]
    return out
  }

  /** The same in its packed width, for the many ids that are only looked up now and then. */
  ids(spec: ColumnSpec): Ints {
    if (spec.delta || spec.type === "u32" || spec.type === "f64") return this.ints(spec)
    const ids = this.raw(spec) as Ints
    return ids.BYTES_PER_ELEMENT === 1 ? ids.slice() : ids // not a view, which would keep all bytes alive
  }

  /** A column of numbers up to 2^53: bytes, addresses and times. */
  floats(spec: ColumnSpec): Float64Array {
    const out = new Float64Array(this.raw(spec))
    if (spec.delta) for (let i = 1; i < out.length; i++) out[i] += out[i - 1]
    return out
  }

  /** A column as it was packed, its differences not added up.
   *
   * Joins the bytes of each value: a column has the lowest bytes of all values first. */
  raw(spec: ColumnSpec): InstanceType<(typeof ARRAYS)[ColumnType]> {
    const { type, length } = spec
    const width = ARRAYS[type].BYTES_PER_ELEMENT
    const planes = this.planes(spec)
    if (width === 1) return type === "i8" ? new Int8Array(planes.buffer, planes.byteOffset, length) : planes
    if (width === 2) {
      const out = new Uint16Array(length)
      for (let i = 0; i < length; i++) out[i] = planes[i] | (planes[length + i] << 8)
      return type === "i16" ? new Int16Array(out.buffer) : out
    }
    const bytes = new Uint8Array(length * width)
    for (let plane = 0, at = 0; plane < width; plane++) {
      for (let to = plane; to < bytes.length; to += width) bytes[to] = planes[at++]
    }
    return new ARRAYS[type](bytes.buffer)
  }

  private planes({ type, offset, length, later }: ColumnSpec): Uint8Array<ArrayBuffer> {
    const [bytes, start] = later ? [this.laterBytes!, 0] : [this.bytes, this.area]
    return new Uint8Array(bytes, start + offset, length * ARRAYS[type].BYTES_PER_ELEMENT)
  }
}

/** The unpacked payload of a report. */
export class Payload extends ColumnBlock<Header> {
  private readonly unread: Set<number>

  /** Throws when the bytes are of another format. */
  constructor(bytes: ArrayBuffer) {
    super(bytes)
    if (this.header.format !== FORMAT) throw new Error(`unknown payload format ${this.header.format}`)
    this.unread = new Set(this.header.devices.keys())
  }

  /** Whether all columns are there, and not only those of the first picture. */
  get whole(): boolean {
    return this.laterBytes !== null
  }

  /** Adds the columns that the first picture does not need. */
  add(laterBytes: ArrayBuffer): void {
    this.laterBytes = laterBytes
  }

  /** Notes that a device's columns were read, which happens once; after the last device, all bytes are freed. */
  taken(device: number): void {
    this.unread.delete(device)
    if (!this.unread.size) this.bytes = this.laterBytes = new ArrayBuffer(0)
  }
}

/** Unpacks the base64 text of one of the payload's script elements. */
export async function unpack(base64: string): Promise<ArrayBuffer> {
  const packed = decoded(base64)
  // A Blob's stream would go through another process, and a Response that collects all copies it twice.
  const reader = new Response(packed).body!.pipeThrough(new DecompressionStream("gzip")).getReader()
  const out = new Uint8Array(new DataView(packed.buffer).getUint32(packed.length - 4, true)) // gzip ends with its length
  for (let at = 0, read = await reader.read(); !read.done; read = await reader.read()) {
    out.set(read.value, at)
    at += read.value.length
  }
  return out.buffer
}

function decoded(base64: string): Uint8Array<ArrayBuffer> {
  if ("fromBase64" in Uint8Array) return (Uint8Array as unknown as { fromBase64(text: string): Uint8Array<ArrayBuffer> }).fromBase64(base64)
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let k = 0; k < bytes.length; k++) bytes[k] = text.charCodeAt(k) // `from` with a function takes 20 times as long
  return bytes
}
