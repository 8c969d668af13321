/** The colour of each strip; pale if others are highlighted. */

import { packed } from "../../gl/strip_painter"
import type { Rgb } from "../../lib/picture/colours"
import type { Grouping } from "../../lib/tables/grouping"
import type { State } from "../../store"

/** How much of their colour strips keep while others are highlighted. */
const DIMMED = 0.2

/** One RGBA for each allocation; `colours` has one for each group. */
export function palette(state: State, { ofAllocation, groups }: Grouping, colours: Uint8Array, background: Rgb): Uint32Array {
  const group = state.hoveredGroup >= 0 ? state.hoveredGroup : state.chosenGroup
  const rows = state.hoveredGroup < 0 ? state.selection?.rows : undefined
  const [bright, dim] = [new Uint32Array(groups.length), new Uint32Array(groups.length)]
  groups.forEach((_, row) => {
    const rgb = [...colours.subarray(row * 4, row * 4 + 3)] as Rgb
    bright[row] = packed(rgb)
    dim[row] = packed(rgb.map((channel, c) => background[c] + (channel - background[c]) * DIMMED) as Rgb)
  })
  const out = new Uint32Array(ofAllocation.length)
  const plain = group < 0 ? bright : dim.with(group, bright[group])
  for (let i = 0; i < out.length; i++) out[i] = plain[ofAllocation[i]]
  if (rows) for (let i = 0; i < out.length; i++) if (!rows[i]) out[i] = dim[ofAllocation[i]]
  return out
}
