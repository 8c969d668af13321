/** Where the timeline's parts lie, in CSS pixels of the plot element. */

export interface Geometry {
  width: number
  height: number
  /** The strips' rectangle. */
  left: number
  top: number
  plotWidth: number
  plotHeight: number
  /** Height of one row of stage bands. */
  bandHeight: number
  /** Font size. */
  font: number
}

export function layOut(width: number, height: number, bandRows: number, remPx: number): Geometry {
  const font = Math.round(remPx * 0.75)
  const bandHeight = Math.round(font * 1.5)
  const left = Math.round(font * 5.6)
  const top = Math.round(font * 2) + bandRows * (bandHeight + 2)
  return {
    width, height, left, top, bandHeight, font,
    plotWidth: Math.max(width - left - Math.round(font * 0.8), 1),
    plotHeight: Math.max(height - top - Math.round(font * 3.6), 1),
  }
}
