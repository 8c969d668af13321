/** The allocator's memory after an event: segments, the blocks in them, and what each part is. */

import type { Device } from "./device"
import { livesOf } from "./lives"
import { firstPlace } from "./places"

/** The state of a stretch of a segment. Slack is a part of blocks that are allocated or awaiting free. */
export const ALLOCATED = 0
export const PENDING = 1
export const INACTIVE = 2

/** Bytes of one segment, or of several. `allocated + pending + inactive = reserved`; slack is in the first two. */
export type Use = typeof NOTHING

const NOTHING = {
  segments: 0,
  reserved: 0,
  allocated: 0,
  /** Freed, but another stream may still use it. */
  pending: 0,
  /** The requested bytes of `pending`. */
  pendingRequested: 0,
  slack: 0,
  inactive: 0,
  /** The inactive bytes of segments that hold a live block. */
  fragmentation: 0,
  /** The largest free stretch: a larger request needs more memory from the driver. */
  largestFree: 0,
  /** Live allocations. */
  count: 0,
}

/** Segments that serve the same requests: of one pool, stream and kind. */
export interface Group {
  /** Index in the device's pools, or -1 if not known. */
  pool: number
  /** Place in the device's streams. */
  stream: number
  /** 0 small, 1 large, -1 not known. */
  kind: number
  use: Use
  /** Places in the layout's segments, by address. */
  members: number[]
}

/** All segments after one event, in address order, with their blocks and gaps one after the other. */
export type Layout = ReturnType<typeof layOut>

/** Lays out segments and blocks after an event. */
export function layOut(device: Device, event: number) {
  const { segments } = device
  const rows = segmentsAt(device, event)
  const live = byAddress(device, event)
  const first = new Int32Array(rows.length + 1)
  // Each block may be followed by a gap, and each segment may begin with one.
  const most = 2 * live.length + rows.length
  const [offset, size] = [new Float64Array(most), new Float64Array(most)]
  const allocation = new Int32Array(most)
  const state = new Uint8Array(most)
  const uses: Use[] = []
  let [at, next, outside] = [0, 0, 0]
  const add = (from: number, to: number, of: number, what: number) => {
    if (to <= from) return
    offset[at] = from
    size[at] = to - from
    allocation[at] = of
    state[at++] = what
  }
  for (let k = 0; k < rows.length; k++) {
    const low = segments.address[rows[k]]
    const bytes = segments.size[rows[k]]
    const use: Use = { ...NOTHING, segments: 1, reserved: bytes }
    let free = 0 // where the last block ended
    first[k] = at
    const gap = (to: number) => {
      add(free, to, -1, INACTIVE)
      use.largestFree = Math.max(use.largestFree, to - free)
    }
    for (; next < live.length; next++) {
      const id = live[next]
      const from = device.addrValues[device.addr[id]] - low
      if (from >= bytes) break
      if (from < 0) {
        outside++
        continue
      }
      const pending = device.freeRequestedEvent[id] <= event
      use[pending ? "pending" : "allocated"] += device.block[id]
      if (pending) use.pendingRequested += device.requested[id]
      use.slack += device.block[id] - device.requested[id]
      use.count++
      gap(from)
      const end = Math.min(from + device.block[id], bytes)
      add(Math.max(from, free), end, id, pending ? PENDING : ALLOCATED)
      free = Math.max(free, end)
    }
    gap(bytes)
    use.inactive = bytes - use.allocated - use.pending
    use.fragmentation = use.allocated + use.pending > 0 ? use.inactive : 0
    uses.push(use)
  }
  first[rows.length] = at
  outside += live.length - next
  return {
    event,
    /** Rows of `device.segments`. */
    rows,
    uses,
    /** Blocks of segment k: [first[k], first[k + 1]). */
    first,
    /** Live allocations in no known segment: their segment events are missing. */
    outside,
    total: sum(uses),
    groups: groupsOf(device, rows, uses),
    /** Bytes from the segment's start. */
    offset: offset.slice(0, at),
    size: size.slice(0, at),
    /** The allocation in it, or -1 in a gap. */
    allocation: allocation.slice(0, at),
    state: state.slice(0, at),
  }
}

/** Rows of the segments after an event, in address order. */
export function segmentsAt({ segments }: Device, event: number): Int32Array {
  const rows: number[] = []
  for (let row = 0; row < segments.count && segments.start[row] <= event; row++) if (event < segments.end[row]) rows.push(row)
  return Int32Array.from(rows).sort((a, b) => segments.address[a] - segments.address[b])
}

/** The place of the segment that holds an address, or -1. */
export function segmentAround({ segments }: Device, { rows }: Layout, address: number): number {
  const k = firstPlace(0, rows.length, (place) => segments.address[rows[place]] > address) - 1
  return k >= 0 && address < segments.address[rows[k]] + segments.size[rows[k]] ? k : -1
}

