import assert from "node:assert/strict"
import { test } from "node:test"
import { random } from "../testing"
import { timeTickLabels, timeTicks } from "./ticks"

const written = (low: number, high: number, wanted = 5) => timeTickLabels(timeTicks(low, high, wanted))

test("times are written in the unit of the largest, as exactly as they are apart", () => {
  assert.deepEqual(written(0, 280_400), ["0", "100 ms", "200 ms"])
  assert.deepEqual(written(0, 40), ["0", "10 \u00b5s", "20 \u00b5s", "30 \u00b5s", "40 \u00b5s"])
  assert.deepEqual(written(1_200_000, 1_260_000, 3), ["1.20 s", "1.22 s", "1.24 s", "1.26 s"])
  assert.deepEqual(written(0, 200e6, 4), ["0:00", "1:00", "2:00", "3:00"])
  assert.deepEqual(written(3500e6, 3900e6, 3), ["1:00:00", "1:05:00"])
})

test("time ticks lie inside, evenly, about as many as were wanted", () => {
  const next = random(3)
  for (let round = 0; round < 300; round++) {
    const low = next() * 10 ** (next() * 11)
    const high = low + 10 + next() * 10 ** (next() * 11)
    const ticks = timeTicks(low, high, 6)
    assert.ok(ticks.every((tick) => tick >= low && tick <= high))
    assert.ok(ticks.length <= 8, `${low} ${high}: ${ticks.length}`)
    for (let k = 2; k < ticks.length; k++) assert.ok(Math.abs(ticks[k] - 2 * ticks[k - 1] + ticks[k - 2]) < 1e-3)
    assert.equal(new Set(timeTickLabels(ticks)).size, ticks.length, timeTickLabels(ticks).join())
  }
})
