/** Places for the labels of marked points: inside the plot, and never over one another. */

import type { Point } from "./window"

export interface Rect {
  left: number
  top: number
  width: number
  height: number
}

/** A marked point, and the size of its label. */
export type Wanted = Point & Pick<Rect, "width" | "height">

/** How many rows up and down from its point a label may move. */
const MOST_ROWS = 6
/** How many rows a line's text may be away from the line. */
const LINE_ROWS = 2

/** A place for each label, or null if none is left; earlier labels go first.
 *
 * The points are kept clear as well, so that a label hides no other mark; `gap` is the room around a point.
 */
export function placeLabels(wanted: Wanted[], area: Rect, gap: number): (Rect | null)[] {
  const taken: Rect[] = wanted.map(({ x, y }) => ({ left: x - gap / 2, top: y - gap / 2, width: gap, height: gap }))
  return wanted.map((label) => {
    const place = candidates(label, area, gap).find((rect) => inside(rect, area) && !taken.some((other) => overlap(rect, other)))
    if (!place) return null
    taken.push(place)
    return place
  })
}

/** A place beside a horizontal line for the first of some texts that fits, the widest first: above or below the line, at its
 * left or right end, and further away only if no text fits there. Null if there is none. */
export function placeOnLine(widths: number[], y: number, height: number, area: Rect, taken: Rect[]): { text: number; rect: Rect } | null {
  for (let row = 0; row < LINE_ROWS; row++) {
    for (const [text, width] of widths.entries()) {
      for (const top of [y - 1 - (row + 1) * height, y + 2 + row * height]) {
        for (const left of [area.left, area.left + area.width - width]) {
          const rect = { left, top, width, height }
          if (inside(rect, area) && !taken.some((other) => overlap(rect, other))) return { text, rect }
        }
      }
    }
  }
  return null
}

/** Above the point, then beside it, then below, then further away. */
function candidates({ x, y, width, height }: Wanted, area: Rect, gap: number): Rect[] {
  const right = area.left + area.width - width
  const clamp = (left: number) => Math.max(Math.min(left, right), area.left)
  const lefts = [clamp(x - width / 2), clamp(x - width - gap), clamp(x + gap)]
  const out: Rect[] = []
  const beside = { top: y - height / 2, width, height }
  for (let row = 0; row < MOST_ROWS; row++) {
    const up = y - gap - height - row * (height + 2)
    const down = y + gap + row * (height + 2)
    for (const left of lefts) out.push({ left, top: up, width, height })
    if (row === 0) out.push({ left: x + gap, ...beside }, { left: x - gap - width, ...beside })
    for (const left of lefts) out.push({ left, top: down, width, height })
  }
  return out
}

function inside(rect: Rect, area: Rect): boolean {
  return (
    rect.left >= area.left &&
    rect.top >= area.top &&
    rect.left + rect.width <= area.left + area.width &&
    rect.top + rect.height <= area.top + area.height
  )
}

export function overlap(a: Rect, b: Rect): boolean {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height
}
