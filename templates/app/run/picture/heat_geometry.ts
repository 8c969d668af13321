/** The positions of the heat map's parts, in CSS pixels of its element. */

import type { Plot } from "../../lib/picture/window"

export interface HeatGeometry extends Plot {
  width: number
  height: number
  /** Left of the cells: a strip with the colour of each row's group. */
  strip: number
  /** Font size. */
  font: number
}

/** The cells begin and end at device pixels, so that a cell one pixel wide has a pixel of its own. `labels`: width of the widest. */
export function layOutHeat(width: number, height: number, remPx: number, ratio: number, labels: number): HeatGeometry {
  const whole = (css: number) => Math.round(css * ratio) / ratio
  const font = Math.round(remPx * 0.75)
  const strip = Math.round(font * 0.5)
  const left = whole(Math.min(labels + font * 0.6 + strip + 3, width * 0.4))
  const top = whole(Math.round(font * 0.4))
  return {
    width,
    height,
    left,
    top,
    strip,
    font,
    plotWidth: whole(Math.max(width - left - Math.round(font * 1.2), 1)),
    plotHeight: whole(Math.max(height - top - Math.round(font * 2.2), 1)),
  }
}
