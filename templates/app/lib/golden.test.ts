/** The page's own code against the Python model: every file in app/golden, written by `make golden`. */

import { test } from "node:test"
import { fragmentationOf } from "./testing"
import assert from "node:assert/strict"
import { readdirSync, readFileSync } from "node:fs"
import type { Curve } from "./data/curves"
import { type Device, framesOf, missingReason, type Stacks } from "./data/device"
import { readDevice, readLater } from "./data/read_device"
import { readStacks } from "./data/device"
import { EventTable, parseFilter } from "./tables/events"
import { formatBytes, formatChange, formatCount, formatDuration, formatShare, formatSignedBytes, formatEvents } from "./text/format"
import { groupBy } from "./tables/grouping"
import { History } from "./data/history"
import { cumulative, linesAt, mapLines } from "./tables/lines"
import { originsOf } from "./data/origins"
import { beginOf, joined, sameFrames } from "./tables/joined"
import { amountsLive, amountsOf, liveQuestion } from "./data/questions"
import { versionsOf } from "./data/device"
import { liveAt } from "./data/lives"
import { Payload, unpack } from "./data/payload"
import { filterTest } from "./tables/search"
import { keptSegments, layOut, type Use } from "./data/segments"
import { groupStages, type Spread, STAGE_FIGURES, type StageFigure, type StageGroup } from "./tables/stage_groups"
import { CallTree, type Direction, ROOT, type TreeSums } from "./tables/tree"

/** Function, file and line, 0 where unknown. */
type Label = [name: string, file: string, line: number]

/** Keys are the functions of tests/golden/page_golden.py. */
interface Expected {
  facts: { id: string; events: number; allocations: number; recorded: boolean; peaks: Record<string, [number, number]> }
  rows: {
    row: number
    addr: number
    version: number
    requested: number
    block: number
    block_max: number
    events: [number, number, number]
    stream: number
    pool: string | null
    stack: number[]
    free_stack: number[]
    missing: string
    category: string | null
    role: [string, string]
    compile_context: string | null
    metadata: string | null
  }[]
  /** Bytes at the peak of the allocated curve. */
  roles: Record<string, number>
  column_sums: Record<string, number>
  /** Event, requested, allocated, active, reserved, number live in allocated, in requested. */
  amounts: [number, number, number, number, number | null, number, number][]
  curve_sums: Record<string, number>
  trees: { curve: Curve; event: number; direction: Direction; folded: boolean; nodes: [number, number, number, number, number, number][] }[]
  stages: { path: string[]; stages: number; [figure: string]: number[] | string[] | number | null }[]
  segments: {
    event: number
    total: Amounts
    groups: [number, number, number, ...Amounts][]
    first: [number, number][]
    kept: [number, number, number, number]
  }[]
  fragmentation: number
  events: { action: number; size: number; address: number; stream: number }
  /** What other settings reserve: at most, and after the events of `segments`. */
  replays: [settings: string, most: number, held: number[]][]
  /** Text, how many events it finds, their events added up. */
  searches: [string, number, number][]
  lines: { curve: Curve; event: number; filter: string; rows: [number, number, number, number, number, number][] }[]
}

/** Segments, reserved, allocated, pending, slack, inactive, fragmentation, largest free, blocks. */
type Amounts = [number, number, number, number, number, number, number, number, number]

interface Golden {
  payload: { first: string; later: string }
  expected: { labels: Label[]; devices: Expected[] }
}

interface Compared {
  payload: { first: string; later: string }
  expected: {
    events: [number, number]
    trees: { curve: Curve; direction: Direction; nodes: Record<string, [bytes: number, count: number]> }[]
  }
}

const FOLDER = new URL("../../../app/golden/", import.meta.url)
const read = (name: string) => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as unknown

for (const name of readdirSync(FOLDER).filter((file) => !["formats.json", "compared.json"].includes(file))) {
  test(`what the page works out of ${name} is what the model says`, async () => {
    const { payload: packed, expected } = read(name) as Golden
    const payload = new Payload(await unpack(packed.first))
    payload.add(await unpack(packed.later))
    const stacks = readStacks(payload)
    assert.equal(payload.header.devices.length, expected.devices.length)
    for (const [index, wanted] of expected.devices.entries()) {
      const device = readDevice(payload, index)
      readLater(payload, index, device)
      const history = new History(device, stacks)
      checkFacts(history, wanted)
      checkRows(history.device, stacks, wanted, expected.labels)
      checkRoles(history, wanted)
      checkSums(history, wanted)
      checkAmounts(history, wanted)
      checkTrees(history, wanted, expected.labels)
      checkLines(history, wanted, expected.labels)
      checkSegments(history, wanted)
      checkEvents(history, wanted)
      checkStages(history, wanted)
      checkReplays(history, wanted)
    }
  })
}

