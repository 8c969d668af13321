/** What draws a raster and what lies over it on the timeline's canvas, whichever way. */

import type { Rgb } from "../lib/picture/colours"
import type { Raster } from "../lib/picture/raster"
import type { Window } from "../lib/picture/window"

export interface Highlight {
  /** Allocation ids, or -1. */
  hovered: number
  pinned: number
}

/** Where the strips lie in the canvas, in its pixels. */
export interface PlotPx {
  left: number
  top: number
  width: number
  height: number
}

/** Draws the last rasters, moved and scaled to the window that is wanted now, and the overlay on top. */
export interface StripPainter {
  /** Whether pixels are painted by the processor. */
  readonly software: boolean
  /** RGBA of each allocation; behind the strips, and around them. */
  setColours(palette: Uint32Array, background: Rgb, page: Rgb): void
  /** The whole recording: what shows where the detail does not reach. */
  setBase(raster: Raster): void
  /** The window asked for last. */
  setDetail(raster: Raster): void
  /** What is drawn over the strips: a canvas of the same size; to be set again when it has changed. */
  setOverlay(overlay: HTMLCanvasElement): void
  resize(widthPx: number, heightPx: number): void
  draw(window: Window, plot: PlotPx, highlight: Highlight, overlay: boolean): void
  /** Forgets the rasters: the next ones show something else. */
  clear(): void
  /** To be called when what was drawn is lost and can be drawn again. */
  onRestored: () => void
}

/** A colour as an element of a palette, or as a pixel of an `ImageData`. */
export function packed([r, g, b]: Rgb): number {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0
}

/** Strips under the pointer are lighter; the pinned one is lighter still, with a dark rim. */
export const HOVERED = 0.4
export const PINNED = 0.5
/** Edges of strips are darker than the strips. */
export const EDGE_SHADE = 0.8
