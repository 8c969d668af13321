/** The positions of the timeline's parts, in CSS pixels of the plot element. */

import type { PlotPx } from "../../gl/strip_painter"
import type { Plot } from "../../lib/picture/window"

export type Geometry = ReturnType<typeof layOut>

/** The strips begin and end at device pixels, so that a raster's pixel is one of the screen's. */
export function layOut(width: number, height: number, bandRows: number, remPx: number, ratio: number) {
  const whole = (css: number) => Math.round(css * ratio) / ratio
  const font = Math.round(remPx * 0.75)
  const bandHeight = Math.round(font * 1.5)
  const left = whole(Math.round(font * 5.6))
  const top = whole(Math.round(font * 1.6) + bandRows * (bandHeight + 2))
  const mapHeight = Math.round(font * (height < font * 16 ? 1 : 3)) // low timelines need the room for strips
  const rugHeight = Math.round(font * 0.55)
  const plotHeight = whole(Math.max(height - top - rugHeight - Math.round(font * 4.2) - mapHeight, 1))
  return {
    width,
    height,
    /** Where the names of the axis start. */
    edge: 0,
    left,
    top,
    /** Height of one row of stage bands, and how many there are. */
    bandHeight,
    bandRows,
    /** Font size. */
    font,
    /** Height of the rug of events, directly under the strips. */
    rugHeight,
    /** Height of the map of the entire recording, under the axis, and its top. */
    mapHeight,
    mapTop: Math.max(height - mapHeight - 1, top + plotHeight),
    plotHeight,
    plotWidth: whole(Math.max(width - left - Math.round(font * 0.8), 1)),
  }
}

export function sameGeometry(a: Geometry, b: Geometry | undefined): boolean {
  return b !== undefined && (Object.keys(a) as (keyof Geometry)[]).every((name) => a[name] === b[name])
}

/** The strips' rectangle in the canvas. */
export function plotPx(g: Plot, ratio: number): PlotPx {
  return {
    left: Math.round(g.left * ratio),
    top: Math.round(g.top * ratio),
    width: Math.round(g.plotWidth * ratio),
    height: Math.round(g.plotHeight * ratio),
  }
}

/** The outermost stages on top. */
export function bandTop(g: Geometry, row: number): number {
  return g.top - g.font * 0.5 - (g.bandRows - row) * (g.bandHeight + 2)
}

export type Region = "plot" | "bands" | "bytes" | "rug" | "axis" | "map"

/** Which part a point is in. */
export function regionAt(g: Geometry, x: number, y: number): Region {
  if (y >= g.mapTop - 2) return "map"
  if (x < g.left) return "bytes"
  if (y < g.top) return "bands"
  if (y < g.top + g.plotHeight) return "plot"
  return y < g.top + g.plotHeight + g.rugHeight ? "rug" : "axis"
}
