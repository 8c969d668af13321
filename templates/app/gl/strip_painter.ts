/** The interface for drawing a raster, and the overlay over it, on the timeline's canvas. */

import type { Rgb } from "../lib/picture/colours"
import type { Raster } from "../lib/picture/raster"
import type { Window } from "../lib/picture/window"

export interface Highlight {
  /** Allocation ids, or -1. */
  hovered: number
  pinned: number
}

/** The strips' rectangle in the canvas, in its pixels. */
export interface PlotPx {
  left: number
  top: number
  width: number
  height: number
}

/** Draws the last rasters, moved and scaled to the current window, and the overlay on top. */
export interface StripPainter {
  /** Whether the CPU paints the pixels. */
  readonly software: boolean
  /** RGBA of each allocation; behind the strips, and around them. */
  setColours(palette: Uint32Array, background: Rgb, page: Rgb): void
  /** Sets the raster of the entire recording, which shows where the detail does not reach. */
  setBase(raster: Raster): void
  /** Sets the raster of the last requested window. */
  setDetail(raster: Raster): void
  /** Sets the canvas of the same size that is drawn over the strips; call it again after each change. */
  setOverlay(overlay: HTMLCanvasElement): void
  resize(widthPx: number, heightPx: number): void
  draw(window: Window, plot: PlotPx, highlight: Highlight, overlay: boolean): void
  /** Forgets the rasters: the next ones show something else. */
  clear(): void
  /** Called when a lost drawing can be drawn again. */
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