/** The block that holds an allocation, or -1 where it is in no known segment. */
export function blockOf(device: Device, layout: Layout, id: number): number {
  const k = segmentAround(device, layout, device.addrValues[device.addr[id]])
  for (let b = k < 0 ? 0 : layout.first[k]; k >= 0 && b < layout.first[k + 1]; b++) if (layout.allocation[b] === id) return b
  return -1
}

/** The segment of a block. */
export function segmentOfBlock({ first }: Layout, block: number): number {
  return firstPlace(0, first.length - 1, (segment) => first[segment + 1] > block)
}

/** Allocations live after an event, until their free is completed, by address. */
function byAddress(device: Device, event: number): Int32Array {
  const { addr, count } = device
  // Address ids are in address order. Sorting one number each is native; a comparison function takes ten times as long.
  const keys = Float64Array.from(livesOf(device).at(event), (i) => addr[i] * count + i)
  return Int32Array.from(keys.sort(), (key) => key % count)
}

function groupsOf(device: Device, rows: Int32Array, uses: Use[]): Group[] {
  const { pool, stream, kind } = device.segments
  const found = new Map<string, Group>()
  rows.forEach((row, k) => {
    const key = `${pool[row]} ${stream[row]} ${kind[row]}`
    let group = found.get(key)
    if (!group) found.set(key, (group = { pool: pool[row], stream: stream[row], kind: kind[row], use: NOTHING, members: [] }))
    group.members.push(k)
  })
  const groups = [...found.values()]
  for (const group of groups) group.use = sum(group.members.map((k) => uses[k]))
  return groups.sort((a, b) => rank(device, a.pool) - rank(device, b.pool) || a.stream - b.stream || b.kind - a.kind)
}

/** Orders the default pool before private ones, and these before unknown pools. */
function rank(device: Device, pool: number): number {
  return pool < 0 ? device.pools.length + 1 : isPrivate(device, pool) ? pool + 1 : 0
}

/** Whether a pool is of a CUDA graph or a `MemPool`; that of id 0,0 serves everyone. */
export function isPrivate({ pools }: Device, pool: number): boolean {
  return pool >= 0 && pools[pool] !== "0,0"
}

/** The sum of several uses; `largestFree` is the maximum. */
export function sum(uses: Use[]): Use {
  const total = { ...NOTHING }
  for (const use of uses) {
    for (const name of Object.keys(total) as (keyof Use)[]) total[name] += name === "largestFree" ? 0 : use[name]
    total.largestFree = Math.max(total.largestFree, use.largestFree)
  }
  return total
}

/** What to call a pool. */
export function poolText(device: Device, pool: number): string {
  if (pool < 0) return "pool not recorded"
  return isPrivate(device, pool) ? `private pool ${device.pools[pool]}` : "default pool"
}

export function streamText(device: Device, stream: number): string {
  const value = device.streamValues[stream]
  return value === 0 ? "default stream" : `stream 0x${value.toString(16)}`
}

export function kindText(kind: number): string {
  return kind < 0 ? "kind not known" : kind ? "large" : "small"
}

// Segments that cannot go back to the driver because of one or two small live blocks, as in `figures/segments.py`: a plain
// segment goes back only as a whole, an expandable one page by page.

const FEW = 2
const SMALL_PART = 0.125
const SMALL_PAGE = 2 ** 21

export interface Kept {
  /** Place in the layout's segments. */
  segment: number
  /** Bytes from the segment's start: all of it, or a page of an expandable one. */
  offset: number
  size: number
  /** Bytes that are free in it. */
  kept: number
  /** Blocks of the layout, by address. */
  blocks: number[]
}

/** Segments kept by at most two small blocks, most kept bytes first; private pools are left out, as they return nothing. */
export function keptSegments(device: Device, layout: Layout): Kept[] {
  const { segments } = device
  const found: Kept[] = []
  layout.rows.forEach((row, segment) => {
    if (isPrivate(device, segments.pool[row])) return
    const { reserved } = layout.uses[segment]
    const page = segments.expandable[row] ? (segments.kind[row] === 0 ? SMALL_PAGE : device.largePage) : reserved
    let block = layout.first[segment]
    for (let offset = 0; offset < reserved; offset += page) {
      const end = Math.min(offset + page, reserved)
      let [used, held] = [0, 0]
      const blocks: number[] = []
      for (; block < layout.first[segment + 1] && layout.offset[block] < end; block++) {
        if (layout.state[block] !== INACTIVE) {
          held += layout.size[block]
          used += Math.min(layout.offset[block] + layout.size[block], end) - Math.max(layout.offset[block], offset)
          blocks.push(block)
        }
        if (layout.offset[block] + layout.size[block] > end) break // it continues in the next page
      }
      const size = end - offset
      if (blocks.length && blocks.length <= FEW && held <= SMALL_PART * size)
        found.push({ segment, offset, size, kept: size - used, blocks })
    }
  })
  return found.sort((a, b) => b.kept - a.kept || a.segment - b.segment || a.offset - b.offset)
}
