/** What the page and its worker say to each other. */

import type { Strips } from "../lib/curves"
import type { Raster } from "../lib/raster"
import type { Window } from "../lib/window"

/** New strips to paint from now on. */
export interface LoadMessage {
  kind: "load"
  strips: Strips
}

/** A window to paint; `recycled` is the pixel buffer of an earlier answer, given back. */
export interface PaintMessage {
  kind: "paint"
  job: number
  window: Window
  width: number
  height: number
  recycled?: Uint32Array
}

export interface PaintedMessage {
  job: number
  raster: Raster
  /** How long painting took, in milliseconds. */
  took: number
}
