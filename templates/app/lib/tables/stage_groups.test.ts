import assert from "node:assert/strict"
import { test } from "node:test"
import type { StageSummary } from "../data/payload"
import { groupStages, stageAt, stageAtEvents } from "./stage_groups"

function stage(name: string, parent: number | null, peak: number | null): StageSummary {
  return {
    name,
    parent,
    depth: parent === null ? 0 : 1,
    start_event: 0,
    end_event: 1,
    cut: "",
    start_bytes: 1,
    end_bytes: 2,
    peak_bytes: peak,
    peak_event: 0,
    change: 1,
    allocations: 1,
    allocated_bytes: 5,
  }
}

test("repeated and nested stages are grouped with the spread of their figures", () => {
  const groups = groupStages([
    stage("step#0", null, 10),
    stage("forward", 0, 4),
    stage("backward", 0, 9),
    stage("step#1", null, 40),
    stage("forward", 3, 6),
    stage("forward", 3, null),
    stage("backward", 3, 7),
    stage("forward", null, 1),
  ])
  assert.deepEqual(
    groups.map((group) => [group.name, group.stages]),
    [
      ["step#*", [0, 3]],
      ["forward", [7]],
    ],
  )
  assert.deepEqual(groups[0].spread.peak_bytes, { count: 2, min: 10, median: 25, max: 40 })
  const [forward, backward] = groups[0].children
  assert.deepEqual(forward.stages, [1, 4, 5])
  assert.deepEqual(forward.spread.peak_bytes, { count: 2, min: 4, median: 5, max: 6 }, "a stage of an unknown peak has no part in it")
  assert.deepEqual(backward.spread.peak_bytes, { count: 2, min: 7, median: 8, max: 9 })
  assert.equal(forward.depth, 1)
})

test("a stage that does not repeat keeps its whole name", () => {
  assert.equal(groupStages([stage("ProfilerStep#7", null, 1)])[0].name, "ProfilerStep#7")
})

test("figures that no stage knows are unknown", () => {
  assert.equal(groupStages([stage("a", null, null)])[0].spread.peak_bytes, null)
})

test("the innermost stage of one event is that of all of them", () => {
  const spans: [depth: number, start: number, end: number][] = [
    [0, -1, 9],
    [1, 2, 5],
    [1, 5, 5],
    [2, 3, 4],
    [0, 12, 20],
  ]
  const stages = spans.map(([depth, start_event, end_event]) => ({ ...stage("a", null, 1), depth, start_event, end_event }))
  assert.deepEqual(
    Array.from({ length: 16 }, (_, event) => stageAt(stages, event)),
    [...stageAtEvents(stages, 16)],
  )
  assert.equal(stageAt(stages, -1), -1, "before the recording")
})
