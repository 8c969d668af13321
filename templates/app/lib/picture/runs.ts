/** A raster as rectangles: runs of one strip, joined with equal runs of adjacent columns. */

import { ID, type Raster } from "./raster"

/** Paths of rectangles by colour, in pixels of the raster from its top left. */
export function stripPaths({ width, height, ids }: Raster, palette: Uint32Array, background: number): Map<number, string> {
  const paths = new Map<number, string[]>()
  /** Open rectangles of the column before, by the row they begin at. */
  let open = new Map<number, { id: number; to: number; since: number }>()
  const close = (column: number, from: number, { id, to, since }: { id: number; to: number; since: number }) => {
    const colour = palette[id - 1]
    if (colour === background) return
    const path = paths.get(colour)
    const rectangle = `M${since} ${height - to}h${column - since}v${to - from}h${since - column}z`
    if (path) path.push(rectangle)
    else paths.set(colour, [rectangle])
  }
  for (let x = 0; x <= width; x++) {
    const next: typeof open = new Map()
    for (let y = 0; x < width && y < height;) {
      const from = y
      const id = ids[x * height + y] & ID
      while (y < height && (ids[x * height + y] & ID) === id) y++
      if (!id) continue
      const same = open.get(from)
      const goesOn = same && same.id === id && same.to === y
      next.set(from, goesOn ? same : { id, to: y, since: x })
      if (goesOn) open.delete(from)
    }
    for (const [from, rectangle] of open) close(x, from, rectangle)
    open = next
  }
  return new Map([...paths].map(([colour, parts]) => [colour, parts.join("")]))
}
