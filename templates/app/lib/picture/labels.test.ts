import { test } from "node:test"
import assert from "node:assert/strict"
import { overlap, placeLabels, placeOnLine, type Rect } from "./labels"
import { random } from "../testing"

const AREA: Rect = { left: 60, top: 20, width: 300, height: 200 }

test("a label stands above its point where there is room", () => {
  assert.deepEqual(placeLabels([{ x: 200, y: 120, width: 80, height: 16 }], AREA, 8), [{ left: 160, top: 96, width: 80, height: 16 }])
})

test("a label at the top goes beside or below its point, one at the side stays inside", () => {
  const places = placeLabels(
    [
      { x: 200, y: 30, width: 80, height: 16 },
      { x: 100, y: 22, width: 80, height: 16 },
      { x: 358, y: 150, width: 80, height: 16 },
    ],
    AREA,
    8,
  )
  assert.deepEqual(
    places.map((place) => [place?.left, place?.top]),
    [
      [208, 22],
      [60, 30],
      [280, 126],
    ],
  )
})

test("labels never overlap one another or leave the plot, however close their points", () => {
  for (let seed = 0; seed < 300; seed++) {
    const next = random(seed)
    const [x, y] = [60 + next() * 300, 20 + next() * 200]
    const wanted = Array.from({ length: 1 + Math.floor(next() * 12) }, () => ({
      x: Math.min(Math.max(x + next() * 20 - 10, 60), 360),
      y,
      width: 60 + next() * 160,
      height: 16,
    }))
    const places = placeLabels(wanted, AREA, 8)
    const shown = places.filter((place) => place !== null)
    assert.ok(places[0], "the first label always has a place")
    for (const [k, a] of shown.entries()) {
      assert.ok(a.left >= 60 && a.top >= 20 && a.left + a.width <= 360 && a.top + a.height <= 220)
      for (const b of shown.slice(k + 1)) assert.ok(!overlap(a, b))
    }
  }
})

test("a label wider than the plot is left out", () => {
  assert.deepEqual(placeLabels([{ x: 200, y: 120, width: 400, height: 16 }], AREA, 8), [null])
})

test("a line's text stands above it at the left, else below, at the right, or shorter, and never over another", () => {
  const on = (y: number, taken: Rect[]) => {
    const place = placeOnLine([200, 60], y, 16, AREA, taken)
    return place && [place.text, place.rect.left, place.rect.top]
  }
  assert.deepEqual(on(100, []), [0, 60, 83])
  assert.deepEqual(on(30, []), [0, 60, 32]) // no room above
  assert.deepEqual(on(100, [{ left: 70, top: 85, width: 20, height: 10 }]), [0, 160, 83])
  assert.deepEqual(on(100, [{ left: 70, top: 0, width: 100, height: 300 }]), [1, 300, 83])
  assert.deepEqual(on(100, [{ left: 60, top: 90, width: 300, height: 20 }]), [0, 60, 67]) // further off
  assert.deepEqual(on(100, [{ left: 60, top: 0, width: 300, height: 300 }]), null)
})
