/** Every trace event, of allocations and others, in event order. */

import type { Device, Stacks } from "../data/device"
import { frameText } from "../data/frames"

/** Kinds of events; from OTHER on, `kind - OTHER` is a place in the device's actions. */
export const UNKNOWN = 0
export const ALLOC = 1
export const FREE_REQUESTED = 2
export const FREE_COMPLETED = 3
/** One event that was both requested and completed: the recording has only one kind of free. */
export const FREE = 4
export const OTHER = 5

/** The actions of allocations, by kind. */
export const NAMES = ["unknown", "alloc", "free_requested", "free_completed", "free"]

/** What happened at each event, in columns. */
export class EventTable {
  /** One per event. */
  readonly kind: Uint8Array
  /** The allocation, or the index among the other events; -1 if not known. */
  readonly ref: Int32Array
  /** How often each kind occurs. */
  readonly counts: number[]

  constructor(
    readonly device: Device,
    private readonly stacks: Stacks,
  ) {
    const { events } = device
    this.kind = new Uint8Array(events)
    this.ref = new Int32Array(events).fill(-1)
    const { kind, ref } = this
    const put = (event: number, what: number, of: number) => {
      if (event < 0 || event >= events) return
      kind[event] = what
      ref[event] = of
    }
    // An allocation whose free was lost ends at another event, which is set afterwards.
    for (let i = 0; i < device.count; i++) {
      const requested = device.freeRequestedEvent[i]
      const completed = device.freeEvent[i]
      put(requested, FREE_REQUESTED, i)
      put(completed, requested === completed ? FREE : FREE_COMPLETED, i)
    }
    for (let i = 0; i < device.count; i++) put(device.allocEvent[i], ALLOC, i)
    device.eventIndex.forEach((event, k) => put(event, OTHER + device.eventAction[k], k))
    this.counts = Array.from({ length: OTHER + device.actions.length }, () => 0)
    for (let event = 0; event < events; event++) this.counts[kind[event]]++
    if (device.rest) this.counts[UNKNOWN] = 0 // known, but not here
  }

  nameOf(kind: number): string {
    if (kind === UNKNOWN && this.device.rest) return "an event that is not drawn"
    return kind < OTHER ? NAMES[kind] : this.device.actions[kind - OTHER]
  }

  actionOf(event: number): string {
    return this.nameOf(this.kind[event])
  }

  /** The allocation that the event is about, or -1. */
  allocationOf(event: number): number {
    return this.kind[event] < OTHER ? this.ref[event] : -1
  }

  /** The event's bytes; for allocations, requested ones. */
  sizeOf(event: number): number {
    const ref = this.ref[event]
    if (ref < 0) return 0
    return this.kind[event] < OTHER ? this.device.requested[ref] : this.device.eventSize[ref]
  }

  /** Null if the event has none: a failed request has the device's free bytes instead. */
  addressOf(event: number): number | null {
    const ref = this.ref[event]
    if (ref < 0) return null
    if (this.kind[event] < OTHER) return this.device.addrValues[this.device.addr[ref]]
    const action = this.actionOf(event)
    return action === "oom" || action === "snapshot" ? null : this.device.eventAddr[ref]
  }

  /** Null if not known. */
  streamOf(event: number): number | null {
    const ref = this.ref[event]
    if (ref < 0) return null
    const { stream, eventStream, streamValues } = this.device
    return streamValues[this.kind[event] < OTHER ? stream[ref] : eventStream[ref]]
  }

  /** The event's own call stack, or -1. */
  stackOf(event: number): number {
    const ref = this.ref[event]
    if (ref < 0) return -1
    const kind = this.kind[event]
    return (kind >= OTHER ? this.device.eventStack : kind === ALLOC ? this.device.stack : this.device.freeStack)[ref]
  }

  /** The stack that names the event: its own, or that of the allocation it frees. */
  tellingStack(event: number): number {
    const own = this.stackOf(event)
    const allocation = this.allocationOf(event)
    const some = own >= 0 && this.stacks.stackSite[own] >= 0
    return some || allocation < 0 ? own : this.device.stack[allocation]
  }

