import { test } from "node:test"
import assert from "node:assert/strict"
import { Changes, curveOf, Extremes, unitOf } from "./curves"
import { random, randomStrips, totals } from "../testing"

test("totals are the sums over what is live after each event", () => {
  for (let seed = 0; seed < 50; seed++) {
    const strips = randomStrips(seed, 80)
    const sums = totals(strips)
    for (let event = -1; event < strips.events; event++) {
      let sum = 0
      for (let i = 0; i < strips.birth.length; i++) {
        if (strips.birth[i] <= event && strips.death[i] > event) sum += strips.height[i]
      }
      assert.equal(sums[event + 1], sum)
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

test("a curve kept in units is the same to the byte", () => {
  for (const height of [512, 2 ** 20 + 512, 3, 2 ** 33 + 1, 2 ** 40, 2 ** 31 - 512]) {
    const strips = {
      unit: unitOf(8 * height, Float64Array.of(height)),
      events: 3,
      birth: Int32Array.of(-1, 0, 1),
      death: Int32Array.of(2, 3, 3),
      height: Float64Array.of(height, 2 * height, 5 * height),
    }
    const curve = curveOf(strips)
    assert.deepEqual(
      [0, 1, 2, 3].map((place) => curve.at(place)),
      [1, 3, 8, 7].map((times) => times * height),
      String(height),
    )
    assert.equal(curve.firstMax(0, 4), 2)
  }
  assert.deepEqual(
    [unitOf(2 ** 39, Float64Array.of(512, 2 ** 20), Float64Array.of(1024)), unitOf(2 ** 40, Float64Array.of(512)), unitOf(0)],
    [512, 0, 2 ** 31],
  )
})

test("changes hold until the next one, and their first maximum is that of the curve spelled out", () => {
  const next = random(5)
  for (let round = 0; round < 200; round++) {
    const length = 2 + Math.floor(next() * 30)
    const events = [...Array(length - 1).keys()].map((event) => event - 1).filter((event) => event < 0 || next() < 0.3)
    const bytes = Float64Array.from(events, () => Math.floor(next() * 4))
    const curve = new Changes(Int32Array.from(events), bytes, length)
    const spelled: number[] = []
    for (let place = 0, k = 0; place < length; place++) {
      while (k + 1 < events.length && events[k + 1] + 1 <= place) k++
      spelled.push(bytes[k])
    }
    assert.deepEqual(
      spelled.map((_, place) => curve.at(place)),
      spelled,
    )
    const extremes = new Extremes(Float64Array.from(spelled))
    for (let from = 0; from < length; from++) {
      for (let to = from + 1; to <= length; to++) assert.equal(curve.firstMax(from, to), extremes.firstMax(from, to))
    }
  }
})

test("without any change a curve is nothing throughout", () => {
  const curve = new Changes(new Int32Array(0), new Float64Array(0), 3)
  assert.deepEqual([curve.at(0), curve.at(2), curve.firstMax(1, 3)], [0, 0, 1])
})
