import assert from "node:assert/strict"
import { test } from "node:test"
import { MOST_PX, RowScroll } from "./rows"

test("a short list scrolls pixel by pixel", () => {
  const scroll = new RowScroll(100, 20, 210)
  assert.equal(scroll.heightPx, 2000)
  assert.equal(scroll.topAt(30), 1.5)
  assert.deepEqual(scroll.rowsAt(1.5), [1, 13])
  assert.equal(scroll.topAt(1e9), 89.5)
})

test("in three million rows every row can be reached and the ends are exact", () => {
  const scroll = new RowScroll(3_000_000, 24, 480)
  assert.equal(scroll.heightPx, MOST_PX)
  assert.equal(scroll.topAt(0), 0)
  assert.equal(scroll.topAt(MOST_PX - 480), 3_000_000 - 20)
  for (const row of [0, 1, 1_234_567, 2_999_979, 2_999_999]) {
    const top = scroll.reveal(row, 700)
    const [first, end] = scroll.rowsAt(top)
    assert.ok(row >= first && row < end)
    assert.ok(Math.abs(scroll.topAt(scroll.scrollAt(top)) - top) < 1e-6)
  }
})

test("what is in sight is not moved", () => {
  const scroll = new RowScroll(100, 20, 200)
  assert.equal(scroll.reveal(15, 10), 10)
  assert.equal(scroll.reveal(20, 10), 11)
  assert.equal(scroll.reveal(3, 10), 3)
})

test("a list shorter than its view has one place", () => {
  const scroll = new RowScroll(3, 20, 200)
  assert.equal(scroll.lastTop, 0)
  assert.deepEqual(scroll.rowsAt(0), [0, 3])
})

test("without a view no row can come into sight", () => {
  const scroll = new RowScroll(100, 20, 0)
  assert.equal(scroll.reveal(30, 0), 0)
  assert.equal(scroll.reveal(0, 7), 7)
})
