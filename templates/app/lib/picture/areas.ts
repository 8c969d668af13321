/** How much of a picture each group of strips takes. */

import type { Ints } from "../data/curves"
import { ID, type Raster } from "./raster"

/** Pixels of each group in a raster. `ofAllocation`: the group of each allocation. */
export function areasOf({ ids }: Pick<Raster, "ids">, ofAllocation: Ints, groups: number): Float64Array {
  const out = new Float64Array(groups)
  for (let k = 0; k < ids.length; k++) {
    const place = ids[k] & ID
    if (place) out[ofAllocation[place - 1]]++
  }
  return out
}
