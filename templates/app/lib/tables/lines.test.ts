import { test } from "node:test"
import assert from "node:assert/strict"
import { cumulative, type LineRow, linesAt, mapLines, NO_MATCH, rowsOfLine, sortLines } from "./lines"
import { stripsOf } from "../data/device"
import { History } from "../data/history"
import { liveAt } from "../data/lives"
import { liveQuestion } from "../data/questions"
import { originsOf } from "../data/origins"
import { filterTest } from "./search"
import { deviceOf, random, randomStrips, REASONS, stacksOf, totals } from "../testing"

const STACKS = stacksOf([
  [
    ["empty", "??"],
    ["linear", "/v/torch/linear.py"],
    ["layer", "/me/model.py"],
    ["main", "/me/train.py"],
  ],
  [
    ["empty", "??"],
    ["step", "/me/optim.py"],
    ["main", "/me/train.py"],
  ],
  [
    ["empty", "??"],
    ["clone3", "??"],
  ],
  [],
])
const STRIPS = {
  events: 5,
  birth: Int32Array.of(-1, 0, 1, 1, 2, 3),
  death: Int32Array.of(5, 5, 2, 5, 5, 5),
  height: Float64Array.of(5, 30, 70, 20, 24, 1),
}
const DEVICE = deviceOf(STRIPS, [-1, 0, 0, 0, 1, 2])
const ORIGINS = originsOf(DEVICE, STACKS)

function table(typed: string, event = 4) {
  const map = mapLines(DEVICE, STACKS, ORIGINS, filterTest(typed))
  const rows = linesAt(DEVICE, ORIGINS, map, liveQuestion("allocated", event))
  return { map, rows, short: rows.map((row) => [map.lines[row.line].name, row.bytes, row.count, row.median]) }
}

test("a line and its gradients are one line, named after the line", () => {
  const stacks = stacksOf([[["gradient of layer", "/me/model.py"]], [["layer", "/me/model.py"]]])
  const device = deviceOf(STRIPS, [-1, 0, 0, 0, 1, 1])
  const map = mapLines(device, stacks, originsOf(device, stacks), null)
  assert.deepEqual(
    map.lines.map(({ name }) => name),
    ["layer", REASONS[1]],
  )
})

test("without a filter a line is the call site, and a reason one of its own", () => {
  assert.deepEqual(table("").short, [
    ["linear", 50, 2, 25],
    ["step", 24, 1, 24],
    [REASONS[1], 5, 1, 5],
    ["empty", 1, 1, 1],
  ])
})

test("with a filter it is the innermost frame whose file passes; the rest is said to have none", () => {
  assert.deepEqual(
    table("-torch").short.map(([name, bytes]) => [name, bytes]),
    [
      ["layer", 50],
      ["step", 24],
      [REASONS[1], 5],
      [NO_MATCH, 1],
    ],
  )
  assert.deepEqual(
    table("train.py").short.map(([name, bytes]) => [name, bytes]),
    [
      ["main", 74],
      [REASONS[1], 5],
      [NO_MATCH, 1],
    ],
  )
  assert.deepEqual(
    table("nowhere").short.map(([name, bytes]) => [name, bytes]),
    [
      [NO_MATCH, 75],
      [REASONS[1], 5],
    ],
  )
})

test("what a line allocated in the whole recording stands beside what is live", () => {
  const { rows } = table("")
  assert.deepEqual([rows[0].ever, rows[0].everCount], [120, 3])
})

test("any filter's lines add up to the curve, at every event", () => {
  for (let seed = 0; seed < 20; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 80)
    const device = deviceOf(
      strips,
      [...strips.birth].map((birth) => (birth < 0 ? -1 : Math.floor(next() * 4))),
      [3],
    )
    const origins = originsOf(device, STACKS)
    const sums = totals(strips)
    for (const typed of ["", "model", "-torch", "/me/"]) {
      const map = mapLines(device, STACKS, origins, filterTest(typed))
      for (let event = -1; event < 80; event += 9) {
        assert.equal(cumulative(linesAt(device, origins, map, liveQuestion("allocated", event))).at(-1) ?? 0, sums[event + 1])
      }
    }
  }
})

test("the running sum follows the order of the list", () => {
  const { rows, map } = table("")
  const bytes = (sorted: LineRow[]) => [...cumulative(sorted)]
  assert.deepEqual(bytes(rows), [50, 74, 79, 80])
  assert.deepEqual(bytes(sortLines(rows, map, "bytes", true)), [1, 6, 30, 80])
  assert.deepEqual(
    sortLines(rows, map, "location", false).map((row) => map.lines[row.line].name),
    ["step", "linear", REASONS[1], "empty"],
  )
  assert.deepEqual(
    sortLines(rows, map, "median", false).map((row) => row.median),
    [25, 24, 5, 1],
  )
})

test("a line knows its allocations over the whole recording", () => {
  const { map, rows } = table("")
  assert.deepEqual([...rowsOfLine(ORIGINS, map, rows[0].line)], [0, 1, 1, 1, 0, 0])
})

test("what is left out is counted by nothing: curves, lines and totals are those of the others", () => {
  const strips = randomStrips(11, 300)
  const next = random(5)
  const stacks = stacksOf([[["a", "/a.py"]], [["b", "/b.py"]]])
  const device = deviceOf(
    strips,
    Array.from(strips.birth, () => Math.floor(next() * 3) - 1),
  )
  device.summary.recorded = true
  const all = new History(device, stacks)
  const hidden = Uint8Array.from(strips.birth, () => Number(next() < 0.4))
  const some = all.without(hidden)
  const origins = originsOf(device, stacks)
  for (const curve of ["allocated", "requested"] as const) {
    const map = mapLines(device, stacks, origins, null)
    const { height } = stripsOf(device, curve)
    const mine = [...hidden.keys()].filter((i) => !hidden[i])
    let peak = -1
    for (let event = -1; event < device.events; event++) {
      const live = [...liveAt(device, curve, event)].filter((i) => !hidden[i])
      const bytes = live.reduce((sum, i) => sum + height[i], 0)
      assert.equal(some.at(curve, event), bytes)
      assert.deepEqual([...liveAt(some.device, curve, event)], live)
      const rows = linesAt(some.device, origins, map, liveQuestion(curve, event))
      assert.equal(
        rows.reduce((sum, row) => sum + row.bytes, 0),
        bytes,
      )
      if (bytes > (peak < 0 ? some.at(curve, -1) : some.at(curve, peak))) peak = event
    }
    assert.equal(some.peakEvent[curve], peak)
    const ever = map.ever[curve]!.bytes.reduce((sum, each) => sum + each, 0)
    assert.equal(
      ever,
      mine.filter((i) => strips.death[i] > strips.birth[i]).reduce((sum, i) => sum + height[i], 0),
    )
  }
  assert.equal(some.all, all)
  assert.equal(some.sites, all.sites)
  assert.ok(some.ceiling <= all.ceiling)
})
