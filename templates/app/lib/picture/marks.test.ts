import assert from "node:assert/strict"
import { test } from "node:test"
import type { Device } from "../data/device"
import { markLines, marksIn } from "./marks"
import { EventScale } from "../data/scale"
import { deviceOf, randomStrips } from "../testing"

const ACTIONS = ["oom", "segment_alloc", "segment_free", "snapshot", "surprise"]

function device(events: [event: number, action: string, size: number][]): Device {
  const strips = { ...randomStrips(1, 100), events: 100 }
  return {
    ...deviceOf(strips, [...strips.birth].fill(-1)),
    actions: ACTIONS,
    eventIndex: Int32Array.from(events, ([event]) => event),
    eventAction: Int32Array.from(events, ([, action]) => ACTIONS.indexOf(action)),
    eventSize: Float64Array.from(events, ([, , size]) => size),
  }
}

test("events on one pixel are one mark of the most important kind", () => {
  const of = device([
    [3, "segment_free", 1],
    [4, "oom", 2],
    [4, "segment_alloc", 3],
    [9, "snapshot", 0],
    [11, "segment_alloc", 5],
    [12, "surprise", 0],
  ])
  const marks = marksIn(of, new EventScale(100), { x0: 0, x1: 100, y0: 0, y1: 1 }, 20)
  assert.deepEqual(marks, [
    { pixel: 0, kind: "oom", first: 0, end: 3 },
    { pixel: 1, kind: "snapshot", first: 3, end: 4 },
    { pixel: 2, kind: "grow", first: 4, end: 6 },
  ])
})

test("only events in the window are marked, wherever it begins", () => {
  const of = device(Array.from({ length: 100 }, (_, event) => [event, "segment_alloc", 1]))
  for (const [x0, x1] of [
    [0, 100],
    [10.5, 20],
    [98, 100],
  ]) {
    const marks = marksIn(of, new EventScale(100), { x0, x1, y0: 0, y1: 1 }, 1000)
    assert.deepEqual(
      marks.map((mark) => of.eventIndex[mark.first]),
      Array.from({ length: 100 }, (_, s) => s).filter((s) => s >= x0 && s < x1),
    )
  }
})

test("a mark's lines sum up its events by action", () => {
  const of = device([
    [3, "segment_alloc", 1024],
    [4, "segment_alloc", 1024],
    [4, "snapshot", 0],
  ])
  const [mark] = marksIn(of, new EventScale(100), { x0: 0, x1: 100, y0: 0, y1: 1 }, 10)
  assert.deepEqual(markLines(of, mark), ["3 events from 3 to 4", "2 segment_alloc, 2.00 KiB", "snapshot"])
})
