/** Allocations grouped by what the timeline colours them by. */

import type { Ints } from "../data/curves"
import type { Device } from "../data/device"
import { formatAddress, formatCount, UNITS } from "../text/format"
import type { History } from "../data/history"
import { type Amounts, amountsLive } from "../data/questions"
import { NOT_DRAWN } from "../data/rest"
import { poolText } from "../data/segments"
import { commonName, stageAtEvents } from "./stage_groups"

/** A colouring that every page offers. */
type Fixed = "site" | "role" | "category" | "stage" | "size" | "age" | "stream" | "pool" | "context" | "forward" | "metadata"
/** Also layers, where forward lines were noted, and one for each key of the metadata. */
export type Colouring = Fixed | "layer" | `metadata:${string}`

/** The key of a second group for what belongs nowhere. */
export const APART = "apart"

/** One colour of the timeline. */
export interface Group {
  /** The same in every report: colours are chosen by it. */
  key: string
  label: string
  /** A file and line, or a remark; may be empty. */
  detail: string
  /** The full name, where the label is short. */
  full: string
  /** Whether it holds what is not known or belongs nowhere. */
  rest: boolean
  /** Block bytes and allocations live at the allocated peak. */
  bytes: number
  count: number
}

/** Every group, and the row of each allocation. */
export interface Grouping {
  readonly colouring: Colouring
  readonly groups: readonly Group[]
  readonly ofAllocation: Int32Array
  /** Whether groups have an order of their own, as sizes do; else the most bytes at the peak come first. */
  readonly ordered: boolean
}

/** The colourings that every page offers: the name of each, what its groups are, and why there may be only one. */
export const COLOURINGS: readonly [Fixed, title: string, groups: string, whyPlain?: string][] = [
  ["site", "Call site", "call sites"],
  ["role", "Role", "roles", "All allocations have one role"],
  ["stage", "Stage", "stages", "No stages were recorded"],
  ["size", "Size", "sizes"],
  ["age", "Lifetime", "lifetimes"],
  ["category", "Category", "categories", "All allocations are of one category"],
  ["stream", "Stream", "streams", "One stream made all allocations"],
  ["pool", "Memory pool", "pools", "All allocations came from one pool"],
  ["context", "Compiled graph", "graphs", "No compiled graphs were recorded"],
  ["forward", "Forward line", "lines", "PyTorch notes the forward line behind a gradient only in anomaly mode"],
  ["metadata", "Metadata", "values", "No metadata was recorded"],
]

const offered = (colouring: Colouring) => COLOURINGS.find(([name]) => name === colouring)

/** Names the groups of a colouring. */
export const pluralOf = (colouring: Colouring): string => offered(colouring)?.[2] ?? (colouring === "layer" ? "lines" : "values")

/** The colourings of a device, with their names. */
export function colouringsOf({ labels }: Device): [Colouring, string][] {
  const keys = Object.keys(labels).filter((name): name is `metadata:${string}` => name.startsWith("metadata:"))
  const layer: [Colouring, string][] = labels["layer"] ? [["layer", "Layer, with its gradients"]] : []
  return [
    ...COLOURINGS.map(([name, title]): [Colouring, string] => [name, title]),
    ...layer,
    ...keys.map((key): [Colouring, string] => [key, `Metadata: ${key.slice("metadata:".length)}`]),
  ]
}

/** Groups without their amounts, and a function from allocation to row. */
interface Sorted {
  groups: Omit<Group, "bytes" | "count">[]
  ofAllocation: Int32Array
  ordered?: boolean
}

const known = new WeakMap<History, Map<string, Grouping>>()

/** Groups all allocations of a device, once for each colouring; one that does not exist counts as `site`. */
export function groupBy(history: History, colouring: string): Grouping {
  const made = known.get(history) ?? new Map<string, Grouping>()
  known.set(history, made)
  const [name] = colouringsOf(history.device).find(([each]) => each === colouring) ?? COLOURINGS[0]
  let grouping = made.get(name)
  if (!grouping) made.set(name, (grouping = together.get(history)?.(name) ?? group(history, name)))
  return grouping
}

