/** The call tree as an icicle: rectangles below one another, as wide as their bytes; of a change, as what came and what went together. */

import type { TreeSums } from "./tree"

/** One rectangle; x in fractions of the width. */
export interface Tile {
  /** The node; for nodes too narrow to be shown by themselves, their parent. */
  node: number
  x0: number
  x1: number
  /** 0 for the node on top. */
  row: number
  /** Of a change: what came less what went, and both together. */
  bytes: number
  moved: number
  count: number
  /** How many nodes were merged here; 0 for a tile of a single node. */
  smaller: number
}

/** Lays out a node on top, and what is below it.
 *
 * Siblings are ordered from the left, largest first, then those narrower than `least` as one tile. Bytes of a
 * node that no child has leave a gap at its right. A tile is never wider than its bytes, and the children
 * of one tile, including the merged ones, have all the bytes that pass to them.
 *
 * Args:
 *   least: the least fraction of the width for a tile of its own.
 */
export function layOut(sums: TreeSums, top: number, least: number): Tile[] {
  const whole = sums.moved[top]
  const first: Tile = { node: top, x0: 0, x1: 1, row: 0, bytes: sums.bytes[top], moved: whole, count: sums.count[top], smaller: 0 }
  const tiles = [first]
  if (whole <= 0) return tiles
  for (let k = 0; k < tiles.length; k++) {
    const tile = tiles[k]
    if (tile.smaller) continue
    const row = tile.row + 1
    let x0 = tile.x0
    const rest: Tile = { node: tile.node, x0, x1: x0, row, bytes: 0, moved: 0, count: 0, smaller: 0 }
    const children = sums.children(tile.node)
    for (const node of sums.signed ? [...children].sort((a, b) => sums.moved[b] - sums.moved[a] || a - b) : children) {
      const bytes = sums.bytes[node]
      const moved = sums.moved[node]
      const count = sums.count[node]
      const x1 = Math.min(x0 + moved / whole, tile.x1)
      if (moved / whole >= least) tiles.push({ node, x0, x1, row, bytes, moved, count, smaller: 0 })
      else {
        if (!rest.smaller) rest.x0 = x0
        rest.x1 = x1
        rest.bytes += bytes
        rest.moved += moved
        rest.count += count
        rest.smaller++
      }
      x0 = x1
    }
    if (rest.smaller) tiles.push(rest)
  }
  return tiles
}