test("what two recordings differ by is what the model says, node by node", async () => {
  const { payload: packed, expected } = read("compared.json") as Compared
  const payload = new Payload(await unpack(packed.first))
  payload.add(await unpack(packed.later))
  const stacks = sameFrames(readStacks(payload), payload.ints(payload.header.columns.frame_same))
  assert.deepEqual(payload.header.compared!.events, expected.events)
  const devices = [0, 1].map((index) => {
    const device = readDevice(payload, index)
    readLater(payload, index, device)
    return device
  })
  const both = joined(devices[0], devices[1])
  const origins = originsOf(both, stacks)
  const [from, to] = [expected.events[0], beginOf(devices[0]) + expected.events[1]]
  for (const { curve, direction, nodes } of expected.trees) {
    const tree = new CallTree(both, stacks, origins, direction, false)
    const sums = tree.at(amountsOf(both, { kind: "change", curve, at: to, from, to, alive: to }, origins.ofAllocation, origins.length))
    const found: Record<string, number[]> = {}
    sums.walk(ROOT, (node) => {
      const names = tree
        .pathTo(node)
        .slice(1)
        .map((each) => (tree.frame[each] < 0 ? [tree.label(each), "", 0] : labelOf(stacks, tree.frame[each])))
      found[names.map((name) => name.join("|")).join("\n")] = [sums.bytes[node], sums.count[node]]
      return true
    })
    assert.deepEqual(found, nodes)
  }
})

test("numbers read as the Python side writes them, everywhere", () => {
  const formats = read("formats.json") as Record<string, [number, string][]> &
    Record<"shares" | "changes" | "event_ranges", [number, number, string][]>
  const written = (name: string, format: (value: number) => string) =>
    assert.deepEqual(
      formats[name].map(([value]) => [value, format(value)]),
      formats[name],
    )
  written("bytes", formatBytes)
  written("signed_bytes", formatSignedBytes)
  written("counts", formatCount)
  written("durations", formatDuration)
  assert.deepEqual(
    formats.shares.map(([part, whole]) => [part, whole, formatShare(part, whole)]),
    formats.shares,
  )
  assert.deepEqual(
    formats.changes.map(([change, base]) => [change, base, formatChange(change, base)]),
    formats.changes,
  )
  assert.deepEqual(
    formats.event_ranges.map(([start, end]) => [start, end, formatEvents(start, end)]),
    formats.event_ranges,
  )
})

function checkReplays({ device }: History, { replays, segments }: Expected): void {
  const found = device.replays.map(({ settings, most, curve }) => [settings, most, segments.map(({ event }) => curve.at(event + 1))])
  assert.deepEqual(found, replays)
}

function checkFacts(history: History, { facts }: Expected): void {
  const { device } = history
  assert.deepEqual(
    [device.id, device.events, device.count, device.summary.recorded],
    [facts.id, facts.events, facts.allocations, facts.recorded],
  )
  for (const curve of ["allocated", "requested"] as const) {
    assert.deepEqual([history.at(curve, history.peakEvent[curve]), history.peakEvent[curve]], facts.peaks[curve])
  }
  assert.equal(history.highest, Math.max(...Object.values(facts.peaks).map(([bytes]) => bytes)))
}

function labelOf(stacks: Stacks, frame: number): Label {
  return [stacks.strings[stacks.frameName[frame]], stacks.strings[stacks.frameFile[frame]], Math.max(stacks.frameLine[frame], 0)]
}

function checkRows(device: Device, stacks: Stacks, { rows }: Expected, labels: Label[]): void {
  const text = (id: number) => (id < 0 ? null : stacks.strings[id])
  for (const { row, stack, free_stack, ...wanted } of rows) {
    assert.deepEqual(
      {
        addr: device.addrValues[device.addr[row]],
        version: versionsOf(device)[row],
        requested: device.requested[row],
        block: device.block[row],
        block_max: device.blockMax[row],
        events: [device.allocEvent[row], device.freeRequestedEvent[row], device.freeEvent[row]],
        stream: device.streamValues[device.stream[row]],
        pool: device.pool[row] < 0 ? null : device.pools[device.pool[row]],
        missing: missingReason(device, row),
        category: text(device.category[row]),
        role: device.roles[device.role[row]],
        compile_context: text(device.compileContext[row]),
        metadata: text(device.metadata[row]),
      },
      wanted,
    )
    const path = (id: number) => framesOf(stacks, id).map((frame) => labelOf(stacks, frame))
    assert.deepEqual(
      path(device.stack[row]),
      stack.map((label) => labels[label]),
    )
    assert.deepEqual(
      path(device.freeStack[row]),
      free_stack.map((label) => labels[label]),
    )
  }
}

