/** The page's colours in code: one for each group of strips, in light and dark. */

import type { Site } from "./sites"

export type Rgb = [number, number, number]

/** Distinct at a glance, calm in bulk, told apart by lightness too; the largest sites get them in order. */
const LEADING = [
  "#4e79b8", "#e0884a", "#5aa37c", "#c75f6b", "#8a74b9", "#c9a53f",
  "#4ba3b5", "#b86a9b", "#7f9a48", "#9c6f53", "#6f8fd6", "#d98f9c",
]
const WITHOUT_FRAMES = { light: "#b9bec7", dark: "#59606c" }

/** One colour per site, as RGBA bytes. */
export function siteColours(sites: Site[], dark: boolean): Uint8Array {
  const out = new Uint8Array(sites.length * 4)
  let leading = 0
  sites.forEach((site, row) => {
    let colour: Rgb
    if (site.frame < 0) colour = parse(dark ? WITHOUT_FRAMES.dark : WITHOUT_FRAMES.light)
    else if (site.bytes > 0 && leading < LEADING.length) colour = parse(LEADING[leading++])
    else colour = faded(hash(`${site.name} ${site.place}`), dark)
    out.set([...colour, 255], row * 4)
  })
  return out
}

/** A paler relative of a leading colour, chosen by hash so that it stays from report to report. */
function faded(seed: number, dark: boolean): Rgb {
  const base = parse(LEADING[seed % LEADING.length])
  const toward = dark ? 60 : 225
  const mix = 0.35 + 0.25 * ((seed >>> 8) % 3) / 2
  return base.map((channel) => Math.round(channel + (toward - channel) * mix)) as Rgb
}

export function cssColour(colours: Uint8Array, row: number): string {
  return `rgb(${colours[row * 4]} ${colours[row * 4 + 1]} ${colours[row * 4 + 2]})`
}

function parse(hex: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb
}

/** FNV-1a, 32 bits. */
export function hash(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return h >>> 0
}
