import { test } from "node:test"
import assert from "node:assert/strict"
import { Extremes, type Strips, totals } from "./curves"
import { EDGE, EDGED_ROWS, ID, Rasteriser } from "./raster"
import { random, randomStrips } from "./testing"
import type { Window } from "./window"

/** The rule of `Rasteriser.paint`, pixel by pixel, with nothing clever in it. */
function brute(strips: Strips, w: Window, width: number, height: number): Uint32Array {
  const ids = new Uint32Array(width * height)
  const liveAt = (step: number) =>
    [...strips.birth.keys()].filter((i) => strips.birth[i] <= step && strips.death[i] > step)
  const total = (step: number) => liveAt(step).reduce((sum, i) => sum + strips.height[i], 0)
  for (let x = 0; x < width; x++) {
    const perColumn = (w.x1 - w.x0) / width
    let shown: number | null = null
    for (let step = -1; step < strips.events; step++) {
      const touches = step + 1 > w.x0 + x * perColumn && step < w.x0 + (x + 1) * perColumn
      if (touches && (shown === null || total(step) > total(shown))) shown = step
    }
    if (shown === null) continue
    const live = liveAt(shown)
    const rows = (w.y1 - w.y0) / height
    for (let y = 0; y < height; y++) {
      const centre = w.y0 + (y + 0.5) * rows
      let bottom = 0
      for (const i of live) {
        if (bottom <= centre && centre < bottom + strips.height[i]) ids[x * height + y] = i + 1
        bottom += strips.height[i]
        const holdsTop = w.y0 + y * rows < bottom && bottom <= w.y0 + (y + 1) * rows
        if (i === live[live.length - 1] && holdsTop) ids[x * height + y] = i + 1
      }
    }
  }
  return withEdges(ids, width, height)
}

function withEdges(ids: Uint32Array, width: number, height: number): Uint32Array {
  const out = ids.slice()
  for (let x = 0; x < width; x++) {
    for (let y = 0; y < height; y++) {
      const id = ids[x * height + y]
      let bottom = y
      let top = y
      while (bottom > 0 && ids[x * height + bottom - 1] === id) bottom--
      while (top < height - 1 && ids[x * height + top + 1] === id) top++
      if (!id || top - bottom + 1 < EDGED_ROWS) continue
      const begins = x > 0 && ids[(x - 1) * height + Math.floor((bottom + top + 1) / 2)] !== id
      if (begins || (y === top && top < height - 1)) out[x * height + y] += EDGE
    }
  }
  return out
}

test("the fast raster equals a brute-force layout, pixel for pixel, in random windows", () => {
  for (let seed = 0; seed < 150; seed++) {
    const next = random(seed + 1000)
    const strips = randomStrips(seed, 20 + Math.floor(next() * 150))
    const extremes = new Extremes(totals(strips))
    const rasteriser = new Rasteriser(strips, extremes)
    const highest = Math.max(...extremes.values) + 1
    for (let k = 0; k < 4; k++) {
      const x0 = -1 + next() * strips.events * 0.8
      const y0 = k === 0 ? 0 : next() * highest * 0.7
      const window = { x0, x1: x0 + 2 + next() * strips.events, y0, y1: y0 + 600 + next() * highest }
      const width = 3 + Math.floor(next() * 60)
      const height = 3 + Math.floor(next() * 40)
      const { ids } = rasteriser.paint(window, width, height)
      assert.deepEqual(ids, brute(strips, window, width, height), `seed ${seed}, window ${k}`)
    }
  }
})

test("the column of a one-step peak shows the peak", () => {
  const strips = {
    events: 1000,
    birth: Int32Array.from([-1, 500]),
    death: Int32Array.from([1000, 501]),
    height: Float64Array.from([100, 900]),
  }
  const { ids } = new Rasteriser(strips, new Extremes(totals(strips))).paint({ x0: -1, x1: 1000, y0: 0, y1: 1000 }, 10, 10)
  assert.deepEqual([...ids.slice(50, 60)].map((pixel) => pixel & ID), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2])
  assert.deepEqual([...ids.slice(40, 50)].map((pixel) => pixel & ID), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
})

test("a recycled buffer gives the same picture", () => {
  const strips = randomStrips(7, 100)
  const rasteriser = new Rasteriser(strips, new Extremes(totals(strips)))
  const window = { x0: -1, x1: 100, y0: 0, y1: 500_000 }
  const first = rasteriser.paint(window, 50, 20)
  const second = rasteriser.paint(window, 50, 20, new Uint32Array(1000).fill(99))
  assert.deepEqual(second.ids, first.ids)
})

test("nothing is painted outside the recording and without allocations", () => {
  const none = { events: 0, birth: new Int32Array(0), death: new Int32Array(0), height: new Float64Array(0) }
  const { ids } = new Rasteriser(none, new Extremes(totals(none))).paint({ x0: -1, x1: 3, y0: 0, y1: 10 }, 8, 4)
  assert.ok(ids.every((id) => id === 0))
})
