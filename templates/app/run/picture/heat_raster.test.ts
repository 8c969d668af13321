import { test } from "node:test"
import assert from "node:assert/strict"
import { CellRows } from "../data/cell_rows"
import { type HeatScale, OVER, RAMP, shadeOf } from "./heat_colours"
import { grainOf, heatRaster, type HeatSource, mostOf } from "./heat_raster"

const SCALE: HeatScale = { quantity: "allocated", low: 0, high: RAMP, most: RAMP }

/** `ranks` rows of `cells` cells; `value` of each. */
function source(ranks: number, cells: number, value: (row: number, cell: number) => number): HeatSource {
  const values = Float64Array.from({ length: ranks * cells }, (_, k) => value(Math.floor(k / cells), k % cells))
  const rows = new CellRows(new Float64Array(ranks), new Int32Array(ranks), new Int32Array(ranks).fill(cells), values)
  return { cells: rows, order: Int32Array.from({ length: ranks }, (_, k) => k), origin: 0, factor: () => 1 }
}

/** The shades of a raster from the top down, row after row; -1 where it is bare. */
function shades({ ids, width, height }: { ids: Uint32Array; width: number; height: number }): number[][] {
  return Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => ids[x * height + height - 1 - y] - 1))
}

test("each cell is a texel, rows from the top down", () => {
  const made = heatRaster(
    source(2, 3, (row, cell) => row * 10 + cell),
    { x0: 0, x1: 3, y0: 0, y1: 2 },
    { level: 0, bundle: 1 },
    SCALE,
  )
  assert.deepEqual(shades(made), [
    [0, 1, 2],
    [10, 11, 12],
  ])
  assert.deepEqual(made.window, { x0: 0, x1: 3, y0: 0, y1: 2 })
})

test("one odd cell among a thousand ranks is on the picture, whatever its size", () => {
  const odd = source(1024, 512, (row, cell) => (row === 617 && cell === 201 ? 200 : 3))
  for (const [width, height] of [
    [1200, 560],
    [300, 200],
    [40, 30],
  ]) {
    const w = { x0: 0, x1: 512, y0: 0, y1: 1024 }
    const grain = grainOf(odd, w, width, height)
    const made = heatRaster(odd, w, grain, SCALE)
    assert.ok(made.width <= width && made.height <= height, "no texel is smaller than a pixel")
    const found = shades(made).flatMap((line, y) => line.flatMap((shade, x) => (shade === 200 ? [[y, x]] : [])))
    assert.deepEqual(found, [[Math.floor(617 / grain.bundle), Math.floor(201 / 2 ** grain.level)]])
    assert.equal(mostOf(odd, grain, 617, Math.floor(201 / 2 ** grain.level)), 617)
  }
})

test("a window's texels are cut at multiples of their size, and the last bundle may be short", () => {
  const made = heatRaster(
    source(5, 8, (row) => row),
    { x0: 3, x1: 6, y0: 0, y1: 3 },
    { level: 1, bundle: 2 },
    SCALE,
  )
  assert.deepEqual(made.window, { x0: 2, x1: 6, y0: -1, y1: 3 })
  assert.deepEqual(shades(made), [
    [3, 3],
    [4, 4],
  ])
})

test("rows keep their order, and those without a factor are bare", () => {
  const part: HeatSource = { ...source(3, 1, (row) => row + 1), order: Int32Array.of(2, 0), factor: (row) => (row === 2 ? 0 : 1) }
  assert.deepEqual(shades(heatRaster(part, { x0: 0, x1: 1, y0: 0, y1: 2 }, { level: 0, bundle: 1 }, SCALE)), [[-1], [1]])
})

test("the raster has the shades of the scale", () => {
  const scale = { ...SCALE, low: 100, high: 300, most: 900 }
  const values = [50, 100, 150, 299, 300, 301, 900]
  const made = heatRaster(
    source(1, values.length, (_, cell) => values[cell]),
    { x0: 0, x1: 7, y0: 0, y1: 1 },
    { level: 0, bundle: 1 },
    scale,
  )
  assert.deepEqual(
    shades(made)[0],
    values.map((value) => shadeOf(value, scale)),
  )
  assert.deepEqual(
    values.map((value) => shadeOf(value, scale)),
    [0, 0, 63, 253, 254, OVER, OVER],
  )
})
