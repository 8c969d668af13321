import assert from "node:assert/strict"
import { test } from "node:test"
import type { Device } from "../data/device"
import {
  type Colouring,
  COLOURINGS,
  colouringsOf,
  filterText,
  groupBy,
  hiddenRows,
  NO_FILTERS,
  toggleKept,
  whyPlain,
  withFilter,
} from "./grouping"
import { amountsLive } from "../data/questions"
import { History } from "../data/history"
import type { StageSummary } from "../data/payload"
import { deviceOf, random, randomStrips, stacksOf } from "../testing"

const STACKS = stacksOf([
  [
    ["malloc", "??"],
    ["layer", "/me/model.py"],
  ],
  [["loss", "/me/train.py"]],
])

function stage(name: string, depth: number, start_event: number, end_event: number): StageSummary {
  return { name, depth, start_event, end_event } as StageSummary
}

/** Seven allocations over ten events, with something different in every column. */
function device(): Device {
  const strips = {
    events: 10,
    birth: Int32Array.of(-1, -1, 0, 1, 2, 3, 6),
    death: Int32Array.of(10, 4, 9, 10, 3, 5, 8),
    height: Float64Array.of(512, 1024, 1536, 2048, 2047, 1, 0),
  }
  const plain = deviceOf(strips, [-1, -1, 0, 0, 1, 1, 0])
  return {
    ...plain,
    summary: { ...plain.summary, stages: [stage("step #0", 0, 0, 4), stage("forward", 1, 2, 3), stage("step #1", 0, 6, 9)] },
    stream: Int32Array.of(0, 0, 0, 1, 1, 0, 0),
    streamValues: Float64Array.of(0, 0x55d0),
    pool: Int32Array.of(0, 0, 0, 0, 0, 1, -1),
    pools: ["0,0", "1,0"],
    category: Int32Array.of(-1, -1, 0, 0, 0, 0, 0), // a string of the stacks' table
    oneColour: ["context", "forward", "metadata"],
  }
}

function labels(colouring: Colouring, of = device()): string[] {
  const { groups, ofAllocation } = groupBy(new History(of, STACKS), colouring)
  return [...ofAllocation].map((row) => groups[row].label)
}

test("sizes are grouped by powers of two, in their order", () => {
  assert.deepEqual(labels("size"), [
    "512 B to 1 KiB",
    "1 KiB to 2 KiB",
    "1 KiB to 2 KiB",
    "2 KiB to 4 KiB",
    "1 KiB to 2 KiB",
    "1 B to 2 B",
    "0 B",
  ])
  const { groups, ordered } = groupBy(new History(device(), STACKS), "size")
  assert.ok(ordered)
  assert.deepEqual(
    groups.map((group) => group.label),
    ["0 B", "1 B to 2 B", "512 B to 1 KiB", "1 KiB to 2 KiB", "2 KiB to 4 KiB"],
  )
})

test("a size next to a power of two falls on the right side of it", () => {
  for (const power of [10, 20, 31, 40, 52]) {
    const strips = {
      events: 4,
      birth: Int32Array.of(0, 1),
      death: Int32Array.of(4, 4),
      height: Float64Array.of(2 ** power - 1, 2 ** power),
    }
    const of = labels("size", deviceOf(strips, [0, 0]))
    assert.notEqual(of[0], of[1], String(power))
  }
})

test("lifetimes are grouped by powers of ten, those cut off by the recording apart", () => {
  assert.deepEqual(labels("age"), [
    "live throughout",
    "from before",
    "1 to 9 events",
    "live at the end",
    "1 to 9 events",
    "1 to 9 events",
    "1 to 9 events",
  ])
  const strips = {
    events: 2000,
    birth: Int32Array.of(0, 0, 0, 0),
    death: Int32Array.of(9, 10, 999, 1000),
    height: new Float64Array(4).fill(512),
  }
  assert.deepEqual(labels("age", deviceOf(strips, [0, 0, 0, 0])), [
    "1 to 9 events",
    "10 to 99 events",
    "100 to 999 events",
    "1,000 to 9,999 events",
  ])
})

test("an allocation belongs to the innermost stage it was born in, repeated stages together", () => {
  assert.deepEqual(labels("stage"), ["before recording", "before recording", "step #*", "step #*", "forward", "step #*", "step #*"])
  assert.equal(labels("stage", { ...device(), allocEvent: Int32Array.of(-1, -1, 0, 1, 2, 3, 5) }).at(-1), "outside of stages")
})

test("streams, pools and categories are named, and what is not known is the rest", () => {
  assert.deepEqual(labels("stream").slice(2, 5), ["stream 0", "0x55d0", "0x55d0"])
  assert.deepEqual(labels("pool").slice(4), ["default pool", "private pool 1,0", "pool not known"])
  assert.deepEqual(labels("category").slice(1, 3), ["no category", STACKS.strings[0]])
  const { groups } = groupBy(new History(device(), STACKS), "category")
  // A rule is an expression, which is not a name: it is for who asks.
  const ruled = new History({ ...device(), categoryRules: { [STACKS.strings[0]]: "attn|mlp" } }, STACKS)
  const [named] = groupBy(ruled, "category").groups.filter(({ label }) => label === STACKS.strings[0])
  assert.deepEqual([named.detail, named.full], ["", `${STACKS.strings[0]}\nattn|mlp`])
  assert.deepEqual(
    groups.map((group) => group.rest),
    [false, true],
  )
})

