/** Segments as bars to the same scale, laid out in rows as words are in lines. */

import type { Device } from "../data/device"
import { firstPlace } from "../data/places"
import { INACTIVE, type Layout } from "../data/segments"
import type { Rgb } from "./colours"

/** A segment's part in one row, in pixels. */
export interface Piece {
  /** Place in the layout's segments. */
  segment: number
  row: number
  x: number
  width: number
  /** Pixels of the segment in earlier rows. */
  skip: number
}

export type Flow = ReturnType<typeof flow>

/** Lays segments out in rows; a segment that fits into a row is not broken.
 *
 * @param members places in the layout's segments, in the order in which they are shown
 * @param least pixels of the shortest bar; `gap` pixels stand between bars
 */
export function flow(layout: Layout, members: number[], bytesPerPx: number, width: number, least: number, gap: number) {
  const pieces: Piece[] = []
  const length = new Map<number, number>()
  let [row, x] = [0, 0]
  for (const segment of members) {
    const px = Math.max(least, Math.round(layout.uses[segment].reserved / bytesPerPx))
    length.set(segment, px)
    if (x > 0 && x + px > width) [row, x] = [row + 1, 0]
    for (let skip = 0; skip < px;) {
      if (x >= width) [row, x] = [row + 1, 0]
      const part = Math.min(px - skip, width - x)
      pieces.push({ segment, row, x, width: part, skip })
      skip += part
      x += part
    }
    x += gap
  }
  return {
    width,
    rows: pieces.length ? row + 1 : 0,
    bytesPerPx,
    /** By row, then from left to right. */
    pieces,
    /** How long each segment is, in pixels, by its place in the layout. */
    length,
  }
}

/** The segment and the byte in it at a pixel, or null. */
export function hit(layout: Layout, { pieces, length }: Flow, x: number, row: number): { segment: number; offset: number } | null {
  const piece = pieces.find((each) => each.row === row && each.x <= x && x < each.x + each.width)
  if (!piece) return null
  const { reserved } = layout.uses[piece.segment]
  return { segment: piece.segment, offset: ((piece.skip + x - piece.x) / length.get(piece.segment)!) * reserved }
}

/** Where bytes [from, to) of a segment are: one box per row, in pixels. */
export function boxes(
  layout: Layout,
  { pieces, length }: Flow,
  segment: number,
  from: number,
  to: number,
): { row: number; x: number; width: number }[] {
  const scale = (length.get(segment) ?? 0) / layout.uses[segment].reserved
  return pieces
    .filter((piece) => piece.segment === segment)
    .flatMap((piece) => {
      const start = Math.max(from * scale, piece.skip)
      const end = Math.min(to * scale, piece.skip + piece.width)
      return end > start ? [{ row: piece.row, x: piece.x + start - piece.skip, width: end - start }] : []
    })
}

/** The block (or gap) at a byte of a segment. */
export function blockAt({ first, offset }: Layout, segment: number, byte: number): number {
  return Math.max(firstPlace(first[segment], first[segment + 1], (block) => offset[block] > byte) - 1, first[segment])
}

/** One line of RGBA pixels for each row; several blocks in a pixel mix by the share of it that they fill.
 *
 * @param colourOf a block's colour, gaps included
 * @param slack the colour of what a block has beyond what was requested; null leaves it as the block
 */
export function paint(
  device: Device,
  layout: Layout,
  laid: Flow,
  colourOf: (block: number) => Rgb,
  slack: Rgb | null,
): Uint8ClampedArray<ArrayBuffer> {
  const { width, rows, pieces, length } = laid
  const out = new Uint8ClampedArray(width * rows * 4)
  const mix = new Float32Array(width * 4)
  const add = (from: number, to: number, [r, g, b]: Rgb) => {
    for (let px = Math.floor(from); px < to; px++) {
      const part = Math.min(to, px + 1) - Math.max(from, px)
      mix[px * 4] += part * r
      mix[px * 4 + 1] += part * g
      mix[px * 4 + 2] += part * b
      mix[px * 4 + 3] += part
    }
  }
  pieces.forEach((piece, at) => {
    const scale = length.get(piece.segment)! / layout.uses[piece.segment].reserved
    const origin = piece.x - piece.skip
    const [left, right] = [piece.x, piece.x + piece.width]
    const clipped = (from: number, to: number, colour: Rgb) => {
      const [a, b] = [Math.max(origin + from * scale, left), Math.min(origin + to * scale, right)]
      if (b > a) add(a, b, colour)
    }
    for (let b = blockAt(layout, piece.segment, piece.skip / scale); b < layout.first[piece.segment + 1]; b++) {
      const from = layout.offset[b]
      if (origin + from * scale >= right) break
      const to = from + layout.size[b]
      const used = slack && layout.state[b] !== INACTIVE ? Math.min(from + device.requested[layout.allocation[b]], to) : to
      clipped(from, used, colourOf(b))
      if (slack && used < to) clipped(used, to, slack)
    }
    if (at + 1 < pieces.length && pieces[at + 1].row === piece.row) return
    for (let px = 0; px < width; px++) {
      const filled = mix[px * 4 + 3]
      if (filled <= 0) continue
      const o = (piece.row * width + px) * 4
      for (let c = 0; c < 3; c++) out[o + c] = mix[px * 4 + c] / filled
      out[o + 3] = 255
    }
    mix.fill(0)
  })
  return out
}

/** A round number of bytes for a scale bar of about `wanted` pixels. */
export function scaleBar(bytesPerPx: number, wanted: number): number {
  return 2 ** Math.max(Math.round(Math.log2(bytesPerPx * wanted)), 0)
}
