/** What draws a raster on a canvas, whichever way. */

import type { Raster } from "../lib/raster"
import type { Window } from "../lib/window"

export interface Highlight {
  /** Allocation ids, or -1. */
  hovered: number
  pinned: number
  /** Row of the call site to bring out, or -1 to show all alike. */
  site: number
}

/** Draws the last rasters, moved and scaled to the window that is wanted now. */
export interface StripPainter {
  /** Whether pixels are painted by the processor. */
  readonly software: boolean
  /** Call site row of each allocation, and RGBA bytes per row. */
  setColours(siteOfAllocation: Int32Array, colours: Uint8Array, background: [number, number, number]): void
  /** The whole recording: what shows where the detail does not reach. */
  setBase(raster: Raster): void
  /** The window asked for last. */
  setDetail(raster: Raster): void
  resize(widthPx: number, heightPx: number): void
  draw(window: Window, highlight: Highlight): void
  /** Forgets the rasters: the next ones show something else. */
  clear(): void
  /** To be called when what was drawn is lost and can be drawn again. */
  onRestored: () => void
}
