/** Unpacks what `reporters/payload.py` packed: a JSON header and typed columns behind it. */

export const FORMAT = 2

type ColumnType = "u8" | "u16" | "u32" | "i8" | "i16" | "i32" | "f64"

export interface ColumnSpec {
  type: ColumnType
  /** Bytes from the start of the column area. */
  offset: number
  length: number
  /** Values are differences; a running sum gives them back. */
  delta: boolean
}

export interface DeviceHeader {
  id: string
  events: number
  time_origin_us: number | null
  actions: string[]
  pools: string[]
  /** What put allocations into each category, by its name. */
  category_rules: Record<string, string>
  columns: Record<string, ColumnSpec>
}

export interface Header {
  format: number
  summary: Summary
  strings: string[]
  /** Why an allocation has no frames; the first is "" for those that have. */
  missing_reasons: string[]
  /** What the timeline is coloured by at first. */
  colour: string
  columns: Record<string, ColumnSpec>
  devices: DeviceHeader[]
}

/** The part of `findings_as_json` that the page reads. */
export interface Summary {
  title: string
  default: number
  devices: DeviceSummary[]
}

export interface Peak {
  bytes: number
  step: number
  time_us: number | null
}

export interface SiteSummary {
  name: string
  filename: string
  line: number | null
  bytes: number
  requested: number
  count: number
}

export interface StageSummary {
  name: string
  parent: number | null
  depth: number
  start_step: number
  end_step: number
  start_time_us: number | null
  end_time_us: number | null
  cut: string
  /** Null, here and below, where the recording does not hold what it takes. */
  start_bytes: number | null
  end_bytes: number | null
  peak_bytes: number | null
  peak_step: number | null
  change: number | null
  allocations: number | null
  allocated_bytes: number | null
}

export interface OomSummary {
  step: number
  time_us: number | null
  size: number
  device_free: number
  allocated: number
  reserved: number | null
}

export interface DeviceSummary {
  device: string
  /** Bytes of the device's memory, where the recording says. */
  capacity: number | null
  events: number
  allocations: number
  recorded: boolean
  /** Without `reserved` where no allocator reserves memory (profiler files). */
  peaks: Record<"requested" | "allocated" | "active", Peak> & { reserved?: Peak }
  sites: SiteSummary[]
  stages: StageSummary[]
  ooms: OomSummary[]
}

const ARRAYS = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  f64: Float64Array,
}

/** The unpacked payload: its header, and columns on demand. */
export class Payload {
  readonly header: Header
  private readonly area: number

  /** Throws when the bytes are of another format. */
  constructor(private readonly bytes: ArrayBuffer) {
    const length = new DataView(bytes).getUint32(0, true)
    this.header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as Header
    if (this.header.format !== FORMAT) throw new Error(`unknown payload format ${this.header.format}`)
    this.area = (4 + length + 7) & ~7
  }

  /** A column of integers below 2^31: ids and steps. */
  ints(spec: ColumnSpec): Int32Array {
    const out = new Int32Array(this.raw(spec))
    if (spec.delta) for (let i = 1; i < out.length; i++) out[i] += out[i - 1]
    return out
  }

  /** A column of numbers up to 2^53: bytes, addresses and times. */
  floats(spec: ColumnSpec): Float64Array {
    const out = new Float64Array(this.raw(spec))
    if (spec.delta) for (let i = 1; i < out.length; i++) out[i] += out[i - 1]
    return out
  }

  /** Puts together the bytes of each value: a column has the lowest ones of all values first. */
  private raw({ type, offset, length }: ColumnSpec): ArrayLike<number> {
    const width = ARRAYS[type].BYTES_PER_ELEMENT
    const planes = new Uint8Array(this.bytes, this.area + offset, length * width)
    if (width === 1) return type === "i8" ? new Int8Array(planes.buffer, planes.byteOffset, length) : planes
    const bytes = new Uint8Array(length * width)
    for (let plane = 0, at = 0; plane < width; plane++) {
      for (let to = plane; to < bytes.length; to += width) bytes[to] = planes[at++]
    }
    return new ARRAYS[type](bytes.buffer)
  }
}

/** Turns the text of the payload's script element into the packed bytes. */
export async function unpack(base64: string): Promise<Payload> {
  const text = atob(base64.trim())
  const packed = new Uint8Array(text.length)
  for (let k = 0; k < packed.length; k++) packed[k] = text.charCodeAt(k) // `from` with a function takes 20 times as long
  // A Blob's stream would go through another process.
  const stream = new Response(packed).body!.pipeThrough(new DecompressionStream("gzip"))
  return new Payload(await new Response(stream).arrayBuffer())
}
