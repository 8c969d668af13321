import { test } from "node:test"
import assert from "node:assert/strict"
import { curveOf } from "./curves"
import { columnPlaces, envelope, stepName, type Steps } from "./steps"
import { random, randomStrips } from "../testing"

test("a column has the most of its share, and together they have the step's peak", () => {
  for (let seed = 0; seed < 60; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 80)
    const curve = curveOf(strips)
    const bounds = Int32Array.from([0, 1 + Math.floor(next() * 30), 40, 41, 80])
    for (const columns of [1, 3, 17, 200]) {
      for (let step = 0; step < 4; step++) {
        const places = columnPlaces(curve, bounds, step, columns)
        const [start, end] = [bounds[step], bounds[step + 1]]
        let most = 0
        for (let place = start; place <= end; place++) most = Math.max(most, curve.at(place))
        assert.equal(Math.max(...[...places].map((place) => curve.at(place))), most)
        assert.ok(places.every((place) => start <= place && place <= end))
        assert.ok(places.every((place, c) => c === 0 || place >= places[c - 1] || curve.at(place) >= curve.at(places[c - 1])))
      }
    }
  }
})

test("with a column for each event a column has what was before it and after it", () => {
  const strips = { events: 4, birth: Int32Array.of(0, 1), death: Int32Array.of(2, 3), height: Float64Array.of(512, 1024) }
  const curve = curveOf(strips) // 0, 512, 1536, 1024, 0
  assert.deepEqual(
    [...columnPlaces(curve, Int32Array.of(0, 4), 0, 4)].map((place) => curve.at(place)),
    [512, 1536, 1536, 1024],
  )
})

test("an envelope holds every curve", () => {
  const { least, most } = envelope([Float64Array.of(1, 5), Float64Array.of(3, 2), Float64Array.of(2, 9)])
  assert.deepEqual([...least], [1, 2])
  assert.deepEqual([...most], [3, 9])
})

test("a step is called by its number, and by its name where it has one", () => {
  const steps = { names: ["", "epoch 1"] } as Steps
  assert.equal(stepName(steps, 0), "1")
  assert.equal(stepName(steps, 1), "2 epoch 1")
})
