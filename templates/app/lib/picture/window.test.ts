import assert from "node:assert/strict"
import { test } from "node:test"
import { around, clampWindow, common, sameWindow, wholeWindow, type Window } from "./window"

test("the whole view stays what it is to the bit, whatever its ends are", () => {
  const whole = wholeWindow([-512.816, 64614.816], 5_675_878_970 / 1.09)
  assert.ok(sameWindow(clampWindow(whole, whole), whole))
  assert.ok(sameWindow(clampWindow({ x0: -9e9, x1: 9e9, y0: -9e9, y1: 9e12 }, whole), whole))
})

test("a window is kept inside and no smaller than can be read", () => {
  const whole = { x0: -1, x1: 100, y0: 0, y1: 1e6 }
  assert.deepEqual(clampWindow({ x0: 90, x1: 110, y0: 0, y1: 1e6 }, whole), { x0: 80, x1: 100, y0: 0, y1: 1e6 })
  const least = clampWindow({ x0: 50, x1: 50.1, y0: 10, y1: 11 }, whole)
  assert.deepEqual([least.x1 - least.x0, least.y1 - least.y0], [4, 4096])
})

test("what lies around a window fills the rest of the other once, edge to edge", () => {
  const whole = { x0: 0, x1: 10, y0: 0, y1: 10 }
  const holes = [
    { x0: 2, x1: 7, y0: 3, y1: 4 },
    { x0: -5, x1: 4, y0: 6, y1: 20 },
    { x0: -1, x1: 11, y0: 2, y1: 5 },
    { x0: -1, x1: 10, y0: 0, y1: 30 },
    { x0: 10, x1: 20, y0: 0, y1: 10 },
    { x0: 3, x1: 3, y0: 0, y1: 10 },
  ]
  const holds = (w: Window, x: number, y: number) => x >= w.x0 && x < w.x1 && y >= w.y0 && y < w.y1
  for (const hole of holes) {
    const parts = around(hole, whole)
    for (let x = 0.5; x < 10; x++) {
      for (let y = 0.5; y < 10; y++) {
        assert.equal(parts.filter((part) => holds(part, x, y)).length, holds(hole, x, y) ? 0 : 1, `${x} ${y}`)
      }
    }
  }
  assert.deepEqual(around(holes[3], whole), [])
  assert.deepEqual(around(holes[4], whole), [whole])
  assert.equal(common(holes[4], whole), null)
})
