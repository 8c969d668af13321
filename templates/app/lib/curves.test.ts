import { test } from "node:test"
import assert from "node:assert/strict"
import { Extremes, spread, totals } from "./curves"
import { random, randomStrips } from "./testing"

test("totals are the sums over what is live after each step", () => {
  for (let seed = 0; seed < 50; seed++) {
    const strips = randomStrips(seed, 80)
    const sums = totals(strips)
    for (let step = -1; step < strips.events; step++) {
      let sum = 0
      for (let i = 0; i < strips.birth.length; i++) {
        if (strips.birth[i] <= step && strips.death[i] > step) sum += strips.height[i]
      }
      assert.equal(sums[step + 1], sum)
    }
  }
})

test("firstMax finds the first of equal maxima in any range", () => {
  const next = random(3)
  const values = Float64Array.from({ length: 1000 }, () => Math.floor(next() * 20))
  const extremes = new Extremes(values)
  for (let k = 0; k < 2000; k++) {
    const from = Math.floor(next() * 999)
    const to = from + 1 + Math.floor(next() * (1000 - from))
    const slice = values.slice(from, to)
    assert.equal(extremes.firstMax(from, to), from + slice.indexOf(Math.max(...slice)))
  }
})

test("spread repeats a value until its next change", () => {
  assert.deepEqual([...spread(4, Int32Array.of(-1, 2), Float64Array.of(7, 9))], [7, 7, 7, 9, 9])
})
