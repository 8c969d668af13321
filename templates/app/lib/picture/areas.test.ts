import assert from "node:assert/strict"
import { test } from "node:test"
import { areasOf, EDGE } from "./raster"

test("a group's area is its pixels, edges included, and what is blank belongs to none", () => {
  // Allocations 0 and 2 are of group 1, allocation 1 of group 0; group 2 is out of sight.
  const ids = Uint32Array.from([0, 1, 1 + EDGE, 2, 3, 0])
  assert.deepEqual([...areasOf({ ids }, Int32Array.from([1, 0, 1, 2]), 3)], [1, 3, 0])
})