const together = new WeakMap<History, (colouring: Colouring) => Grouping>()
/** The recordings that are grouped together. */
const compared = new WeakMap<History, History[]>()

/** From now on groups two recordings, and both as one, together: a group has the same row, and so the same colour, in all three. */
export function groupTogether(base: History, later: History, both: History): void {
  for (const each of [base, later, both]) compared.set(each, [base, later])
  const made = new Map<Colouring, Grouping>()
  const grouped = (colouring: Colouring) => made.get(colouring) ?? made.set(colouring, merged([base, later], colouring)).get(colouring)!
  const part = (from: number, to: number) => (colouring: Colouring) => {
    const all = grouped(colouring)
    return { ...all, ofAllocation: all.ofAllocation.subarray(from, to) }
  }
  together.set(both, grouped)
  together.set(base, part(0, base.device.count))
  together.set(later, part(base.device.count, both.device.count))
}

/** Groups some recordings one after the other; groups with the same key are one. */
function merged(histories: History[], colouring: Colouring): Grouping {
  const sides = histories.map((history) => group(history, colouring))
  const keyOf = ({ key, full }: Group) => (colouring === "site" ? `${key}\n${full}` : key)
  const found = new Map<string, Group>()
  for (const each of sides.flatMap(({ groups }) => groups)) {
    const before = found.get(keyOf(each))
    found.set(keyOf(each), before ? { ...before, bytes: before.bytes + each.bytes, count: before.count + each.count } : each)
  }
  const { ordered } = sides[0]
  const order = [...found].sort(([, a], [, b]) => (ordered ? rankOf(a) - rankOf(b) : b.bytes - a.bytes))
  const rows = new Map(order.map(([key], row) => [key, row]))
  const ofAllocation = new Int32Array(sides.reduce((sum, each) => sum + each.ofAllocation.length, 0))
  let at = 0
  for (const side of sides) {
    const row = side.groups.map((each) => rows.get(keyOf(each))!)
    for (const own of side.ofAllocation) ofAllocation[at++] = row[own]
  }
  return { colouring, groups: order.map(([, each]) => each), ofAllocation, ordered }
}

function group(history: History, colouring: Colouring): Grouping {
  if (colouring === "site") return bySite(history)
  const { device } = history
  const sorted = isFixed(colouring) ? SORTERS[colouring](history) : byLabel(history, colouring, "none")
  const { groups, ofAllocation, ordered = false } = apart(device, sorted)
  const { bytes, count } = amountsLive(device, "allocated", history.peakEvent.allocated, ofAllocation, groups.length)
  const rows = groups.map((group, row) => ({ ...group, bytes: bytes[row], count: count[row] }))
  if (ordered) return { colouring, groups: rows, ofAllocation, ordered }
  const order = rows
    .map((_, row) => row)
    .sort((a, b) => rows[b].bytes - rows[a].bytes || rows[b].count - rows[a].count || Number(rows[a].rest) - Number(rows[b].rest) || a - b)
  const rank = new Int32Array(rows.length)
  order.forEach((row, place) => (rank[row] = place))
  for (let i = 0; i < ofAllocation.length; i++) ofAllocation[i] = rank[ofAllocation[i]]
  return { colouring, groups: order.map((row) => rows[row]), ofAllocation, ordered }
}

const isFixed = (colouring: Colouring): colouring is Fixed => colouring !== "layer" && !colouring.startsWith("metadata:")

/** Moves what is not drawn one by one into a group of its own, the first one. */
function apart({ rest: left }: Device, sorted: Sorted): Sorted {
  if (!left) return sorted
  const { groups, ofAllocation } = sorted
  const used = new Uint8Array(groups.length)
  for (let i = 0; i < left.row; i++) used[ofAllocation[i]] = 1
  const kept = groups.flatMap((_, row) => (used[row] ? [row] : []))
  const place = new Int32Array(groups.length)
  kept.forEach((row, k) => (place[row] = k + 1))
  return {
    ...sorted,
    groups: [rest(NOT_DRAWN, NOT_DRAWN), ...kept.map((row) => groups[row])],
    ofAllocation: ofAllocation.map((row, i) => (i === left.row ? 0 : place[row])),
  }
}

