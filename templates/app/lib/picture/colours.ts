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
  "autocast weight copy": "#8c8cec",
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

const made = new WeakMap<Grouping, { light?: Rgb[]; dark?: Rgb[] }>()

/** One colour per group, chosen once for each of the two themes. */
export function groupColours(grouping: Grouping, dark: boolean): Rgb[] {
  const known = made.get(grouping) ?? {}
  made.set(grouping, known)
  return (known[dark ? "dark" : "light"] ??= chooseColours(grouping, dark))
}

function chooseColours({ groups, colouring, ordered }: Grouping, dark: boolean): Rgb[] {
  const ramp = RAMPS[colouring === "age" ? "age" : "size"][dark ? "dark" : "light"].map(parse)
  const steps = groups.filter((group) => !group.rest).length
  let place = 0
  return groups.map((group) => {
    if (group.rest) return parse(NEUTRALS[dark ? "dark" : "light"][group.key === APART || group.key === NOT_DRAWN ? 1 : 0])
    if (colouring === "role") return parse(ROLE_COLOURS[group.key])
    if (ordered) return along(ramp, steps > 1 ? place++ / (steps - 1) : 0.5)
    if (group.bytes > 0 && place < LEADING.length) return parse(LEADING[place++])
    return faded(hash(group.key), dark)
  })
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

/** The light of a channel of sRGB, from 0 to 1. */
export function linear(channel: number): number {
  const part = channel / 255
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
}

export function cssColour(colour: Rgb): string {
  return `rgb(${colour.join(" ")})`
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