function checkRoles(history: History, { roles }: Expected): void {
  const { groups } = groupBy(history, "role")
  assert.deepEqual(Object.fromEntries(groups.filter(({ bytes }) => bytes).map(({ key, bytes }) => [key, bytes])), roles)
}

/** As in page_golden.py. */
function weighted(column: ArrayLike<number>): number {
  let sum = 0
  for (let k = 0; k < column.length; k++) sum = (sum + (k + 1) * ((column[k] % 1_000_003) + 1_000_003)) % 1_000_003
  return sum
}

function valuesOf(history: History, name: string): number[] {
  return Array.from({ length: history.device.events + 1 }, (_, place) => history.at(name as Curve | "active" | "reserved", place - 1))
}

function checkSums(history: History, { column_sums, curve_sums }: Expected): void {
  const { device } = history
  const columns: Record<string, ArrayLike<number>> = {
    ...(device as unknown as Record<string, ArrayLike<number>>),
    addr: Float64Array.from(device.addr, (id) => device.addrValues[id]),
    version: versionsOf(device),
  }
  for (const [name, sum] of Object.entries(column_sums)) assert.equal(weighted(columns[name]), sum, name)
  for (const [name, sum] of Object.entries(curve_sums)) assert.equal(weighted(valuesOf(history, name)), sum, name)
}

function checkAmounts(history: History, { amounts }: Expected): void {
  for (const [event, requested, allocated, active, reserved, ...live] of amounts) {
    assert.deepEqual(
      [history.at("requested", event), history.at("allocated", event), history.at("active", event)],
      [requested, allocated, active],
    )
    assert.equal(history.hasReserved ? history.at("reserved", event) : null, reserved)
    assert.deepEqual([liveAt(history.device, "allocated", event).length, liveAt(history.device, "requested", event).length], live)
  }
}

function checkTrees({ device, stacks }: History, { trees }: Expected, labels: Label[]): void {
  const origins = originsOf(device, stacks)
  for (const wanted of trees) {
    const tree = new CallTree(device, stacks, origins, wanted.direction, wanted.folded)
    const sums = tree.at(amountsLive(device, wanted.curve, wanted.event, origins.ofAllocation, origins.length))
    const name = (node: number): Label => {
      if (node === ROOT) return ["", "", 0]
      return tree.frame[node] < 0 ? [tree.label(node), "", 0] : labelOf(stacks, tree.frame[node])
    }
    assert.deepEqual(flatten(sums, name), new Map(byPath(wanted.nodes, labels)))
  }
}

/** Every node's path, with its bytes, own bytes, count and own count. */
function flatten(sums: TreeSums, name: (node: number) => Label): Map<string, number[]> {
  const paths: string[] = []
  const found = new Map<string, number[]>()
  sums.walk(ROOT, (node) => {
    const parent = sums.tree.parent[node]
    paths[node] = `${parent < 0 ? "" : paths[parent]}\n${name(node).join("|")}`
    found.set(paths[node], [sums.bytes[node], sums.ownBytes[node], sums.count[node], sums.ownCount[node]])
    const bytes = sums.children(node).map((child) => sums.bytes[child])
    assert.deepEqual(
      bytes,
      [...bytes].sort((a, b) => b - a),
    )
    return true
  })
  return found
}

function byPath(nodes: Expected["trees"][0]["nodes"], labels: Label[]): [string, number[]][] {
  const paths: string[] = []
  return nodes.map(([parent, label, ...sums]) => {
    paths.push(`${parent < 0 ? "" : paths[parent]}\n${labels[label].join("|")}`)
    return [paths[paths.length - 1], sums]
  })
}

