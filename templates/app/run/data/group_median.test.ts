import { test } from "node:test"
import assert from "node:assert/strict"
import { CellRows, medianCurve } from "./cell_rows"

test("the median of a cell is that of the rows that have it", () => {
  const values = [1, 9, 4, 2, 8, 3, 7, 30, 6, -1, 5, -1]
  const cells = new CellRows(Float64Array.of(0, 0, 1, 0), new Int32Array(4), Int32Array.of(3, 3, 3, 3), Float64Array.from(values))
  // Cells 0 to 3 of the rows: 1 9 4 -, 2 8 3 -, - 7 30 6, - 5 - -.
  assert.deepEqual([...medianCurve(cells, [0, 1, 2, 3], 0, 0, 5)], [1, 7, 4, 6, -1])
  assert.deepEqual([...medianCurve(cells, [0, 1, 2], 1, 0, 2)], [8, 4])
})
