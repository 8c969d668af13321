/** The colours of the heat map: even steps between the ends of the scale, and one for all that is above it. */

import { packed } from "../../gl/strip_painter"
import { linear, parse, type Rgb } from "../../lib/picture/colours"
import { styleOf } from "../../lib/picture/theme"
import type { Quantity, RunData } from "../data/run_data"

/** Colours of the scale; the palette has one more, for what is above. */
export const RAMP = 255
export const OVER = RAMP

export interface HeatScale {
  quantity: Quantity
  low: number
  high: number
  /** The highest value; more than `high` if something is above the scale. */
  most: number
}

/** The scale of a quantity, in bytes or in shares of the capacity. `full`: it extends to the highest value. */
export function heatScale(data: RunData, kind: string, quantity: Quantity, full: boolean): HeatScale {
  if (quantity === "share") return { quantity, low: 0, high: 1, most: 1 }
  const [low, high, , most] = data.scales[kind]?.[quantity] ?? [0, 1, 0, 0]
  return full && most > high ? { quantity, low: 0, high: most, most } : { quantity, low, high, most }
}

/** The index of a value's colour in the palette. */
export function shadeOf(value: number, { low, high }: HeatScale): number {
  if (value > high) return OVER
  return Math.min(Math.max(Math.floor(((value - low) / (high - low)) * RAMP), 0), RAMP - 1)
}

/** The stops of the style sheet, from the least to the most. */
export function heatStops(element: Element): string[] {
  const value = styleOf(element)
  return Array.from({ length: 8 }, (_, k) => value(`heat-${k}`))
}

/** The palette from the stops of the style sheet, mixed in OKLab so that even steps look even. */
export function heatPalette(stops: string[], over: string): Uint32Array {
  const lab = stops.map((stop) => toLab(parse(stop)))
  const palette = new Uint32Array(RAMP + 1)
  for (let k = 0; k < RAMP; k++) {
    const at = (k / (RAMP - 1)) * (lab.length - 1)
    const from = Math.min(Math.floor(at), lab.length - 2)
    palette[k] = packed(fromLab(lab[from].map((value, c) => value + (lab[from + 1][c] - value) * (at - from))))
  }
  palette[OVER] = packed(parse(over))
  return palette
}

/** Björn Ottosson, "A perceptual color space for image processing" (2020). */
function toLab(rgb: Rgb): number[] {
  const [r, g, b] = rgb.map(linear)
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ]
}

function fromLab([lightness, a, b]: number[]): Rgb {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ]
  return linear.map((value) => {
    const clamped = Math.min(Math.max(value, 0), 1)
    return Math.round(255 * (clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * clamped ** (1 / 2.4) - 0.055))
  }) as Rgb
}
