/** A maker of random allocator histories for tests: segments come and go, runs of memory grow and fall apart. */

import type { Device } from "./data/device"
import { deviceOf, random } from "./testing"

const PAGE = 4096

interface Block {
  id: number
  at: number
  size: number
}

/** A device whose blocks lie in its segments; `missing` is the share of segments that are left out. */
export function randomDevice(seed: number, events: number, missing = 0): Device {
  const next = random(seed)
  const pick = (count: number) => Math.floor(next() * count)
  // Even places are segments of 4 pages; odd ones are ranges of 8 pages that are mapped page by page.
  const places = 6
  const mapped = Array.from({ length: places }, () => new Set<number>())
  const live: Block[] = []
  const birth: number[] = []
  const [asked, freed, size, block, place] = [[], [], [], [], []] as number[][]
  const rows: [number, number, number, number][] = []
  const there = new Map<string, number>() // run -> its first event
  const runs = () => {
    const found: [number, number][] = []
    mapped.forEach((pages, p) => {
      for (let page = 0; page < 8; page++) {
        if (!pages.has(page)) continue
        const from = page
        while (pages.has(page + 1)) page++
        found.push([p * 64 + from, page - from + 1])
      }
    })
    return found
  }
  const note = (event: number) => {
    const now = new Map(runs().map(([page, length]) => [`${page} ${length}`, event]))
    for (const [run, start] of there) {
      if (now.has(run)) now.set(run, start)
      else rows.push([...split(run), start, event])
    }
    there.clear()
    for (const [run, start] of now) there.set(run, start)
  }
  const split = (run: string): [number, number] => [Number(run.split(" ")[0]) * PAGE, Number(run.split(" ")[1]) * PAGE]
  const used = (page: number) => live.some((b) => b.at < (page + 1) * PAGE && b.at + b.size > page * PAGE)
  const change = (p: number) => {
    if (p % 2 === 0) {
      const pages = [0, 1, 2, 3]
      if (!mapped[p].size) pages.forEach((page) => mapped[p].add(page))
      else if (!pages.some((page) => used(p * 64 + page))) mapped[p].clear()
      return
    }
    const page = pick(8)
    if (!mapped[p].has(page)) mapped[p].add(page)
    else if (!used(p * 64 + page)) mapped[p].delete(page)
  }
  const bear = (event: number) => {
    const all = runs()
    if (!all.length) return
    const [page, length] = all[pick(all.length)]
    const bytes = 512 * (1 + pick(24))
    const at = page * PAGE + 512 * pick(8 * length)
    if (at + bytes > (page + length) * PAGE || live.some((b) => b.at < at + bytes && b.at + b.size > at)) return
    live.push({ id: birth.length, at, size: bytes })
    birth.push(event)
    asked.push(events)
    freed.push(events)
    block.push(bytes)
    size.push(bytes - pick(300))
    place.push(at)
  }
  for (let k = 0; k < 8; k++) change(pick(places))
  note(-1)
  for (let k = pick(8); k > 0; k--) bear(-1)
  for (let event = 0; event < events; event++) {
    const roll = next()
    if (roll < 0.2) change(pick(places))
    else if (roll < 0.55) bear(event)
    else if (live.length) {
      const k = pick(live.length)
      const { id } = live[k]
      if (asked[id] === events && next() < 0.7) asked[id] = event
      else {
        asked[id] = Math.min(asked[id], event)
        freed[id] = event
        live.splice(k, 1)
      }
    }
    note(event)
  }
  for (const [run, start] of there) rows.push([...split(run), start, events])
  const kept = rows.filter(() => next() >= missing).sort((a, b) => a[2] - b[2] || a[0] - b[0])
  const ids = [...new Set(place)].sort((a, b) => a - b)
  const strips = { events, birth: Int32Array.from(birth), death: Int32Array.from(asked), height: Float64Array.from(block) }
  const column = (k: number) => kept.map((row) => row[k])
  return {
    ...deviceOf(
      strips,
      birth.map(() => -1),
    ),
    requested: Float64Array.from(size),
    freeEvent: Int32Array.from(freed),
    addr: Int32Array.from(place, (at) => ids.indexOf(at)),
    addrValues: Float64Array.from(ids),
    pools: ["0,0", "0,1"],
    segments: {
      count: kept.length,
      address: Float64Array.from(column(0)),
      size: Float64Array.from(column(1)),
      start: Int32Array.from(column(2)),
      end: Int32Array.from(column(3)),
      stream: new Int32Array(kept.length),
      pool: Int32Array.from(column(0), (at) => (at >= 4 * 64 * PAGE ? 1 : 0)),
      kind: Int32Array.from(column(1), (bytes) => (bytes > 3 * PAGE ? 1 : 0)),
      expandable: new Int32Array(kept.length),
    },
  }
}
