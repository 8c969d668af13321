import { test } from "node:test"
import assert from "node:assert/strict"
import { CellRows, levelFor, NO_CELL } from "./cell_rows"

/** Rows as [first, shift, values]. */
function rows(...each: [number, number, number[]][]): CellRows {
  return new CellRows(
    Float64Array.from(each.map(([first]) => first)),
    Int32Array.from(each.map(([, shift]) => shift)),
    Int32Array.from(each.map(([, , values]) => values.length)),
    Float64Array.from(each.flatMap(([, , values]) => values)),
  )
}

function joined(cells: CellRows, row: number, level: number, from: number, count: number, factor = 1): number[] {
  const out = new Float64Array(count).fill(NO_CELL)
  cells.joinInto(out, row, level, from, factor)
  return [...out]
}

test("two cells side by side make one of the next width, at edges that are multiples of it", () => {
  const cells = rows([3, 0, [5, 1, 2, 9, 4]]) // places 3 to 7
  assert.deepEqual(joined(cells, 0, 0, 2, 7), [-1, 5, 1, 2, 9, 4, -1])
  assert.deepEqual(joined(cells, 0, 1, 1, 3), [5, 2, 9]) // 2-3, 4-5, 6-7
  assert.deepEqual(joined(cells, 0, 2, 0, 3), [5, 9, -1])
  assert.deepEqual(joined(cells, 0, 2, 1, 1, 0.5), [4.5])
})

test("a cell wider than what is asked for counts in all that it covers, and in nothing else", () => {
  const cells = rows([1, 2, [7, 3]]) // 4 to 7, 8 to 11
  assert.deepEqual(joined(cells, 0, 0, 2, 8), [-1, -1, 7, 7, 7, 7, 3, 3])
  assert.deepEqual(joined(cells, 0, 1, 3, 4), [7, 3, 3, -1])
})

test("no value is lost or made up, whatever the width", () => {
  let seed = 1
  const next = (below: number) => (seed = (seed * 48271) % 2147483647) % below
  for (let k = 0; k < 200; k++) {
    const values = Array.from({ length: 1 + next(40) }, () => (next(9) ? next(1000) : NO_CELL))
    const [first, shift, level] = [next(50), next(3), next(6)]
    const cells = rows([0, 0, [1]], [first, shift, values])
    const from = Math.floor((first * 2 ** shift) / 2 ** level)
    const count = Math.floor(((first + values.length) * 2 ** shift) / 2 ** level) - from + 1
    const expected = Array.from({ length: count }, (_, at) => {
      const [low, high] = [(from + at) * 2 ** level, (from + at + 1) * 2 ** level]
      return values.reduce((most, value, i) => {
        const [start, end] = [(first + i) * 2 ** shift, (first + i + 1) * 2 ** shift]
        return start < high && end > low ? Math.max(most, value) : most
      }, NO_CELL)
    })
    assert.deepEqual(joined(cells, 1, level, from, count), expected)
  }
})

test("times since 1970 are exact", () => {
  const first = Math.floor(1_763_900_000_123_456 / 2 ** 13)
  const cells = rows([first, 13, [1, 8, 2]])
  assert.equal(cells.low, first * 8192)
  assert.deepEqual(joined(cells, 0, 13, first, 3), [1, 8, 2])
  assert.equal(cells.peakPlace(0), (first + 1.5) * 8192)
})

test("the width for a pixel is the next power of two", () => {
  assert.deepEqual([0.3, 1, 1.01, 2, 1000, 1024, 1025].map(levelFor), [0, 0, 1, 1, 10, 10, 11])
})

test("a row without cells has no peak", () => {
  const cells = rows([0, 0, []], [4, 1, [NO_CELL, 6]])
  assert.equal(cells.peak(0), NO_CELL)
  assert.equal(cells.peakPlace(0), null)
  assert.equal(cells.peakPlace(1), 11)
  assert.deepEqual([cells.low, cells.high, cells.narrowest], [8, 12, 1])
})
