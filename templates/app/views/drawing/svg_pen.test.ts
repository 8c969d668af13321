import assert from "node:assert/strict"
import { test } from "node:test"
import { Extremes } from "../../lib/data/curves"
import { ID, Rasteriser } from "../../lib/picture/raster"
import { stripPaths } from "./svg_pen"
import { EventScale } from "../../lib/data/scale"
import { random, randomStrips, totals } from "../../lib/testing"

/** Paints rectangles back into pixels; a pixel that is painted twice throws. */
function painted(paths: Map<number, string>, width: number, height: number): Uint32Array {
  const out = new Uint32Array(width * height)
  for (const [colour, path] of paths) {
    for (const [, x, y, w, h] of path.matchAll(/M(\d+) (\d+)h(\d+)v(\d+)h-\d+z/g)) {
      for (let column = Number(x); column < Number(x) + Number(w); column++) {
        for (let row = Number(y); row < Number(y) + Number(h); row++) {
          const at = column * height + (height - 1 - row)
          assert.equal(out[at], 0)
          out[at] = colour
        }
      }
    }
  }
  return out
}

test("the rectangles of a raster are its pixels, no more and no fewer", () => {
  for (let seed = 0; seed < 40; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 60)
    const extremes = new Extremes(totals(strips))
    const highest = Math.max(...totals(strips)) + 1
    const raster = new Rasteriser(strips, extremes, new EventScale(60)).paint({ x0: -1, x1: 60, y0: 0, y1: highest }, 40, 30)
    const palette = Uint32Array.from(strips.birth, () => 1 + Math.floor(next() * 5))
    assert.deepEqual(
      painted(stripPaths(raster, palette, 0), 40, 30),
      raster.ids.map((pixel) => (pixel & ID ? palette[(pixel & ID) - 1] : 0)),
    )
  }
})
