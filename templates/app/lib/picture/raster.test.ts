import { test } from "node:test"
import assert from "node:assert/strict"
import { Extremes, type Strips, without } from "../data/curves"
import { type Device, stripsOf } from "../data/device"
import { EDGE, EDGED_ROWS, ID, Rasteriser } from "./raster"
import { type Scale, EventScale, TimeScale } from "../data/scale"
import { cutDevice, deviceOf, random, randomStrips, randomTimes, totals } from "../testing"
import type { Window } from "./window"

/** Whether the state after an event covers a part of [x0, x1), or a point of it where it has no width. */
function touches(scale: Scale, event: number, x0: number, x1: number): boolean {
  const [from, to] = [scale.xOf(event), scale.endOf(event)]
  return from === to ? from >= x0 && from < x1 : from < x1 && to > x0
}

/** The rule of `Rasteriser.paint`, pixel by pixel, with nothing clever in it. */
function brute(strips: Strips, scale: Scale, hidden: Uint8Array, w: Window, width: number, height: number): Uint32Array {
  const ids = new Uint32Array(width * height)
  const liveAt = (event: number) =>
    [...strips.birth.keys()].filter((i) => !hidden[i] && strips.birth[i] <= event && strips.death[i] > event)
  const live = Array.from({ length: strips.events + 1 }, (_, at) => liveAt(at - 1))
  const { rest } = strips
  if (rest && !hidden[rest.row]) live.forEach((ids, at) => rest.height[at] > 0 && ids.push(rest.row))
  const heightAt = (i: number, event: number) => (rest && i === rest.row ? rest.height[event + 1] : strips.height[i])
  const total = live.map((ids, at) => ids.reduce((sum, i) => sum + heightAt(i, at - 1), 0))
  const perColumn = (w.x1 - w.x0) / width
  for (let x = 0; x < width; x++) {
    let shown: number | null = null
    for (let event = -1; event < strips.events; event++) {
      if (!touches(scale, event, w.x0 + x * perColumn, w.x0 + (x + 1) * perColumn)) continue
      if (shown === null || total[event + 1] > total[shown + 1]) shown = event
    }
    if (shown === null) continue
    const stack = live[shown + 1]
    const rows = (w.y1 - w.y0) / height
    for (let y = 0; y < height; y++) {
      const centre = w.y0 + (y + 0.5) * rows
      let bottom = 0
      for (const i of stack) {
        if (bottom <= centre && centre < bottom + heightAt(i, shown)) ids[x * height + y] = i + 1
        bottom += heightAt(i, shown)
        const holdsTop = w.y0 + y * rows < bottom && bottom <= w.y0 + (y + 1) * rows
        if (i === stack[stack.length - 1] && holdsTop) ids[x * height + y] = i + 1
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

/** A device whose blocks are larger than what was requested and end before it: its two curves differ. */
function randomDevice(seed: number, events: number): Device {
  const next = random(seed + 7)
  const strips = randomStrips(seed, events)
  const device = deviceOf(strips, [...strips.birth].fill(-1))
  return {
    ...device,
    requested: strips.height.map((bytes) => Math.ceil(bytes * (0.3 + 0.7 * next()))),
    freeEvent: strips.death.map((death) => Math.min(death + Math.floor(next() ** 3 * 9), events)),
  }
}

for (const axis of ["events", "time"] as const) {
  for (const curve of ["allocated", "requested"] as const) {
    test(`the fast raster of ${curve} bytes over ${axis} equals a brute-force layout, pixel for pixel`, () => {
      for (let seed = 0; seed < 60; seed++) {
        const next = random(seed + 1000)
        const events = 20 + Math.floor(next() * 130)
        const device = randomDevice(seed, events)
        const cut =
          seed % 2
            ? cutDevice(
                device,
                Uint8Array.from(device.stack, () => Number(next() < 0.5)),
              )
            : device
        const strips = stripsOf(cut, curve)
        const scale = axis === "time" ? new TimeScale(randomTimes(seed, events)) : new EventScale(events)
        const hidden = Uint8Array.from(strips.birth, () => (seed % 3 && next() < 0.3 ? 1 : 0))
        const left = without(strips, hidden)
        const extremes = new Extremes(totals(left))
        const rasteriser = new Rasteriser(left, extremes, scale)
        const highest = Math.max(...totals(left)) + 1
        const [low, high] = scale.whole
        for (let k = 0; k < 4; k++) {
          // Some windows begin where an event does, so that events without a width lie on a column's edge.
          const free = low + next() * (high - low) * 0.8
          const x0 = k === 1 ? scale.xOf(scale.eventAt(free)) : free
          const y0 = k === 0 ? 0 : next() * highest * 0.7
          const window = { x0, x1: x0 + 2 + next() * (high - low), y0, y1: y0 + 600 + next() * highest }
          const width = 3 + Math.floor(next() * 60)
          const height = 3 + Math.floor(next() * 40)
          const { ids } = rasteriser.paint(window, width, height)
          assert.deepEqual(ids, brute(strips, scale, hidden, window, width, height), `seed ${seed}, window ${k}`)
        }
      }
    })
  }
}

test("a peak of an event without a width is in its pixel column on the time axis", () => {
  const strips = { events: 4, birth: Int32Array.of(-1, 1), death: Int32Array.of(4, 2), height: Float64Array.of(100, 900) }
  const scale = new TimeScale(Float64Array.of(0, 500, 500, 1000)) // the second strip dies at the instant of its birth
  const { ids } = new Rasteriser(strips, new Extremes(totals(strips)), scale).paint({ x0: 0, x1: 1000, y0: 0, y1: 1000 }, 10, 10)
  assert.deepEqual(
    [...ids.slice(50, 60)].map((pixel) => pixel & ID),
    [1, 2, 2, 2, 2, 2, 2, 2, 2, 2],
  )
  assert.deepEqual(
    [...ids.slice(60, 70)].map((pixel) => pixel & ID),
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  )
})

test("the column of a one-event peak shows the peak", () => {
  const strips = {
    events: 1000,
    birth: Int32Array.from([-1, 500]),
    death: Int32Array.from([1000, 501]),
    height: Float64Array.from([100, 900]),
  }
  const { ids } = new Rasteriser(strips, new Extremes(totals(strips)), new EventScale(strips.events)).paint(
    { x0: -1, x1: 1000, y0: 0, y1: 1000 },
    10,
    10,
  )
  assert.deepEqual(
    [...ids.slice(50, 60)].map((pixel) => pixel & ID),
    [1, 2, 2, 2, 2, 2, 2, 2, 2, 2],
  )
  assert.deepEqual(
    [...ids.slice(40, 50)].map((pixel) => pixel & ID),
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  )
})

test("a recycled buffer gives the same picture", () => {
  const strips = randomStrips(7, 100)
  const rasteriser = new Rasteriser(strips, new Extremes(totals(strips)), new EventScale(100))
  const window = { x0: -1, x1: 100, y0: 0, y1: 500_000 }
  const first = rasteriser.paint(window, 50, 20)
  const second = rasteriser.paint(window, 50, 20, new Uint32Array(1000).fill(99))
  assert.deepEqual(second.ids, first.ids)
})

test("nothing is painted outside the recording and without allocations", () => {
  const none = { events: 0, birth: new Int32Array(0), death: new Int32Array(0), height: new Float64Array(0) }
  const { ids } = new Rasteriser(none, new Extremes(totals(none)), new EventScale(0)).paint({ x0: -1, x1: 3, y0: 0, y1: 10 }, 8, 4)
  assert.ok(ids.every((id) => id === 0))
})
