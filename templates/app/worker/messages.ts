/** The messages between the page and its worker. */

import type { Numbers, Strips } from "../lib/data/curves"
import type { Raster } from "../lib/picture/raster"
import type { Window } from "../lib/picture/window"

/** What is painted, and along which axis. */
export interface Scene {
  strips: Strips
  /** 1 for each allocation that is left out; null where none is. */
  hidden: Uint8Array | null
  /** Microseconds per event for the time axis; null for the events' own. */
  times: Numbers | null
}

/** A new scene to paint from now on. */
export interface LoadMessage {
  kind: "load"
  /** Unchanged strips and times are left out: copying those of a long recording takes a while. */
  scene: Partial<Scene> & Pick<Scene, "hidden">
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
