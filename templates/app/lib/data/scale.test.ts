import assert from "node:assert/strict"
import { test } from "node:test"
import { type Scale, EventScale, TimeScale } from "./scale"
import { random } from "../testing"

/** What `eventsIn` must give: an event touches [x0, x1) when it covers part of it or lies inside without a width. */
function touched(scale: Scale, x0: number, x1: number): number[] {
  const out: number[] = []
  for (let s = -1; s < scale.events; s++) {
    const [from, to] = [scale.xOf(s), scale.endOf(s)]
    if (from === to ? from >= x0 && from < x1 : from < x1 && to > x0) out.push(s)
  }
  return out
}

test("events cover one unit each, the start the one before", () => {
  const scale = new EventScale(10)
  assert.deepEqual(scale.whole, [-1, 10])
  assert.deepEqual(scale.eventsIn(-1, 10), [-1, 10])
  assert.deepEqual(scale.eventsIn(2.5, 3), [2, 3])
  assert.equal(scale.eventAt(-0.5), -1)
  assert.equal(scale.eventAt(99), 9)
})

test("a clock that steps back is held", () => {
  const scale = new TimeScale(Float64Array.of(1000, 1010, 1005, 1020))
  assert.deepEqual(
    [0, 1, 2, 3].map((s) => scale.xOf(s)),
    [0, 10, 10, 20],
  )
  assert.equal(scale.eventAt(10), 2)
  assert.equal(scale.eventAt(9.5), 0)
  assert.deepEqual(scale.eventsIn(10, 11), [1, 3])
  assert.deepEqual(scale.eventsIn(9, 10), [0, 1])
})

test("every event of a span is found, and no other, on random clocks", () => {
  const next = random(5)
  for (let round = 0; round < 200; round++) {
    const count = 1 + Math.floor(next() * 12)
    const times = new Float64Array(count)
    for (let s = 1; s < count; s++) times[s] = times[s - 1] + Math.floor(next() * 4) - (next() < 0.1 ? 3 : 0)
    const narrow = Uint32Array.from(times, (time) => time + 100)
    for (const scale of [new TimeScale(times), new TimeScale(narrow), new EventScale(count)]) {
      const span = scale.whole[1] - scale.whole[0]
      const a = scale.whole[0] + Math.round(next() * span * 2) / 2
      const b = Math.min(a + 0.5 + Math.round(next() * span), scale.whole[1])
      if (b <= a) continue
      const [first, end] = scale.eventsIn(a, b)
      assert.deepEqual(
        Array.from({ length: Math.max(end - first, 0) }, (_, k) => first + k),
        touched(scale, a, b),
        `${scale.axis} ${a} ${b} ${[...times]}`,
      )
      const event = scale.eventAt(a)
      assert.ok(scale.xOf(event) <= a && (event === count - 1 || scale.xOf(event + 1) > a))
    }
  }
})
