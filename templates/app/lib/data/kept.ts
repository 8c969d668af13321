/** Segments that cannot go back to the driver because of one or two small live blocks.
 *
 * As in `figures/segments.py`: a plain segment goes back only as a whole, an expandable one page by page. */

import type { Device } from "./device"
import { INACTIVE, isPrivate, type Layout } from "./segments"

const FEW = 2
const SMALL_PART = 0.125
const SMALL_PAGE = 2 ** 21

export interface Kept {
  /** Place in the layout's segments. */
  segment: number
  /** Bytes from the segment's start: all of it, or a page of an expandable one. */
  offset: number
  size: number
  /** Bytes that are free in it. */
  kept: number
  /** Blocks of the layout, by address. */
  blocks: number[]
}

/** Segments kept by at most two small blocks, most kept bytes first; private pools are left out, as they return nothing. */
export function keptSegments(device: Device, layout: Layout): Kept[] {
  const { segments } = device
  const found: Kept[] = []
  layout.rows.forEach((row, segment) => {
    if (isPrivate(device, segments.pool[row])) return
    const { reserved } = layout.uses[segment]
    const page = segments.expandable[row] ? (segments.kind[row] === 0 ? SMALL_PAGE : device.largePage) : reserved
    let block = layout.first[segment]
    for (let offset = 0; offset < reserved; offset += page) {
      const end = Math.min(offset + page, reserved)
      let [used, held] = [0, 0]
      const blocks: number[] = []
      for (; block < layout.first[segment + 1] && layout.offset[block] < end; block++) {
        if (layout.state[block] !== INACTIVE) {
          held += layout.size[block]
          used += Math.min(layout.offset[block] + layout.size[block], end) - Math.max(layout.offset[block], offset)
          blocks.push(block)
        }
        if (layout.offset[block] + layout.size[block] > end) break // it continues in the next page
      }
      const size = end - offset
      if (blocks.length && blocks.length <= FEW && held <= SMALL_PART * size)
        found.push({ segment, offset, size, kept: size - used, blocks })
    }
  })
  return found.sort((a, b) => b.kept - a.kept || a.segment - b.segment || a.offset - b.offset)
}
