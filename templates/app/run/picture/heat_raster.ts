/** The heat map's cells as a raster for the timeline's painters, with no cell smaller than a pixel. */

import type { Raster } from "../../lib/picture/raster"
import type { Window } from "../../lib/picture/window"
import { type CellRows, levelFor, NO_CELL } from "../data/cell_rows"
import { type HeatScale, shadeOf } from "./heat_colours"

/** How cells are merged: each is `2 ** level` of the axis wide and has `bundle` rows, a power of two. */
export interface Grain {
  level: number
  bundle: number
}

/** What of the rows is drawn. Windows count places of the axis from `origin`, and rows from the bottom up. */
export interface HeatSource {
  cells: CellRows
  /** Rows from the top down. */
  order: Int32Array
  origin: number
  /** The factor of each row's values: 1 for bytes; 0 leaves a row out. */
  factor: (row: number) => number
}

/** The finest cells to draw: at least a pixel in size, and no narrower than the data. */
export function grainOf(source: HeatSource, w: Window, widthPx: number, heightPx: number): Grain {
  const level = Math.max(levelFor((w.x1 - w.x0) / widthPx), source.cells.narrowest)
  return { level, bundle: 2 ** levelFor((w.y1 - w.y0) / heightPx) }
}

/** The rows of a bundle, from the top, as [first, end) of the order. */
export function bundleAt(source: HeatSource, bundle: number, place: number): [number, number] {
  const first = Math.floor(place / bundle) * bundle
  return [first, Math.min(first + bundle, source.order.length)]
}

/** Shades of all cells that a window touches; each shows the maximum of its rows. */
export function heatRaster(source: HeatSource, w: Window, grain: Grain, scale: HeatScale): Raster {
  const { cells, order, origin, factor } = source
  const width = 2 ** grain.level
  const from = Math.floor((w.x0 + origin) / width)
  const columns = Math.max(Math.ceil((w.x1 + origin) / width) - from, 1)
  const top = Math.floor(Math.max(order.length - w.y1, 0) / grain.bundle)
  const bundles = Math.max(Math.ceil(Math.min(order.length - w.y0, order.length) / grain.bundle) - top, 1)
  const ids = new Uint32Array(columns * bundles)
  const line = new Float64Array(columns)
  for (let bundle = 0; bundle < bundles; bundle++) {
    line.fill(NO_CELL)
    const [first, end] = bundleAt(source, grain.bundle, (top + bundle) * grain.bundle)
    for (let place = first; place < end; place++) {
      const times = factor(order[place])
      if (times > 0) cells.joinInto(line, order[place], grain.level, from, times)
    }
    // The last bundle may have fewer rows than its height shows: they are drawn at its top.
    for (let column = 0, at = bundles - 1 - bundle; column < columns; column++, at += bundles) {
      if (line[column] >= 0) ids[at] = 1 + shadeOf(line[column], scale)
    }
  }
  const y1 = order.length - top * grain.bundle
  const window = { x0: from * width - origin, x1: (from + columns) * width - origin, y0: y1 - bundles * grain.bundle, y1 }
  return { window, width: columns, height: bundles, ids, events: new Int32Array(0) }
}

/** The row of a bundle with the highest value in a cell, as an index in the order; -1 if none has a value. */
export function mostOf(source: HeatSource, grain: Grain, place: number, cell: number): number {
  let [best, most] = [-1, NO_CELL]
  const [first, end] = bundleAt(source, grain.bundle, place)
  for (let at = first; at < end; at++) {
    const row = source.order[at]
    const value = source.cells.mostIn(row, grain.level, cell) * source.factor(row)
    if (value > most) [best, most] = [at, value]
  }
  return best
}