/** The rows of groups that are left out, by colouring: what one of them leaves out does not count. */
export type Filters = ReadonlyMap<string, ReadonlySet<number>>

export const NO_FILTERS: Filters = new Map()

/** The filters with other rows left out of one colouring; none, or all of them, removes its filter. */
export function withFilter(history: History, filters: Filters, colouring: string, out: Iterable<number>): Filters {
  const next = new Map(filters)
  const rows = new Set(out)
  next.delete(colouring)
  if (rows.size && rows.size < groupBy(history, colouring).groups.length) next.set(colouring, rows)
  return next
}

/** The filters with one group as the only one that a colouring keeps. */
export function keepOnly(history: History, filters: Filters, colouring: string, row: number): Filters {
  const others = [...groupBy(history, colouring).groups.keys()].filter((each) => each !== row)
  return withFilter(history, filters, colouring, others)
}

/** Adds a group to those that one colouring keeps, or takes it away again; while there is no filter, it is the only one kept. */
export function toggleKept(history: History, filters: Filters, colouring: string, row: number): Filters {
  const out = filters.get(colouring)
  if (!out) return keepOnly(history, filters, colouring, row)
  return withFilter(history, filters, colouring, out.has(row) ? [...out].filter((each) => each !== row) : [...out, row])
}

/** 1 for each allocation that is left out; null if there are none. */
export function hiddenRows(history: History, filters: Filters): Uint8Array | null {
  let hidden: Uint8Array | null = null
  for (const [colouring, rows] of filters) {
    const { groups, ofAllocation } = groupBy(history, colouring)
    const out = new Uint8Array(groups.length)
    for (const row of rows) if (row in groups) out[row] = 1
    if (!out.includes(1)) continue
    hidden ??= new Uint8Array(ofAllocation.length)
    for (let i = 0; i < hidden.length; i++) hidden[i] |= out[ofAllocation[i]]
  }
  return hidden
}

/** What one filter keeps, or leaves out: the shorter list. */
export function filterWords({ groups }: Grouping, out: ReadonlySet<number>): { keeps: boolean; names: string[] } {
  const kept = [...groups.keys()].filter((row) => !out.has(row))
  const keeps = kept.length > 0 && kept.length <= out.size
  return { keeps, names: (keeps ? kept : [...out]).map((row) => [groups[row].label, groups[row].detail].filter(Boolean).join(" ")) }
}

const MOST_NAMED = 3

/** All filters in few words: `role is activation, not call site forward model.py:3`; "" where there are none. */
export function filterText(history: History, filters: Filters): string {
  return [...filters]
    .map(([colouring, out]) => {
      const { keeps, names } = filterWords(groupBy(history, colouring), out)
      const few = names.length <= MOST_NAMED ? names.join(" or ") : `${formatCount(names.length)} ${pluralOf(colouring as Colouring)}`
      return `${colouringName(history.device, colouring).toLowerCase()} is ${keeps ? "" : "not "}${few}`
    })
    .join(", ")
}

/** The name of a colouring, as its choice says it. */
export function colouringName(device: Device, colouring: string): string {
  return colouringsOf(device).find(([name]) => name === colouring)?.[1] ?? colouring
}

/** The rows with something in an answer: ordered groups from the last to the first, else the largest amount or change first. */
export function rowsAt({ groups, ordered }: Grouping, { bytes, moved }: Amounts): number[] {
  const rows = groups.map((_, row) => row).filter((row) => moved[row] > 0)
  return ordered ? rows.reverse() : rows.sort((a, b) => Math.abs(bytes[b]) - Math.abs(bytes[a]) || moved[b] - moved[a] || a - b)
}

/** Why a colouring would show only one colour, here and in what is compared with this; "" if it shows more. */
export function whyPlain(history: History, colouring: Colouring): string {
  const plain = ({ device }: History) =>
    colouring === "stage"
      ? !device.summary.stages.length
      : colouring === "role"
        ? device.roles.every(([role]) => role === device.roles[0][0])
        : device.oneColour.includes(colouring)
  return (compared.get(history) ?? [history]).every(plain) ? offered(colouring)![3]! : ""
}