  /** The events that match a filter, in order. `hidden`: 1 for each allocation whose events are left out. */
  select(filter: EventFilter, hidden: Uint8Array | null = null): Int32Array {
    const { kind, ref } = this
    const { rest } = this.device
    if (!rest && !hidden && !filter.actions.size && !filter.sizes.length && !filter.addresses.length && !filter.texts.length)
      return everyEvent(kind.length)
    const passes = this.passing(filter, hidden)
    /** For each kind: what matches, by `ref`; null if none does. */
    const ofKind = this.counts.map((_, k) => {
      if (filter.actions.size && !filter.actions.has(this.nameOf(k))) return null
      return k === UNKNOWN ? null : k === ALLOC ? passes.born : k < OTHER ? passes.freed : passes.other
    })
    const unknown = !rest && passes.all && (!filter.actions.size || filter.actions.has(NAMES[UNKNOWN]))
    const first = Math.max(rest?.window?.[0] ?? 0, 0)
    const end = Math.min((rest?.window?.[1] ?? kind.length) + 1, kind.length)
    // Counted first, so that no second copy of a long recording's events is needed.
    let count = 0
    for (let event = first; event < end; event++) {
      const rows = ofKind[kind[event]]
      if (rows ? rows[ref[event]] : unknown && kind[event] === UNKNOWN) count++
    }
    const found = new Int32Array(count)
    for (let event = first, k = 0; k < count; event++) {
      const rows = ofKind[kind[event]]
      if (rows ? rows[ref[event]] : unknown && kind[event] === UNKNOWN) found[k++] = event
    }
    return found
  }

  /** 1 for each allocation whose birth, or whose frees, match a filter apart from its actions; and for other events. */
  private passing(
    { sizes, addresses, texts }: EventFilter,
    hidden: Uint8Array | null,
  ): { all: boolean; born: Uint8Array; freed: Uint8Array; other: Uint8Array } {
    const { device, stacks } = this
    const { addr, addrValues, stack, freeStack, requested, eventSize, eventAddr, eventStack, eventAction } = device
    const least = Math.max(0, ...sizes.map(([from]) => from))
    const most = Math.min(Infinity, ...sizes.map(([, to]) => to))
    const matches = texts.length ? matchingStacks(stacks, texts) : null
    const matchesStack = (own: number, other: number) => {
      const telling = own >= 0 && stacks.stackSite[own] >= 0 ? own : other
      return telling >= 0 && matches![telling] === 1
    }
    const fits = (size: number) => least <= size && size <= most
    const born = new Uint8Array(device.count)
    const freed = new Uint8Array(device.count)
    for (let i = 0; i < born.length; i++) {
      if (hidden?.[i] || !fits(requested[i]) || (addresses.length && !touches(addrValues[addr[i]], requested[i], addresses))) continue
      born[i] = Number(!matches || matchesStack(stack[i], stack[i]))
      freed[i] = Number(!matches || matchesStack(freeStack[i], stack[i]))
    }
    // A failed request has the device's free bytes in place of an address.
    const placed = device.actions.map((action) => action !== "oom" && action !== "snapshot")
    const other = Uint8Array.from(eventSize, (size, k) =>
      Number(
        fits(size) &&
          (!addresses.length || (placed[eventAction[k]] && touches(eventAddr[k], size, addresses))) &&
          (!matches || matchesStack(eventStack[k], eventStack[k])),
      ),
    )
    return { all: fits(0) && !addresses.length && !matches, born, freed, other }
  }
}

/** Whether an address, in hexadecimal, begins with another, so that one can search while typing. */
function beginsWith(address: number, digits: number): boolean {
  let rest = address
  while (rest > digits) rest = Math.floor(rest / 16)
  return rest === digits && digits > 0
}

function everyEvent(events: number): Int32Array {
  const all = new Int32Array(events)
  for (let event = 0; event < events; event++) all[event] = event
  return all
}

