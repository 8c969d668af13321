/** The colour of each strip; pale if others are highlighted. */

import { packed } from "../../gl/strip_painter"
import { groupColours, type Rgb } from "../../lib/picture/colours"
import type { Theme } from "../../lib/picture/theme"
import type { Grouping } from "../../lib/tables/grouping"
import type { State } from "../../store"

/** How much of their colour strips keep while others are highlighted. */
const DIMMED = 0.2

/** One RGBA for each allocation. */
export function palette(state: State, grouping: Grouping, { dark, background }: Theme): Uint32Array {
  const { ofAllocation } = grouping
  const group = state.hoveredGroup >= 0 ? state.hoveredGroup : state.chosenGroup
  const rows = state.hoveredGroup < 0 ? state.selection?.rows : undefined
  const colours = groupColours(grouping, dark)
  const bright = Uint32Array.from(colours, packed)
  const dim = Uint32Array.from(colours, (rgb) => packed(rgb.map((channel, c) => background[c] + (channel - background[c]) * DIMMED) as Rgb))
  const out = new Uint32Array(ofAllocation.length)
  const plain = group < 0 ? bright : dim.with(group, bright[group])
  for (let i = 0; i < out.length; i++) out[i] = plain[ofAllocation[i]]
  if (rows) for (let i = 0; i < out.length; i++) if (!rows[i]) out[i] = dim[ofAllocation[i]]
  return out
}
