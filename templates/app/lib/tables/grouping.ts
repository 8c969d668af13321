/** Allocations grouped by what the timeline colours them by. */

import type { Ints } from "../data/curves"
import type { Device } from "../data/device"
import { formatAddress, formatCount, UNITS } from "../text/format"
import type { History } from "../data/history"
import { amountsLive } from "../data/lives"
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

const PLURALS: Partial<Record<Colouring, string>> = {
  site: "call sites",
  stage: "stages",
  size: "sizes",
  age: "lifetimes",
  role: "roles",
  category: "categories",
  stream: "streams",
  pool: "pools",
  context: "graphs",
  layer: "lines",
  forward: "lines",
}

/** Names the groups of a colouring. */
export const pluralOf = (colouring: Colouring): string => PLURALS[colouring] ?? "values"

export const COLOURINGS: readonly [Fixed, string][] = [
  ["site", "Call site"],
  ["role", "Role"],
  ["stage", "Stage"],
  ["size", "Size"],
  ["age", "Lifetime"],
  ["category", "Category"],
  ["stream", "Stream"],
  ["pool", "Memory pool"],
  ["context", "Compiled graph"],
  ["forward", "Forward line"],
  ["metadata", "Metadata"],
]

/** The colourings of a device, with their names. */
export function colouringsOf({ labels }: Device): [Colouring, string][] {
  const keys = Object.keys(labels).filter((name): name is `metadata:${string}` => name.startsWith("metadata:"))
  const layer: [Colouring, string][] = labels["layer"] ? [["layer", "Layer, with its gradients"]] : []
  return [...COLOURINGS, ...layer, ...keys.map((key): [Colouring, string] => [key, `Metadata: ${key.slice("metadata:".length)}`])]
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
  if (!grouping) made.set(name, (grouping = group(history, name)))
  return grouping
}

function group(history: History, colouring: Colouring): Grouping {
  if (colouring === "site") return bySite(history)
  const { device } = history
  const {
    groups,
    ofAllocation,
    ordered = false,
  } = apart(device, isFixed(colouring) ? SORTERS[colouring](history) : byLabel(history, colouring, "none"))
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

/** 1 for each allocation of some groups; null if there are none. */
export function hiddenRows({ groups, ofAllocation }: Grouping, filtered: ReadonlySet<number>): Uint8Array | null {
  const out = new Uint8Array(groups.length)
  for (const row of filtered) if (row in groups) out[row] = 1
  return out.includes(1) ? Uint8Array.from(ofAllocation, (row) => out[row]) : null
}

/** What is left out, or the only ones that are not, in few words; "" where nothing is. */
export function filterText({ groups, colouring }: Grouping, filtered: ReadonlySet<number>): string {
  const kept = [...groups.keys()].filter((row) => !filtered.has(row))
  if (!filtered.size) return ""
  const name = (row: number) => [groups[row].label, groups[row].detail].filter(Boolean).join(" ")
  if (!kept.length) return `All ${formatCount(groups.length)} ${pluralOf(colouring)} left out`
  if (kept.length === 1) return `Only ${name(kept[0])}`
  if (kept.length < filtered.size) return `Only ${formatCount(kept.length)} of ${formatCount(groups.length)} ${pluralOf(colouring)}`
  const [gone] = filtered
  return `Without ${filtered.size === 1 ? name(gone) : `${formatCount(filtered.size)} ${pluralOf(colouring)}`}`
}

/** The rows that hold something: ordered groups from the last to the first, else the most bytes first. */
export function rowsAt({ groups, ordered }: Grouping, bytes: Float64Array): number[] {
  const rows = groups.map((_, row) => row).filter((row) => bytes[row] > 0)
  return ordered ? rows.reverse() : rows.sort((a, b) => bytes[b] - bytes[a] || a - b)
}

const WHY_PLAIN: Partial<Record<Colouring, string>> = {
  category: "All allocations are of one category",
  stream: "One stream made all allocations",
  pool: "All allocations came from one pool",
  context: "No compiled graphs were recorded",
  forward: "PyTorch notes the forward line behind a gradient only in anomaly mode",
  metadata: "No metadata was recorded",
}

/** Why a colouring would show only one colour; "" if it shows more. */
export function whyPlain({ device }: History, colouring: Colouring): string {
  if (colouring === "stage") return device.summary.stages.length ? "" : "No stages were recorded"
  if (colouring === "role") return device.roles.every(([role]) => role === device.roles[0][0]) ? "All allocations have one role" : ""
  return device.oneColour.includes(colouring) ? WHY_PLAIN[colouring]! : ""
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
  const rowOf = new Map<string, number>()
  const groups: Sorted["groups"] = []
  const rowNamed = (name: string, make: () => Sorted["groups"][0]) => {
    let row = rowOf.get(name)
    if (row === undefined) {
      rowOf.set(name, (row = groups.length))
      groups.push(make())
    }
    return row
  }
  const ofStage = new Int32Array(stages.length).fill(-1)
  const ofAllocation = new Int32Array(device.count)
  for (let i = 0; i < device.count; i++) {
    const event = device.allocEvent[i]
    const stage = event < 0 ? -1 : at[event]
    if (stage < 0) {
      ofAllocation[i] =
        event < 0 ? rowNamed("<", () => rest("", "before recording")) : rowNamed("-", () => rest(APART, "outside of stages"))
      continue
    }
    if (ofStage[stage] < 0) {
      const name = commonName(stages[stage].name)
      ofStage[stage] = rowNamed(`stage ${name}`, () => plain(`stage ${name}`, name))
    }
    ofAllocation[i] = ofStage[stage]
  }
  return { groups, ofAllocation }
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

/** Groups by lifetime in events, in powers of ten; lifetimes cut off by the recording are groups of their own. */
function byAge({ device }: History): Sorted {
  const { allocEvent, freeEvent, events } = device
  const [BEFORE, LAST, ALWAYS] = [20, 21, 22]
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
