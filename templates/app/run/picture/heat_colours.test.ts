import { test } from "node:test"
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { luminance } from "../../lib/testing"
import type { Rgb } from "../../lib/picture/colours"
import type { RunData } from "../data/run_data"
import { heatPalette, heatScale, OVER, RAMP } from "./heat_colours"

const CSS = readFileSync(fileURLToPath(new URL("../../../../shipped/run.css", import.meta.url)), "utf8")

/** The stops of the style sheet, light or dark, and the colour of what is above. */
function stops(theme: 0 | 1): [string[], string] {
  const value = (name: string) => [...CSS.match(new RegExp(`--${name}: .*;`))![0].matchAll(/#[0-9a-f]{6}/g)][theme][0]
  return [Array.from({ length: 8 }, (_, k) => value(`heat-${k}`)), value("over")]
}

const rgb = (pixel: number): Rgb => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]

test("the scale grows lighter or darker all the way, in even steps, in both themes", () => {
  for (const [theme, sign] of [
    [0, -1],
    [1, 1],
  ] as const) {
    const palette = heatPalette(...stops(theme))
    const lightness = [...palette.slice(0, RAMP)].map((pixel) => Math.cbrt(luminance(rgb(pixel))))
    const steps = lightness.slice(1).map((value, k) => sign * (value - lightness[k]))
    const mean = steps.reduce((a, b) => a + b) / steps.length
    // Over an eighth of the scale, where rounding to whole channels does not count.
    for (let k = 0; k + 32 < lightness.length; k += 16) {
      const rise = (sign * (lightness[k + 32] - lightness[k])) / 32
      assert.ok(rise > 0.6 * mean && rise < 1.6 * mean, `theme ${theme}, shade ${k}: ${rise / mean}`)
    }
  }
})

test("what is above the scale is like none of it, to colour-blind readers too", () => {
  for (const theme of [0, 1] as const) {
    const palette = heatPalette(...stops(theme))
    const over = seen(rgb(palette[OVER]))
    for (const pixel of palette.slice(0, RAMP)) {
      const other = seen(rgb(pixel))
      assert.ok(Math.hypot(...over.map((value, c) => value - other[c])) > 0.12)
    }
  }
})

/** A colour as a reader without green cones sees it: Viénot, Brettel and Mollon (1999). */
function seen(colour: Rgb): number[] {
  const [r, g, b] = colour.map((channel) => (channel / 255) ** 2.2)
  return [0.29275 * r + 0.70725 * g, 0.29275 * r + 0.70725 * g, -0.02234 * r + 0.02234 * g + b].map(
    (value) => Math.max(value, 0) ** (1 / 2.2),
  )
}

test("a scale that is drawn up to the highest has nothing above it", () => {
  const data = { scales: { cuda: { allocated: [40, 90, 10, 700], reserved: [0, 90, 10, 90] } } } as unknown as RunData
  assert.deepEqual(heatScale(data, "cuda", "allocated", false), { quantity: "allocated", low: 40, high: 90, most: 700 })
  assert.deepEqual(heatScale(data, "cuda", "allocated", true), { quantity: "allocated", low: 0, high: 700, most: 700 })
  assert.deepEqual(heatScale(data, "cuda", "reserved", true), { quantity: "reserved", low: 0, high: 90, most: 90 })
  assert.deepEqual(heatScale(data, "cuda", "share", false), { quantity: "share", low: 0, high: 1, most: 1 })
})