test("allocations of one role are one group, however their roles are known", () => {
  const roles: Device["roles"] = [
    ["activation", "freed in backward (95% sure)"],
    ["activation", "still kept (60% sure)"],
    ["unknown", "nothing tells"],
  ]
  const roleMeanings = { activation: "Kept for backward.", unknown: "Not known." }
  const of = { ...device(), roles, roleMeanings, role: Int32Array.of(2, 0, 0, 1, 0, 0, 0) }
  assert.deepEqual(labels("role", of).slice(0, 4), ["unknown", "activation", "activation", "activation"])
  const [activation, unknown] = groupBy(new History(of, STACKS), "role").groups
  assert.equal(activation.full, "activation\nKept for backward.\nfreed in backward (95% sure)\nstill kept (60% sure)")
  assert.deepEqual([activation.rest, unknown.rest], [false, true])
  assert.equal(whyPlain(new History(of, STACKS), "role"), "")
  assert.equal(whyPlain(new History({ ...of, roles: roles.slice(0, 2) }, STACKS), "role"), "All allocations have one role")
})

test("labels that only some recordings have are colourings of their own", () => {
  const of = {
    ...device(),
    labels: {
      forward: Int32Array.of(-1, 0, 0, -1, 0, -1, -1),
      layer: Int32Array.of(1, 0, 0, 1, 0, 1, 1),
      "metadata:layer": Int32Array.of(0, 0, -1, -1, -1, -1, -1),
    },
  }
  assert.deepEqual(
    colouringsOf(of)
      .slice(COLOURINGS.length)
      .map(([, name]) => name),
    ["Layer, with its gradients", "Metadata: layer"],
  )
  const name = STACKS.strings[0]
  const rest = "no forward line"
  assert.deepEqual(labels("forward", of), [rest, name, name, rest, name, rest, rest])
  const other = STACKS.strings[1]
  assert.deepEqual(labels("layer", of), [other, name, name, other, name, other, other])
  assert.deepEqual(labels("metadata:layer", of), [name, name, "none", "none", "none", "none", "none"])
  assert.equal(groupBy(new History(of, STACKS), "metadata:other").colouring, "site")
})

test("a colouring that would show one colour says why", () => {
  const history = new History(device(), STACKS)
  assert.deepEqual(
    COLOURINGS.map(([colouring]) => [colouring, whyPlain(history, colouring) === ""]),
    [
      ["site", true],
      ["role", false],
      ["stage", true],
      ["size", true],
      ["age", true],
      ["category", true],
      ["stream", true],
      ["pool", true],
      ["context", false],
      ["forward", false],
      ["metadata", false],
    ],
  )
})

test("the amounts of all groups are those of what is live, at any event and in either curve", () => {
  for (let seed = 0; seed < 40; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 80)
    const of = {
      ...deviceOf(
        strips,
        [...strips.birth].map(() => (next() < 0.5 ? 0 : 1)),
      ),
      freeEvent: strips.death.map((s) => Math.min(s + 2, 80)),
      requested: strips.height.map((bytes) => bytes - 7),
    }
    const history = new History(of, STACKS)
    for (const [colouring] of COLOURINGS) {
      const grouping = groupBy(history, colouring)
      const event = Math.floor(next() * 81) - 1
      for (const curve of ["allocated", "requested"] as const) {
        const { bytes, count } = amountsLive(of, curve, event, grouping.ofAllocation, grouping.groups.length)
        assert.equal(
          bytes.reduce((a, b) => a + b, 0),
          history.at(curve, event),
          `${colouring} ${curve} ${seed}`,
        )
        const death = curve === "allocated" ? of.freeRequestedEvent : of.freeEvent
        const live = [...strips.birth.keys()].filter((i) => strips.birth[i] <= event && death[i] > event)
        grouping.groups.forEach((_, row) => assert.equal(count[row], live.filter((i) => grouping.ofAllocation[i] === row).length))
      }
      const peak = amountsLive(of, "allocated", history.peakEvent.allocated, grouping.ofAllocation, grouping.groups.length)
      assert.deepEqual(
        grouping.groups.map((group) => group.bytes),
        [...peak.bytes],
      )
      if (!grouping.ordered)
        assert.deepEqual(
          [...peak.bytes],
          [...peak.bytes].sort((a, b) => b - a),
        )
    }
  }
})

test("what is left out is told by what is the shorter to say", () => {
  const history = new History(device(), STACKS)
  const rows = [...groupBy(history, "size").groups.keys()]
  const told = (...out: number[]) => filterText(history, withFilter(history, NO_FILTERS, "size", out))
  const label = (row: number) => groupBy(history, "size").groups[row].label
  assert.equal(told(), "")
  assert.equal(told(0), `size is not ${label(0)}`)
  assert.equal(told(...rows.slice(1)), `size is ${label(0)}`)
  assert.equal(told(...rows), "") // nothing left is no filter
})

test("filters of several colourings leave out what any of them leaves out, and the first group asked for is the only one kept", () => {
  const history = new History(device(), STACKS)
  const stream = toggleKept(history, NO_FILTERS, "stream", 1)
  const { ofAllocation } = groupBy(history, "stream")
  assert.deepEqual(
    hiddenRows(history, stream),
    Uint8Array.from(ofAllocation, (row) => Number(row !== 1)),
  )
  const stage = groupBy(history, "stage")
  const both = withFilter(history, stream, "stage", [0])
  assert.deepEqual(
    hiddenRows(history, both),
    Uint8Array.from(ofAllocation, (row, i) => Number(row !== 1 || stage.ofAllocation[i] === 0)),
  )
  assert.equal(toggleKept(history, stream, "stream", 0).size, 0) // both are kept: no filter
  assert.deepEqual(hiddenRows(history, withFilter(history, both, "stage", [])), hiddenRows(history, stream))
  assert.equal(hiddenRows(history, new Map([["size", new Set([99])]])), null)
})
