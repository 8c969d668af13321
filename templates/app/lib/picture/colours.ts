/** The page's colours in code: one for each group of strips, in light and dark. */

import { APART, type Grouping } from "../tables/grouping"
import { NOT_DRAWN } from "../data/rest"

export type Rgb = [number, number, number]

/** Distinct at a glance, calm in bulk, and different in lightness, too; the largest groups get them in order. */
const LEADING = [
  "#4e79b8",
  "#e8975a",
  "#4a9c77",
  "#b94f5e",
  "#a58cd2",
  "#c9a53f",
  "#3c8397",
  "#cf84b4",
  "#7a9340",
  "#8f6247",
  "#86a5e6",
  "#b34f7f",
]
/** Each role has a colour of its own, the same in every report. A search chose them to maximise the smallest distance in OKLab,
 * with normal vision and without green, between one another and from the neutrals below. */
export const ROLE_COLOURS: Record<string, string> = {
  parameter: "#3263a8",
  buffer: "#7ebefb",
  gradient: "#a64954",
  "optimizer state": "#915fb6",
  activation: "#689f73",
  "temporary of forward": "#a3d48f",
  "temporary of backward": "#df8742",
  "temporary of optimizer": "#c383b1",
  "communication buffer": "#d9b844",
  "KV cache": "#3c8284",
  input: "#7a4b23",
  "compiled-graph pool": "#7c1f62",
  workspace: "#75bcac",
}
/** Colours of what is not known or belongs nowhere; the second one is for a group set apart from it. */
const NEUTRALS = { light: ["#b9bec7", "#8b909a"], dark: ["#59606c", "#858c98"] }

/** From low to high, each lighter or darker than the one before; the highest contrasts most with the plot. */
const RAMPS = {
  size: { light: ["#ded78f", "#86c596", "#3d9fa3", "#2b68a8", "#26336f"], dark: ["#33436f", "#2f6aa6", "#3aa19f", "#7dbc8d", "#d3ca86"] },
  age: { light: ["#f2cf9f", "#e99a69", "#d05c66", "#933b74", "#512863"], dark: ["#57397a", "#954a86", "#d0606c", "#e39a6c", "#e8c793"] },
}

/** One colour per group, as RGBA bytes. */
export function groupColours({ groups, colouring, ordered }: Grouping, dark: boolean): Uint8Array {
  const out = new Uint8Array(groups.length * 4)
  const ramp = RAMPS[colouring === "age" ? "age" : "size"][dark ? "dark" : "light"].map(parse)
  const steps = groups.filter((group) => !group.rest).length
  let place = 0
  groups.forEach((group, row) => {
    let colour: Rgb
    if (group.rest) colour = parse(NEUTRALS[dark ? "dark" : "light"][group.key === APART || group.key === NOT_DRAWN ? 1 : 0])
    else if (colouring === "role") colour = parse(ROLE_COLOURS[group.key])
    else if (ordered) colour = along(ramp, steps > 1 ? place++ / (steps - 1) : 0.5)
    else if (group.bytes > 0 && place < LEADING.length) colour = parse(LEADING[place++])
    else colour = faded(hash(group.key), dark)
    out.set([...colour, 255], row * 4)
  })
  return out
}

/** The colour at a share of the way along a ramp. */
function along(ramp: Rgb[], share: number): Rgb {
  const at = share * (ramp.length - 1)
  const k = Math.min(Math.floor(at), ramp.length - 2)
  return ramp[k].map((channel, c) => Math.round(channel + (ramp[k + 1][c] - channel) * (at - k))) as Rgb
}

/** A paler variant of a leading colour, chosen by hash so that it is the same in every report. */
function faded(seed: number, dark: boolean): Rgb {
  const base = parse(LEADING[seed % LEADING.length])
  const toward = dark ? 60 : 225
  const mix = 0.35 + (0.25 * ((seed >>> 8) % 3)) / 2
  return base.map((channel) => Math.round(channel + (toward - channel) * mix)) as Rgb
}

/** The relative luminance of a colour, from 0 to 1. */
export function luminance([r, g, b]: Rgb): number {
  const [lr, lg, lb] = [r, g, b].map((channel) => {
    const part = channel / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * lr + 0.7152 * lg + 0.0722 * lb
}

export function cssColour(colours: Uint8Array, row: number): string {
  return `rgb(${colours[row * 4]} ${colours[row * 4 + 1]} ${colours[row * 4 + 2]})`
}

export function parse(hex: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb
}

/** FNV-1a, 32 bits. */
export function hash(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return h >>> 0
}
