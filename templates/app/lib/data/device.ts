/** One device's allocations as columns, and the call stacks that all devices share. */

import { type Curve, type Ints, type Numbers, unitOf } from "./curves"
import { fromLastUse, sumsInEvents } from "./orders"
import type { DeviceSummary, Payload } from "./payload"
import { type Rest, withRest, withRow } from "./rest"
import { readReplays, type Replay } from "./replays"
import { readSteps, type Steps } from "./steps"

export const NO_ID = -1

export interface Stacks {
  strings: string[]
  /** The folders that shortened file names of installed packages begin with. */
  packages: string[]
  /** What the lines of frames stand for, if not for the lines that ran; mostly "". */
  linesNote: string
  frameName: Int32Array
  frameFile: Int32Array
  /** -1 where unknown. */
  frameLine: Int32Array
  /** The text of each frame's line: a row of the strings, or -1; null where the file has none. */
  frameCode: Ints | null
  /** The kind of each frame, as in `model/findings.py`. */
  frameKind: Int32Array
  /** A node's parent has a smaller id; -1 for an outermost frame. */
  nodeParent: Int32Array
  nodeFrame: Int32Array
  /** Node of the innermost frame; -1 for the empty stack. */
  stackNode: Int32Array
  /** The call site of each stack, a frame id; -1 for the empty stack. */
  stackSite: Int32Array
  /** A frame's name as a call site, a row of the strings; -1 for its short name. */
  siteName: Int32Array
}

/** Every segment that existed at some event, by start; when a run of mapped memory changes, it counts as a new one.
 *
 * As in `model/segment_lives.py`. Empty where no allocator is known. */
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
}

/** Unpacks the shared frames and stacks. */
export function readStacks(payload: Payload): Stacks {
  const { columns, strings, packages, lines_note: linesNote } = payload.header
  return {
    strings,
    packages,
    linesNote,
    frameName: payload.ints(columns.frame_name),
    frameFile: payload.ints(columns.frame_file),
    frameLine: payload.ints(columns.frame_line),
    frameCode: columns.frame_code ? payload.ints(columns.frame_code) : null,
    frameKind: payload.ints(columns.frame_kind),
    nodeParent: payload.ints(columns.node_parent),
    nodeFrame: payload.ints(columns.node_frame),
    stackNode: payload.ints(columns.stack_node),
    stackSite: payload.ints(columns.stack_site),
    siteName: payload.ints(columns.site_name),
  }
}

/** Unpacks one device, ids into values and differences into events; works only once. */
export function readDevice(payload: Payload, index: number): Device {
  const header = payload.header.devices[index]
  const columns = header.columns
  const summary = payload.header.summary.devices[index]
  const { peaks } = summary
  const sizeClass = payload.ids(columns.size_class)
  const [requestedOf, blockOf, blockMaxOf] = ["requested", "block", "block_max"].map((name) => payload.floats(columns[`class_${name}`]))
  const allocEvent = payload.ints(columns.alloc_event)
  const freeRequestedEvent = payload.ints(columns.free_requested_after)
  const freeEvent = payload.ints(columns.free_after)
  const requested = new Float64Array(sizeClass.length)
  const block = new Float64Array(sizeClass.length)
  for (let i = 0; i < sizeClass.length; i++) {
    freeRequestedEvent[i] += allocEvent[i]
    freeEvent[i] += freeRequestedEvent[i]
    requested[i] = requestedOf[sizeClass[i]]
    block[i] = blockOf[sizeClass[i]]
  }
  const later = { ints: new Int32Array(0), floats: new Float64Array(0) }
  const device: Device = {
    id: header.id,
    events: header.events,
    count: allocEvent.length,
    summary,
    requested,
    block,
    unit: { allocated: unitOf(peaks.allocated.bytes, blockOf), requested: unitOf(peaks.requested.bytes, requestedOf) },
    blockMax: blockOf.every((bytes, k) => bytes === blockMaxOf[k]) ? block : picked(blockMaxOf, sizeClass),
    allocEvent,
    freeRequestedEvent,
    freeEvent,
    addr: later.ints,
    addrValues: later.floats,
    stack: payload.ids(columns.stack),
    freeStack: later.ints,
    missing: payload.ids(columns.missing),
    missingReasons: payload.header.missing_reasons,
    stream: later.ints,
    streamValues: payload.floats(columns.stream_values),
    pool: later.ints,
    pools: header.pools,
    category: later.ints,
    categoryRules: header.category_rules,
    role: later.ints,
    roles: header.roles,
    roleMeanings: Object.fromEntries(payload.header.role_meanings),
    compileContext: later.ints,
    metadata: later.ints,
    oneColour: header.one_colour,
    timed: columns.event_time.length > 0,
    eventTime: later.floats,
    timeOriginUs: header.time_origin_us,
    reservedEvent: payload.ints(columns.reserved_event),
    reservedBytes: payload.floats(columns.reserved_bytes),
    eventIndex: payload.ints(columns.event_index),
    eventAction: payload.ints(columns.event_action),
    actions: header.actions,
    eventAddr: later.floats,
    eventSize: later.floats,
    eventStream: later.ints,
    eventStack: payload.ints(columns.event_stack),
    segments: {
      count: 0,
      address: later.floats,
      size: later.floats,
      start: later.ints,
      end: later.ints,
      stream: later.ints,
      pool: later.ints,
      kind: later.ints,
      expandable: later.ints,
    },
    rest: null,
    steps: null,
    replays: [],
  }
  return withRest(device, payload, header)
}

