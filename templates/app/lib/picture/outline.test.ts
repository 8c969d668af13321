import assert from "node:assert/strict"
import { test } from "node:test"
import { Extremes } from "../data/curves"
import { outline } from "./outline"
import { EventScale, TimeScale } from "../data/scale"
import { random, randomStrips, randomTimes, totals } from "../testing"

test("an outline shows the most of every pixel column, on both axes and in random windows", () => {
  for (let seed = 0; seed < 80; seed++) {
    const next = random(seed + 50)
    const events = 30 + Math.floor(next() * 150)
    const sums = totals(randomStrips(seed, events))
    const extremes = new Extremes(sums)
    for (const scale of [new EventScale(events), new TimeScale(randomTimes(seed, events))]) {
      const [low, high] = scale.whole
      const x0 = low + next() * (high - low) * 0.7
      const w = { x0, x1: Math.min(x0 + 5 + next() * (high - low), high), y0: 0, y1: 1 }
      const width = 4 + Math.floor(next() * 90)
      const line = outline(extremes, scale, w, width)
      for (let x = 0; x < width; x++) {
        const perPixel = (w.x1 - w.x0) / width
        const [from, to] = scale.eventsIn(w.x0 + x * perPixel, w.x0 + (x + 1) * perPixel)
        if (to <= from) continue
        const most = Math.max(...sums.subarray(from + 1, to + 1))
        let shown = -Infinity
        // Pieces that reach into the column, or are a point of it.
        for (let k = 0; k < line.length; k += 3) {
          const [a, b] = [line[k], line[k + 1]]
          if (a === b ? a >= x - 1e-9 && a <= x + 1 : a < x + 1 - 1e-9 && b > x + 1e-9) shown = Math.max(shown, line[k + 2])
        }
        assert.ok(shown >= most, `${scale.axis} seed ${seed} column ${x}`)
      }
    }
  }
})

test("an outline is as long as its pixels, not as its events", () => {
  const extremes = new Extremes(new Float64Array(100_001).map((_, k) => k % 7))
  assert.equal(outline(extremes, new EventScale(100_000), { x0: -1, x1: 100_000, y0: 0, y1: 7 }, 50).length, 150)
})

test("zoomed in, each event is a piece of its own, cut to the window", () => {
  const extremes = new Extremes(Float64Array.of(5, 1, 2, 3))
  assert.deepEqual([...outline(extremes, new EventScale(3), { x0: -0.5, x1: 1.5, y0: 0, y1: 9 }, 40)], [0, 10, 5, 10, 30, 1, 30, 40, 2])
})

test("an outline begins where its curve is known, at every zoom", () => {
  const extremes = new Extremes(new Float64Array(1001).map((_, event) => event + 1))
  const scale = new EventScale(1000)
  for (const width of [50, 2000]) {
    const whole = outline(extremes, scale, { x0: -1, x1: 1000, y0: 0, y1: 1 }, width)
    const line = outline(extremes, scale, { x0: -1, x1: 1000, y0: 0, y1: 1 }, width, 600)
    assert.deepEqual(line, whole.slice(-line.length))
    assert.equal(Math.floor(line[0] / (width / 1001)), width === 50 ? 600 - (600 % 20) : 601)
    assert.equal(outline(extremes, scale, { x0: -1, x1: 500, y0: 0, y1: 1 }, width, 600).length, 0)
  }
})