function bySite({ sites }: History): Grouping {
  const groups = sites.rows.map((site) => ({
    key: site.name === NOT_DRAWN && site.frame < 0 ? NOT_DRAWN : `${site.name} ${site.place}`,
    label: site.name,
    detail: site.place,
    full: site.path ? `${site.fullName}\n${site.path}` : site.fullName,
    rest: site.frame < 0,
    bytes: site.bytes,
    count: site.count,
  }))
  return { colouring: "site", groups, ofAllocation: sites.ofAllocation, ordered: false }
}

const plain = (key: string, label: string, detail = "", full = label) => ({ key, label, detail, full, rest: false })
const rest = (key: string, label: string, detail = "") => ({ key, label, detail, full: label, rest: true })

const SORTERS: Record<Exclude<Fixed, "site">, (history: History) => Sorted> = {
  role: byRole,
  category: ({ device, stacks }) =>
    byId(
      device.category,
      (id) => {
        const name = stacks.strings[id]
        const rule = device.categoryRules[name] ?? ""
        return { ...plain(`category ${name}`, name, "", rule ? `${name}\n${rule}` : name), rest: /^unknown\b/.test(name) }
      },
      rest("", "no category"),
    ),
  context: ({ device, stacks }) =>
    byId(device.compileContext, (id) => plain(`context ${stacks.strings[id]}`, stacks.strings[id]), rest("", "not compiled")),
  pool: ({ device }) => byId(device.pool, (id) => plain(`pool ${device.pools[id]}`, poolText(device, id)), rest("", "pool not known")),
  stream: ({ device }) =>
    byId(
      device.stream,
      (id) => {
        const stream = device.streamValues[id]
        return stream === 0 ? plain("stream 0", "stream 0", "default") : plain(`stream ${stream}`, formatAddress(stream))
      },
      rest("", "stream not known"),
    ),
  stage: byStage,
  size: bySize,
  age: byAge,
  forward: (history) => byLabel(history, "forward", "no forward line"),
  metadata: ({ device, stacks }) =>
    byId(device.metadata, (id) => plain(`metadata ${stacks.strings[id]}`, stacks.strings[id]), rest("", "none")),
}

/** Groups by a text that some allocations have. */
function byLabel({ device, stacks }: History, name: string, none: string): Sorted {
  const ids = device.labels[name] ?? new Int32Array(device.count).fill(-1)
  return byId(ids, (id) => plain(`${name} ${stacks.strings[id]}`, stacks.strings[id]), rest("", none))
}

/** One group for each id, in the order of ids; -1 stands for the rest. */
function byId(ids: Ints, group: (id: number) => Sorted["groups"][0], none: Sorted["groups"][0]): Sorted {
  const { values, ofAllocation } = distinct(ids)
  return { groups: values.map((id) => (id < 0 ? none : group(id))), ofAllocation }
}

/** Groups by what allocations are for; the evidence may differ within a group. */
function byRole({ device }: History): Sorted {
  const names = [...new Set(device.roles.map(([role]) => role))]
  const rowOf = device.roles.map(([role]) => names.indexOf(role))
  const groups = names.map((role, row) => {
    const known = device.roles.filter((_, place) => rowOf[place] === row).map(([, evidence]) => evidence)
    return { ...plain(role, role, "", [role, device.roleMeanings[role], ...known].join("\n")), rest: role === "unknown" }
  })
  return { groups, ofAllocation: Int32Array.from(device.role).map((place) => rowOf[place]) }
}

/** Groups by the innermost stage that an allocation was made in; repeated stages are one group. */
function byStage({ device }: History): Sorted {
  const { stages } = device.summary
  const at = stageAtEvents(stages, device.events)
  const names = [...new Set(stages.map(({ name }) => commonName(name)))]
  const [OUTSIDE, BEFORE] = [names.length, names.length + 1]
  const places = new Map(names.map((name, id) => [name, id]))
  const idOf = stages.map(({ name }) => places.get(commonName(name))!)
  const ids = new Int32Array(device.count)
  for (let i = 0; i < ids.length; i++) {
    const event = device.allocEvent[i]
    ids[i] = event < 0 ? BEFORE : at[event] < 0 ? OUTSIDE : idOf[at[event]]
  }
  const none = rest("", "before recording")
  return byId(
    ids,
    (id) => (id === BEFORE ? none : id === OUTSIDE ? rest(APART, "outside of stages") : plain(`stage ${names[id]}`, names[id])),
    none,
  )
}