function checkLines(history: History, { lines }: Expected, labels: Label[]): void {
  const { device, stacks } = history
  const origins = originsOf(device, stacks)
  for (const wanted of lines) {
    const map = mapLines(device, stacks, origins, filterTest(wanted.filter))
    const rows = linesAt(device, origins, map, liveQuestion(wanted.curve, wanted.event))
    const found = rows.map((row) => {
      const { frame, name } = map.lines[row.line]
      const label: Label = frame < 0 ? [name, "", 0] : labelOf(stacks, frame)
      return [label.join("|"), row.bytes, row.count, row.median, row.ever, row.everCount]
    })
    const sorted = (all: (string | number)[][]) => all.map((row) => row.join(" ")).sort()
    assert.deepEqual(sorted(found), sorted(wanted.rows.map(([label, ...numbers]) => [labels[label].join("|"), ...numbers])))
    assert.deepEqual(
      found.map((row) => row[1]),
      wanted.rows.map((row) => row[1]),
    )
    assert.equal(cumulative(rows).at(-1) ?? 0, history.at(wanted.curve, wanted.event))
  }
}

function checkStages(history: History, { stages }: Expected): void {
  const all = history.device.summary.stages
  for (const stage of all.filter((one) => one.start_bytes !== null)) {
    const before = Math.max(stage.start_event - 1, -1)
    const curve = history.curves.allocated
    assert.deepEqual(
      [stage.start_bytes, stage.end_bytes],
      [history.at("allocated", before), history.at("allocated", Math.max(stage.end_event - 1, before))],
    )
    assert.equal(stage.peak_bytes, curve.at(curve.firstMax(before + 1, Math.max(stage.end_event, before + 1) + 1)))
  }
  const spread = (of: Spread | null) => of && [of.min, of.median, of.max]
  const found: Expected["stages"] = []
  const visit = (around: string[]) => (group: StageGroup) => {
    const path = [...around, group.name.replace(/#\d+/g, "#*")]
    found.push({
      path,
      stages: group.stages.length,
      ...(Object.fromEntries(STAGE_FIGURES.map((figure) => [figure, spread(group.spread[figure])])) as Pick<
        Expected["stages"][number],
        StageFigure
      >),
    })
    group.children.forEach(visit(path))
  }
  groupStages(all).forEach(visit([]))
  const sorted = (groups: Expected["stages"]) => [...groups].sort((a, b) => a.path.join("\n").localeCompare(b.path.join("\n")))
  assert.deepEqual(sorted(found), sorted(stages))
}

function checkSegments({ device }: History, { segments, fragmentation }: Expected): void {
  assert.equal(weighted(fragmentationOf(device)), fragmentation)
  const amounts = (use: Use) => [
    use.segments,
    use.reserved,
    use.allocated,
    use.pending,
    use.slack,
    use.inactive,
    use.fragmentation,
    use.largestFree,
    use.count,
  ]
  for (const { event, total, groups, first, kept } of segments) {
    const layout = layOut(device, event)
    const small = keptSegments(device, layout)
    const inOrder = [...small].sort((a, b) => a.segment - b.segment || a.offset - b.offset)
    assert.deepEqual(
      [
        small.length,
        small.reduce((all, each) => all + each.kept, 0),
        weighted(inOrder.map((each) => each.kept)),
        weighted(inOrder.map((each) => each.blocks.length)),
      ],
      kept,
    )
    assert.deepEqual(amounts(layout.total), total)
    const found = layout.groups.map(({ pool, stream, kind, use }) => [pool, device.streamValues[stream], kind, ...amounts(use)])
    const sorted = (rows: unknown[][]) => rows.map((row) => row.join(" ")).sort()
    assert.deepEqual(sorted(found), sorted(groups))
    assert.deepEqual(
      [...layout.rows.slice(0, 8)].map((row) => [device.segments.address[row], device.segments.size[row]]),
      first,
    )
  }
}

function checkEvents({ device, stacks }: History, { events, searches }: Expected): void {
  const table = new EventTable(device, stacks)
  const all = [...table.kind.keys()]
  assert.deepEqual(
    {
      action: weighted(all.map((event) => table.actionOf(event).length)),
      size: weighted(all.map((event) => table.sizeOf(event))),
      address: weighted(all.map((event) => table.addressOf(event) ?? -1)),
      stream: weighted(all.map((event) => table.streamOf(event) ?? -1)),
    },
    events,
  )
  const actions = table.counts.map((_, kind) => table.nameOf(kind))
  for (const [text, count, sum] of searches) {
    const found = table.select(parseFilter(text, actions))
    assert.deepEqual([found.length, weighted(found)], [count, sum], text)
  }
}
