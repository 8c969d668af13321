/** The part of the data that the timeline shows: a range of events or times by a range of bytes. */

/** x in units of the axis (`lib/scale.ts`): events or microseconds; y in bytes. */
export interface Window {
  x0: number
  x1: number
  y0: number
  y1: number
}

/** The part of a drawing that shows a window, in CSS pixels of the drawing. */
export interface Plot {
  left: number
  top: number
  plotWidth: number
  plotHeight: number
}

/** A place in a drawing, or in a window. */
export interface Point {
  x: number
  y: number
}

/** The smallest window: events or microseconds, and bytes. */
const LEAST_X = 4
const LEAST_BYTES = 4096

/** Everything, with room for a label above the highest curve. */
export function wholeWindow([x0, x1]: [number, number], highest: number): Window {
  return { x0, x1, y0: 0, y1: Math.max(highest * 1.09, LEAST_BYTES) }
}

/** Keeps a window inside the whole one, and large enough to read; moves it rather than resizing it. */
export function clampWindow(w: Window, whole: Window, leastX = LEAST_X, leastY = LEAST_BYTES): Window {
  const [x0, x1] = clampRange(w.x0, w.x1, whole.x0, whole.x1, leastX)
  const [y0, y1] = clampRange(w.y0, w.y1, whole.y0, whole.y1, leastY)
  return { x0, x1, y0, y1 }
}

function clampRange(a: number, b: number, low: number, high: number, least: number): [number, number] {
  const span = Math.min(Math.max(b - a, least), high - low)
  if (span >= high - low) return [low, high] // to the bit: the whole view is known by its ends
  // Growing to the least span happens around the middle, so zooming in never drifts.
  const start = Math.min(Math.max((a + b - span) / 2, low), high - span)
  return [start, start + span]
}

/** Moves by fractions of the window's own size. */
export function panned(w: Window, dx: number, dy: number): Window {
  const x = (w.x1 - w.x0) * dx
  const y = (w.y1 - w.y0) * dy
  return { x0: w.x0 + x, x1: w.x1 + x, y0: w.y0 + y, y1: w.y1 + y }
}

/** Scales about a point given in fractions of the window; a factor under 1 shows less. */
export function zoomed(w: Window, atX: number, atY: number, factorX: number, factorY: number): Window {
  const x = w.x0 + (w.x1 - w.x0) * atX
  const y = w.y0 + (w.y1 - w.y0) * atY
  return { x0: x - (x - w.x0) * factorX, x1: x + (w.x1 - x) * factorX, y0: y - (y - w.y0) * factorY, y1: y + (w.y1 - y) * factorY }
}

export function sameWindow(a: Window, b: Window): boolean {
  return a.x0 === b.x0 && a.x1 === b.x1 && a.y0 === b.y0 && a.y1 === b.y1
}

/** The intersection of two windows, or rectangles; null if it is empty. */
export function common(a: Window, b: Window): Window | null {
  const [x0, x1] = [Math.max(a.x0, b.x0), Math.min(a.x1, b.x1)]
  const [y0, y1] = [Math.max(a.y0, b.y0), Math.min(a.y1, b.y1)]
  return x0 < x1 && y0 < y1 ? { x0, x1, y0, y1 } : null
}

/** The parts of a window that another does not cover: at most four, which share the other's edges exactly. */
export function around(covered: Window, whole: Window): Window[] {
  const hole = common(covered, whole)
  if (!hole) return [whole]
  const { x0, x1, y0, y1 } = whole
  return [
    { x0, x1: hole.x0, y0, y1 },
    { x0: hole.x1, x1, y0, y1 },
    { ...hole, y0, y1: hole.y0 },
    { ...hole, y0: hole.y1, y1 },
  ].filter((part) => part.x0 < part.x1 && part.y0 < part.y1)
}

/** Where a part of a window is in a rectangle that shows the entire window. */
export function within(part: Window, of: Window, rectangle: Window): Window {
  const [x, y] = [rectangle.x1 - rectangle.x0, rectangle.y1 - rectangle.y0]
  return {
    x0: rectangle.x0 + ((part.x0 - of.x0) / (of.x1 - of.x0)) * x,
    x1: rectangle.x0 + ((part.x1 - of.x0) / (of.x1 - of.x0)) * x,
    y0: rectangle.y0 + ((part.y0 - of.y0) / (of.y1 - of.y0)) * y,
    y1: rectangle.y0 + ((part.y1 - of.y0) / (of.y1 - of.y0)) * y,
  }
}

/** Where a place of the axis is drawn. */
export function xOn(g: Plot, w: Window, x: number): number {
  return g.left + ((x - w.x0) / (w.x1 - w.x0)) * g.plotWidth
}

/** Where a height is drawn. */
export function yOn(g: Plot, w: Window, y: number): number {
  return g.top + g.plotHeight * (1 - (y - w.y0) / (w.y1 - w.y0))
}

/** A point of a drawing as fractions of its window, from the left and the bottom; outside points are clamped. */
export function fraction({ left, top, plotWidth, plotHeight }: Plot, { x, y }: Point): Point {
  const clamp = (value: number) => Math.min(Math.max(value, 0), 1)
  return { x: clamp((x - left) / plotWidth), y: clamp(1 - (y - top) / plotHeight) }
}

/** A point of a drawing in the units of its window. */
export function inWindow(g: Plot, w: Window, point: Point): Point {
  const { x, y } = fraction(g, point)
  return { x: w.x0 + x * (w.x1 - w.x0), y: w.y0 + y * (w.y1 - w.y0) }
}
