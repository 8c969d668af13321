import assert from "node:assert/strict"
import { test } from "node:test"
import { bandRows, bandsIn, MOST_ROWS, stagePath } from "./bands"
import type { StageSummary } from "../data/payload"
import { EventScale, TimeScale } from "../data/scale"

const stage = (name: string, depth: number, start_event: number, end_event: number, parent: number | null = null) =>
  ({ name, depth, start_event, end_event, parent }) as StageSummary
const WHOLE = { x0: 0, x1: 100, y0: 0, y1: 1 }

test("bands lie where their events do, cut to the window", () => {
  const stages = [stage("a", 0, 10, 60), stage("b", 1, 20, 30)]
  assert.deepEqual(bandsIn(stages, new EventScale(100), { ...WHOLE, x0: 20 }, 160), [
    { stage: 0, row: 0, left: 0, right: 80 },
    { stage: 1, row: 1, left: 0, right: 20 },
  ])
})

test("bands follow the clock on the time axis", () => {
  const scale = new TimeScale(Float64Array.of(0, 10, 90, 100))
  const [band] = bandsIn([stage("a", 0, 1, 2)], scale, WHOLE, 100)
  assert.deepEqual([band.left, band.right], [10, 90])
})

test("stages deeper than there are rows share the last one, the innermost in front", () => {
  const stages = Array.from({ length: 8 }, (_, depth) => stage(`s${depth}`, depth, depth, 90))
  assert.equal(bandRows(stages), MOST_ROWS)
  const bands = bandsIn([...stages].reverse(), new EventScale(100), WHOLE, 100)
  assert.deepEqual(
    bands.map((band) => band.row),
    [0, 1, 2, 3, 4, 4, 4, 4],
  )
  assert.equal(bands[bands.length - 1].stage, 0) // the deepest, first in the reversed list
})

test("of bands narrower than a pixel one per pixel and row is left", () => {
  const stages = Array.from({ length: 1000 }, (_, k) => stage("tiny", 0, k, k + 1))
  assert.ok(bandsIn(stages, new EventScale(1000), { ...WHOLE, x1: 1000 }, 50).length <= 51)
})

test("a stage's path names what is around it", () => {
  assert.deepEqual(stagePath([stage("a", 0, 0, 9), stage("b", 1, 1, 8, 0), stage("c", 2, 2, 3, 1)], 2), ["a", "b", "c"])
})
