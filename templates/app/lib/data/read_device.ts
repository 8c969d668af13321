/** Unpacks a payload's columns into devices; some are in an order that compresses well. */

import { type Ints, type Numbers, unitOf } from "./curves"
import type { Device, Rest } from "./device"
import type { DeviceHeader, Payload } from "./payload"
import { readEnvelopes, readReplays } from "./replays"
import { withRest, withRow } from "./rest"
import { readSteps } from "./steps"

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
  const stack = payload.ids(columns.stack)
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
    stack,
    missing: payload.ids(columns.missing),
    missingReasons: payload.header.missing_reasons,
    streamValues: payload.floats(columns.stream_values),
    pools: header.pools,
    categoryRules: header.category_rules,
    roles: header.roles,
    roleMeanings: Object.fromEntries(payload.header.role_meanings),
    oneColour: header.one_colour,
    timed: columns.event_time.length > 0,
    timeOriginUs: header.time_origin_us,
    reservedEvent: payload.ints(columns.reserved_event),
    reservedBytes: payload.floats(columns.reserved_bytes),
    eventIndex: payload.ints(columns.event_index),
    eventAction: payload.ints(columns.event_action),
    actions: header.actions,
    eventStack: payload.ints(columns.event_stack),
    rest: null,
    steps: null,
    replays: [],
    envelopes: readEnvelopes(payload, header.envelopes, header.events),
    largePage: header.large_page,
    ...laterColumns(NOT_YET, header, { stack, allocEvent, freeRequestedEvent, freeEvent }, null),
  }
  if (!columns.role.later) device.role = payload.ids(columns.role) // the first picture is coloured by it
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
  const header = payload.header.devices[index]
  const { steps, replays } = header
  Object.assign(device, laterColumns(payload, header, device, device.rest), {
    steps: steps && readSteps(payload, steps),
    replays: readReplays(payload, replays, device.events),
  })
  payload.taken(index)
}

type Columns = Pick<Payload, "ints" | "ids" | "floats" | "raw">

/** Columns that are not there yet: all are empty. */
const NOT_YET: Columns = {
  ints: () => new Int32Array(0),
  ids: () => new Int32Array(0),
  floats: () => new Float64Array(0),
  raw: () => new Uint8Array(0),
}

function laterColumns(
  from: Columns,
  { columns, labels }: Pick<DeviceHeader, "columns" | "labels">,
  { stack, allocEvent, freeRequestedEvent, freeEvent }: Pick<Device, "stack" | "allocEvent" | "freeRequestedEvent" | "freeEvent">,
  rest: Rest | null,
) {
  /** The row for what is not drawn one by one gets the first row's id, so that it adds no distinct value. */
  const ids = (column: Ints, ofRest = column[0] ?? -1) => (rest ? withRow(column, ofRest) : column)
  const addrValues = from.floats(columns.addr_values)
  const segmentStart = from.ints(columns.segment_start)
  return {
    addr: ids(fromLastUse(from.ids(columns.addr_back), from.ids(columns.addr_first))),
    addrValues,
    freeStack: ids(from.ids(columns.free_stack), -1),
    stream: ids(from.ids(columns.stream)),
    pool: ids(from.ids(columns.pool)),
    category: ids(from.ids(columns.category)),
    role: ids(from.ids(columns.role)),
    compileContext: ids(from.ids(columns.compile_context)),
    metadata: ids(from.ids(columns.metadata), -1),
    labels: Object.fromEntries(Object.entries(labels).map(([name, column]) => [name, ids(from.ids(column), -1)])),
    eventTime: sumsInEvents(from.raw(columns.event_time), stack, allocEvent, freeRequestedEvent, freeEvent),
    eventAddr: picked(addrValues, from.ints(columns.event_addr)),
    eventSize: from.floats(columns.event_size),
    eventStream: from.ints(columns.event_stream),
    segments: {
      count: segmentStart.length,
      address: picked(addrValues, from.ints(columns.segment_addr)),
      size: picked(from.floats(columns.segment_size_values), from.ints(columns.segment_size)),
      start: segmentStart,
      end: from.ints(columns.segment_life).map((life, k) => segmentStart[k] + life),
      stream: from.ints(columns.segment_stream),
      pool: from.ints(columns.segment_pool),
      kind: from.ints(columns.segment_kind),
      expandable: from.ints(columns.segment_expandable),
    },
  }
}

/** Kinds of events: other than an allocation's, alloc, free_requested, free_completed. */
const KINDS = 4

/** The running sums, event by event, of numbers ordered by the kind of the event before, its own, and the allocation's stack.
 *
 * In four bytes each if that is enough for all. */
export function sumsInEvents(
  values: ArrayLike<number>,
  stack: Ints,
  allocEvent: Int32Array,
  freeRequestedEvent: Int32Array,
  freeEvent: Int32Array,
): Numbers {
  const { length } = values
  if (!length) return new Uint32Array(0)
  let stacks = 1 // with none, which is -1
  for (let i = 0; i < stack.length; i++) if (stack[i] + 2 > stacks) stacks = stack[i] + 2
  const what = new Int32Array(length)
  // If an event is in two columns, the later column decides.
  const mark = (events: Int32Array, kind: number) => {
    for (let i = 0; i < events.length; i++) {
      if (events[i] >= 0 && events[i] < length) what[events[i]] = kind * stacks + stack[i] + 1
    }
  }
  mark(freeEvent, 3)
  mark(freeRequestedEvent, 2)
  mark(allocEvent, 1)
  for (let event = length - 1; event > 0; event--) what[event] += ((what[event - 1] / stacks) | 0) * KINDS * stacks
  const starts = new Int32Array(KINDS * KINDS * stacks + 1)
  for (const key of what) starts[key + 1]++
  for (let k = 1; k < starts.length; k++) starts[k] += starts[k - 1]
  /** Fills in the sums; returns whether all are within these limits. */
  const fill = (out: Numbers, least: number, most: number) => {
    const next = starts.slice()
    let sum = 0
    for (let event = 0; event < length; event++) {
      out[event] = sum += values[next[what[event]]++]
      if (sum < least || sum > most) return false
    }
    return true
  }
  const narrow = new Uint32Array(length)
  if (fill(narrow, 0, 2 ** 32 - 1)) return narrow
  const wide = new Float64Array(length)
  fill(wide, -Infinity, Infinity)
  return wide
}

/** Ids, given how many places back each was last used; 0 takes the next id of `first`. */
export function fromLastUse(back: Ints, first: Ints): Ints {
  const ids =
    first instanceof Uint8Array
      ? new Uint8Array(back.length)
      : first instanceof Uint16Array
        ? new Uint16Array(back.length)
        : new Int32Array(back.length)
  for (let i = 0, k = 0; i < ids.length; i++) ids[i] = back[i] ? ids[i - back[i]] : first[k++]
  return ids
}