/** Whether the memory from an address on holds all of some addresses. */
function touches(low: number, size: number, addresses: number[]): boolean {
  return addresses.every((address) => (low <= address && address < low + Math.max(size, 1)) || beginsWith(low, address))
}

/** 1 for each stack that holds all of some texts, in any frames. */
function matchingStacks(stacks: Stacks, texts: string[]): Uint8Array {
  const each = texts.map((text) => stacksWith(stacks, text))
  return each[0].map((_, stack) => Number(each.every((matches) => matches[stack])))
}

/** For each stack, whether a frame's function or file holds a text. */
function stacksWith(stacks: Stacks, text: string): Uint8Array {
  const wanted = text.toLowerCase()
  const strings = stacks.strings.map((string) => string.toLowerCase().includes(wanted))
  const frames = Uint8Array.from(stacks.frameName, (name, frame) =>
    Number(strings[name] || strings[stacks.frameFile[frame]] || frameText(stacks, frame).place.toLowerCase().includes(wanted)),
  )
  const nodes = new Uint8Array(stacks.nodeFrame.length)
  for (let node = 0; node < nodes.length; node++) {
    const parent = stacks.nodeParent[node] // a smaller id
    nodes[node] = frames[stacks.nodeFrame[node]] | (parent < 0 ? 0 : nodes[parent])
  }
  return Uint8Array.from(stacks.stackNode, (node) => (node < 0 ? 0 : nodes[node]))
}

/** A search: an event has to match any of the actions, and everything else. */
export interface EventFilter {
  actions: Set<string>
  /** Least and most bytes, both included. */
  sizes: [least: number, most: number][]
  /** The event's memory holds these. */
  addresses: number[]
  texts: string[]
}

const UNITS: Record<string, number> = { "": 1, b: 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 }
const SIZE = String.raw`(\d+(?:\.\d+)?)(b|[kmgt](?:i?b)?)?`
const BOUND = new RegExp(`^(>=|<=|>|<|=)?${SIZE}$`, "i")
const RANGE = new RegExp(`^${SIZE}(?:\\.\\.|-)${SIZE}$`, "i")

/** The most texts of a search: nobody types more, but a link may hold more. */
const MOST_TEXTS = 20

/** Parses a search: actions, sizes (`1MiB`, `>=512k`, `1M..4M`), addresses (`0x7f..`), and text; quotes make anything text. */
export function parseFilter(search: string, actions: readonly string[]): EventFilter {
  const filter: EventFilter = { actions: new Set(), sizes: [], addresses: [], texts: [] }
  for (const [, quoted, word] of search.matchAll(/"([^"]*)"?|(\S+)/g)) {
    const sizes = word ? parseSizes(word) : null
    if (!word) {
      if (quoted) filter.texts.push(quoted)
    } else if (actions.includes(word)) filter.actions.add(word)
    else if (sizes) filter.sizes.push(sizes)
    else if (/^0x[0-9a-f]+$/i.test(word)) filter.addresses.push(parseInt(word, 16))
    else filter.texts.push(word)
  }
  filter.texts.length = Math.min(filter.texts.length, MOST_TEXTS)
  return filter
}

/** Least and most bytes of one word, or null: a bare number is text, as it may be a line number. */
function parseSizes(word: string): [number, number] | null {
  const bound = BOUND.exec(word)
  if (bound) {
    const [, sign, count, unit] = bound
    if (!sign && !unit) return null
    const bytes = inBytes(count, unit)
    const bounds: Record<string, [number, number]> = {
      ">=": [bytes, Infinity],
      "<=": [0, bytes],
      ">": [bytes + 1, Infinity],
      "<": [0, bytes - 1],
    }
    return bounds[sign] ?? [bytes, bytes]
  }
  const range = RANGE.exec(word)
  if (!range || !(range[2] || range[4])) return null
  return [inBytes(range[1], range[2] ?? range[4]), inBytes(range[3], range[4] ?? range[2])]
}

/** Units count by 1024, with or without their `iB`. */
function inBytes(count: string, unit = ""): number {
  return Math.round(Number(count) * UNITS[unit.toLowerCase().replace(/i?b$/, "")])
}
