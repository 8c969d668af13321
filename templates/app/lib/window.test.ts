import assert from "node:assert/strict"
import { test } from "node:test"
import { clampWindow, sameWindow, wholeWindow } from "./window"

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