/** Powers of two of block bytes: a group holds [2^k, 2^(k+1)). */
function bySize({ device }: History): Sorted {
  const ranks = new Int32Array(device.count)
  for (let i = 0; i < ranks.length; i++) ranks[i] = twoPower(device.block[i])
  return byRank(ranks, (rank) =>
    rank === 0 ? plain("size 0", "0 B") : plain(`size ${rank}`, `${powerText(rank - 1)} to ${powerText(rank)}`),
  )
}

/** 1 for 1, 2 for 2 and 3, 3 for 4 to 7, and so on; 0 for nothing. */
function twoPower(bytes: number): number {
  // clz32 sees 32 bits: for a larger number, count in the bits above those.
  return bytes < 1 ? 0 : bytes < 2 ** 32 ? 32 - Math.clz32(bytes) : 64 - Math.clz32(bytes / 2 ** 32)
}

/** A power of two in bytes: `512 B`, `1 KiB`. */
function powerText(power: number): string {
  return `${2 ** (power % 10)} ${UNITS[Math.floor(power / 10)]}`
}

const [BEFORE, LAST, ALWAYS] = [20, 21, 22]

/** Groups by lifetime in events, in powers of ten; lifetimes cut off by the recording are groups of their own. */
function byAge({ device }: History): Sorted {
  const { allocEvent, freeEvent, events } = device
  const ranks = new Int32Array(allocEvent.length)
  for (let i = 0; i < ranks.length; i++) {
    const lasts = freeEvent[i] >= events
    if (allocEvent[i] < 0) ranks[i] = lasts ? ALWAYS : BEFORE
    else if (lasts) ranks[i] = LAST
    else for (let more = freeEvent[i] - allocEvent[i]; more >= 10; more /= 10) ranks[i]++
  }
  return byRank(ranks, (rank) => {
    if (rank === BEFORE)
      return plain("age before", "from before", "freed during the recording", "live before the recording, freed during it")
    if (rank === LAST)
      return plain("age last", "live at the end", "made during the recording", "made during the recording, live at its end")
    if (rank === ALWAYS) return rest("age always", "live throughout", "the entire recording")
    const [least, most] = [10 ** rank, 10 ** (rank + 1) - 1]
    return plain(`age ${rank}`, `${formatCount(least)} to ${formatCount(most)} events`)
  })
}

/** The rank of a group of sizes or lifetimes, which its key tells. */
function rankOf({ key }: Group): number {
  const name = key.slice(key.indexOf(" ") + 1)
  return { before: BEFORE, last: LAST, always: ALWAYS }[name] ?? Number(name)
}

/** One group for each rank that occurs, in the order of ranks. */
function byRank(ranks: Int32Array, group: (rank: number) => Sorted["groups"][0]): Sorted {
  const { values, ofAllocation } = distinct(ranks)
  return { groups: values.map(group), ofAllocation, ordered: true }
}

/** The distinct values of a column, which are -1 or more, ascending, and for each row the index of its value. */
function distinct(rows: Ints): { values: number[]; ofAllocation: Int32Array } {
  let most = -1
  for (let i = 0; i < rows.length; i++) if (rows[i] > most) most = rows[i]
  const place = new Int32Array(most + 2)
  for (let i = 0; i < rows.length; i++) place[rows[i] + 1] = 1
  const values: number[] = []
  for (let k = 0; k < place.length; k++) if (place[k]) place[k] = values.push(k - 1) - 1
  const ofAllocation = new Int32Array(rows.length)
  for (let i = 0; i < rows.length; i++) ofAllocation[i] = place[rows[i] + 1]
  return { values, ofAllocation }
}
