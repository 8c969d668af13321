import { test } from "node:test"
import assert from "node:assert/strict"
import { firstPlace, medianOf } from "./places"

test("the first place is found in every part of what is in order", () => {
  const events = Int32Array.of(2, 5, 9)
  assert.deepEqual(
    [0, 2, 3, 5, 9, 10].map((event) => firstPlace(0, events.length, (k) => events[k] >= event)),
    [0, 0, 1, 1, 2, 3],
  )
  assert.equal(
    firstPlace(1, 2, (k) => events[k] >= 10),
    2,
    "a part ends before the rest",
  )
  assert.equal(
    firstPlace(2, 2, () => true),
    2,
    "nothing has no place but its end",
  )
})

test("the median is the middle one, or between the two in the middle", () => {
  assert.deepEqual([[], [3], [1, 4], [1, 2, 9], [1, 2, 4, 9]].map(medianOf), [0, 3, 2, 2, 3])
})
