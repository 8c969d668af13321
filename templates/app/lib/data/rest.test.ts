import { test } from "node:test"
import assert from "node:assert/strict"
import { type Curve, type Strips, without } from "./curves"
import { type Device, stripsOf } from "./device"
import { EventTable, parseFilter, UNKNOWN } from "../tables/events"
import { COLOURINGS, groupBy } from "../tables/grouping"
import { History } from "./history"
import { linesAt, mapLines } from "../tables/lines"
import { originsOf } from "./origins"
import { amountsLive, liveQuestion } from "./questions"
import { liveAt } from "./lives"
import { drawnRow, NOT_DRAWN, recordedRow, restAt } from "./rest"
import { Store } from "../../store"
import { cutDevice, deviceOf, random, randomStrips, stacksOf, totals } from "../testing"

const CURVES: Curve[] = ["allocated", "requested"]
const STACKS = stacksOf([
  [["step", "a.py"]],
  [
    ["loss", "b.py"],
    ["step", "a.py"],
  ],
])

/** A whole device, and the same with about half of it not drawn one by one. */
function pair(seed: number): [whole: Device, cut: Device] {
  const next = random(seed)
  const strips = randomStrips(seed, 60)
  const whole = deviceOf(
    strips,
    [...strips.birth].map(() => Math.floor(next() * 3) - 1),
  )
  whole.freeEvent = strips.death.map((death) => Math.min(death + Math.floor(next() * 4), 60))
  return [
    whole,
    cutDevice(
      whole,
      Uint8Array.from(strips.birth, () => Number(next() < 0.5)),
    ),
  ]
}

/** Block bytes until free_completed. */
function activeStrips(device: Device): Strips {
  const strips = { ...stripsOf(device, "requested"), height: device.block }
  return device.rest ? { ...strips, rest: { row: device.rest.row, height: device.rest.active } } : strips
}

test("strips and their rest are the curves of the whole, at every event", () => {
  for (let seed = 0; seed < 20; seed++) {
    const [whole, cut] = pair(seed)
    for (const curve of CURVES) assert.deepEqual(totals(stripsOf(cut, curve)), totals(stripsOf(whole, curve)))
    assert.deepEqual(totals(activeStrips(cut)), totals(activeStrips(whole)))
  }
})

test("what panels add up is the curve, with the rest under a name of its own", () => {
  for (let seed = 0; seed < 10; seed++) {
    const [whole, cut] = pair(seed)
    const history = new History(cut, STACKS)
    const origins = originsOf(cut, STACKS)
    const map = mapLines(cut, STACKS, origins, null)
    for (const curve of CURVES) {
      for (const event of [-1, 7, 30, 59]) {
        const total = history.at(curve, event)
        const live = liveAt(whole, curve, event).length
        const sums = amountsLive(cut, curve, event, origins.ofAllocation, origins.length)
        const lines = linesAt(cut, origins, map, liveQuestion(curve, event))
        const add = (values: Iterable<number>) => [...values].reduce((sum, value) => sum + value, 0)
        assert.deepEqual([add(sums.bytes), add(sums.count)], [total, live])
        assert.deepEqual([add(lines.map((line) => line.bytes)), add(lines.map((line) => line.count))], [total, live])
        for (const [colouring] of COLOURINGS) {
          const grouping = groupBy(history, colouring)
          const amounts = amountsLive(cut, curve, event, grouping.ofAllocation, grouping.groups.length)
          assert.deepEqual([add(amounts.bytes), add(amounts.count)], [total, live], colouring)
          const group = grouping.groups[grouping.ofAllocation[cut.rest!.row]]
          assert.equal(group.label, NOT_DRAWN)
          assert.equal(amounts.bytes[grouping.ofAllocation[cut.rest!.row]], restAt(cut.rest, curve, event).bytes)
        }
      }
    }
  }
})

test("the rest can be left out of the timeline like any other group", () => {
  const [, cut] = pair(3)
  const hidden = new Uint8Array(cut.count)
  hidden[cut.rest!.row] = 1
  const drawn = totals(stripsOf({ ...cut, rest: null }, "allocated"))
  assert.deepEqual(totals(without(stripsOf(cut, "allocated"), hidden)), drawn)
})

test("events that are not drawn are in no list, and those of a window are in its own", () => {
  const [, cut] = pair(5)
  const table = new EventTable(cut, STACKS)
  const all = [...table.select(parseFilter("", []))]
  assert.deepEqual(
    all,
    [...table.kind.keys()].filter((event) => table.kind[event] !== UNKNOWN),
  )
  assert.equal(table.counts[UNKNOWN], 0)
  const window: [number, number] = [10, 19]
  const windowed = new EventTable({ ...cut, rest: { ...cut.rest!, window } }, STACKS)
  assert.deepEqual(
    [...windowed.select(parseFilter("", []))],
    all.filter((event) => event >= 10 && event <= 19),
  )
})

test("a page of a window opens there, at its highest event", () => {
  const [, cut] = pair(6)
  const history = new History({ ...cut, rest: { ...cut.rest!, window: [20, 29] } }, STACKS)
  const store = new Store(history)
  assert.deepEqual([store.state.window.x0, store.state.window.x1], [20, 30])
  const inside = [...Array(10).keys()].map((k) => history.at("allocated", 20 + k))
  assert.equal(store.state.cursor, 20 + inside.indexOf(Math.max(...inside)))
  assert.deepEqual([store.whole.x0, store.whole.x1], [-1, 60])
})

test("rows of links are those of the recording", () => {
  const [whole, cut] = pair(8)
  cut.rest!.rows.forEach((row, drawn) => {
    assert.equal(recordedRow(cut, drawn), row)
    assert.equal(drawnRow(cut, row), drawn)
  })
  const gone = [...whole.stack.keys()].find((row) => !cut.rest!.rows.includes(row))!
  assert.deepEqual([drawnRow(cut, gone), drawnRow(whole, gone), drawnRow(whole, whole.count), drawnRow(cut, -1)], [-1, gone, -1, -1])
})
