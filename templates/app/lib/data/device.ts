/** One device's allocations as columns, and the call stacks that all devices share. */

import { type Curve, type Ints, type Numbers, type Strips, without } from "./curves"
import { oncePer } from "./known"
import type { DeviceSummary, Payload } from "./payload"
import type { Envelope, Replay } from "./replays"
import type { Steps } from "./steps"

export const NO_ID = -1

export type Stacks = ReturnType<typeof readStacks>

/** Unpacks the call stacks that all devices share. */
export function readStacks(payload: Payload) {
  const { columns, strings, packages, lines_note: linesNote } = payload.header
  return {
    strings,
    /** The folders that shortened file names of installed packages begin with. */
    packages,
    /** What the lines of frames stand for, if not for the lines that ran; mostly "". */
    linesNote,
    frameName: payload.ints(columns.frame_name),
    frameFile: payload.ints(columns.frame_file),
    /** -1 where unknown. */
    frameLine: payload.ints(columns.frame_line),
    /** The text of each frame's line: a row of the strings, or -1; null where the file has none. */
    frameCode: columns.frame_code ? payload.ints(columns.frame_code) : null,
    /** The kind of each frame, as in `model/findings.py`. */
    frameKind: payload.ints(columns.frame_kind),
    /** A node's parent has a smaller id; -1 for an outermost frame. */
    nodeParent: payload.ints(columns.node_parent),
    nodeFrame: payload.ints(columns.node_frame),
    /** Node of the innermost frame; -1 for the empty stack. */
    stackNode: payload.ints(columns.stack_node),
    /** The call site of each stack, a frame id; -1 for the empty stack. */
    stackSite: payload.ints(columns.stack_site),
    /** A frame's name in trees, a row of the strings; -1 for its short name. */
    treeName: payload.ints(columns.tree_name),
    /** A frame's name as a call site, a row of the strings; -1 for that in trees. */
    siteName: payload.ints(columns.site_name),
  }
}

/** Every segment that existed at some event, by start; when a run of mapped memory changes, it counts as a new one.
 *
 * As in `model/replays.py`. Empty where no allocator is known. */
export interface Segments {
  count: number
  address: Float64Array
  size: Float64Array
  /** Exists after the events s with start <= s < end. */
  start: Int32Array
  end: Int32Array
  /** Places in `streamValues`. */
  stream: Int32Array
  /** Rows of `pools`; -1 where not known. */
  pool: Int32Array
  /** 0 small, 1 large, -1 not known. */
  kind: Int32Array
  expandable: Int32Array
}

/** What is not drawn one by one, and the row that stands for it; see `rest.ts`. */
export interface Rest {
  /** The row that stands for the rest. */
  row: number
  /** After each event, element s + 1 for event s: bytes and allocations, as each curve counts them. */
  requested: Float64Array
  allocated: Float64Array
  active: Float64Array
  count: Record<Curve, Float64Array>
  /** Over the entire recording: their number, requested bytes and block bytes. */
  ever: { count: number; requested: number; allocated: number }
  /** Rows of the drawn allocations among all of the recording. */
  rows: Int32Array
  /** How many allocations came before each at its address. */
  versions: Int32Array
  /** First and last event that were asked for, or null for all. */
  window: [first: number, last: number] | null
}

/** Rows are allocations in birth order; events as in `model/history.py` (-1 start, events = never).
 *
 * Columns that the first picture does not need are empty until `readLater`. */
export interface Device {
  id: string
  events: number
  count: number
  summary: DeviceSummary
  requested: Float64Array
  block: Float64Array
  blockMax: Float64Array
  /** The unit of each curve, as in `Strips`. */
  unit: Record<Curve, number>
  allocEvent: Int32Array
  freeRequestedEvent: Int32Array
  freeEvent: Int32Array
  /** Places in `addrValues`. */
  addr: Ints
  addrValues: Float64Array
  stack: Ints
  freeStack: Ints
  /** Why each allocation has no frames, a place in `missingReasons`; 0 where it has. */
  missing: Ints
  missingReasons: string[]
  stream: Ints
  streamValues: Float64Array
  pool: Ints
  pools: string[]
  category: Ints
  /** The rule of each category, by its name. */
  categoryRules: Record<string, string>
  /** Places in `roles`. */
  role: Ints
  /** The roles that allocations have, each with how it is known. */
  roles: [role: string, evidence: string][]
  /** What memory of each role is. */
  roleMeanings: Record<string, string>
  compileContext: Ints
  /** Ids of texts that only some recordings have, by name: `forward`, `metadata:KEY`; -1 for none. */
  labels: Record<string, Ints>
  metadata: Ints
  /** Colourings by a column that would show only one colour. */
  oneColour: string[]
  /** Whether events have times. */
  timed: boolean
  /** Microseconds after `timeOriginUs`, per event; empty where the recording has no times. */
  eventTime: Numbers
  timeOriginUs: number | null
  /** Events from which `reservedBytes` holds; the first is -1. */
  reservedEvent: Int32Array
  reservedBytes: Float64Array
  eventIndex: Int32Array
  eventAction: Int32Array
  actions: string[]
  eventAddr: Float64Array
  eventSize: Float64Array
  /** Places in `streamValues`. */
  eventStream: Int32Array
  eventStack: Int32Array
  segments: Segments
  /** What is not drawn one by one; null where everything is. */
  rest: Rest | null
  /** The steps of the program's loop; null if the recording shows none, and until all columns are read. */
  steps: Steps | null
  /** Replays under other allocator settings; none until all columns are read. */
  replays: Replay[]
  /** What private pools reserve, the largest first. */
  envelopes: Envelope[]
  /** What expandable segments of the large pool get and give back at a time. */
  largePage: number
}

/** The strips of one curve. */
export function stripsOf(device: Device, curve: Curve): Strips {
  const rest = device.rest ? { row: device.rest.row, height: device.rest[curve] } : undefined
  const { events, allocEvent: birth } = device
  const unit = device.unit[curve]
  return curve === "allocated"
    ? { events, birth, death: device.freeRequestedEvent, height: device.block, rest, unit }
    : { events, birth, death: device.freeEvent, height: device.requested, rest, unit }
}

/** The device with some allocations never live, `hidden`: 1 for each; what they are is not to be read from it. */
export function withoutRows(device: Device, hidden: Uint8Array): Device {
  return {
    ...device,
    freeRequestedEvent: without(stripsOf(device, "allocated"), hidden).death,
    freeEvent: without(stripsOf(device, "requested"), hidden).death,
    rest: device.rest && hidden[device.rest.row] ? null : device.rest,
  }
}

/** Why an allocation has no frames; "" if it has some. */
export function missingReason(device: Device, allocation: number): string {
  return device.missingReasons[device.missing[allocation]]
}

/** How many allocations came before each at its address; computed once. */
export const versionsOf = oncePer(({ rest, addr, addrValues, count }: Device): Int32Array => {
  if (rest) return rest.versions
  const next = new Int32Array(addrValues.length)
  const made = new Int32Array(count)
  for (let i = 0; i < count; i++) made[i] = next[addr[i]]++
  return made
})

/** Frame ids of a stack, innermost first. */
export function framesOf(stacks: Stacks, stack: number): number[] {
  const frames: number[] = []
  for (let node = stack < 0 ? -1 : stacks.stackNode[stack]; node >= 0; node = stacks.nodeParent[node]) {
    frames.push(stacks.nodeFrame[node])
  }
  return frames
}