/** The value of each id. */
function picked(values: Float64Array, ids: Ints): Float64Array {
  const out = new Float64Array(ids.length)
  for (let i = 0; i < out.length; i++) out[i] = values[ids[i]] // `from` with a function takes 20 times as long
  return out
}

/** Unpacks what the first picture does not need: addresses, times, segments and what only panels show. */
export function readLater(payload: Payload, index: number, device: Device): void {
  const { columns, steps, replays } = payload.header.devices[index]
  /** The row for what is not drawn one by one gets the first row's id, so that it adds no distinct value. */
  const ids = (column: Ints, ofRest = column[0] ?? -1) => (device.rest ? withRow(column, ofRest) : column)
  const addrValues = payload.floats(columns.addr_values)
  const segmentStart = payload.ints(columns.segment_start)
  const later: Partial<Device> = {
    steps: steps && readSteps(payload, steps),
    replays: readReplays(payload, replays, device.events),
    addr: ids(fromLastUse(payload.ids(columns.addr_back), payload.ids(columns.addr_first))),
    addrValues,
    freeStack: ids(payload.ids(columns.free_stack), -1),
    stream: ids(payload.ids(columns.stream)),
    pool: ids(payload.ids(columns.pool)),
    category: ids(payload.ids(columns.category)),
    role: ids(payload.ids(columns.role)),
    compileContext: ids(payload.ids(columns.compile_context)),
    metadata: ids(payload.ids(columns.metadata), -1),
    eventTime: sumsInEvents(payload.plain(columns.event_time), device.allocEvent, device.freeRequestedEvent, device.freeEvent),
    eventAddr: picked(addrValues, payload.ints(columns.event_addr)),
    eventSize: payload.floats(columns.event_size),
    eventStream: payload.ints(columns.event_stream),
    segments: {
      count: columns.segment_start.length,
      address: picked(addrValues, payload.ints(columns.segment_addr)),
      size: picked(payload.floats(columns.segment_size_values), payload.ints(columns.segment_size)),
      start: segmentStart,
      end: payload.ints(columns.segment_life).map((life, k) => segmentStart[k] + life),
      stream: payload.ints(columns.segment_stream),
      pool: payload.ints(columns.segment_pool),
      kind: payload.ints(columns.segment_kind),
      expandable: payload.ints(columns.segment_expandable),
    },
  }
  Object.assign(device, later)
  payload.taken(index)
}

/** Why an allocation has no frames; "" if it has some. */
export function missingReason(device: Device, allocation: number): string {
  return device.missingReasons[device.missing[allocation]]
}

/** How many allocations came before this one at its address. */
export function version(device: Device, allocation: number): number {
  if (device.rest) return device.rest.versions[allocation]
  let before = 0
  for (let i = 0; i < allocation; i++) if (device.addr[i] === device.addr[allocation]) before++
  return before
}

/** Frame ids of a stack, innermost first. */
export function framesOf(stacks: Stacks, stack: number): number[] {
  const frames: number[] = []
  for (let node = stack < 0 ? -1 : stacks.stackNode[stack]; node >= 0; node = stacks.nodeParent[node]) {
    frames.push(stacks.nodeFrame[node])
  }
  return frames
}
