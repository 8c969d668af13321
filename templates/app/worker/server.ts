/** Paints rasters on request: in a worker, or in the page where no worker can start. */

import { type Bytes, curveOf, type Numbers, type Strips, without } from "../lib/data/curves"
import { type Raster, Rasteriser } from "../lib/picture/raster"
import type { Window } from "../lib/picture/window"
import { EventScale, TimeScale } from "../lib/data/scale"

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

export class RasterServer {
  private rasteriser: Rasteriser | null = null
  private scene: Scene | null = null

  /** Handles one message; a request to paint is answered. `curve`: of the strips that are not hidden, if already computed. */
  handle(message: LoadMessage | PaintMessage, curve?: Bytes): PaintedMessage | null {
    if (message.kind === "load") {
      this.scene = { ...this.scene, ...message.scene } as Scene // the first message has it all
      const { strips, hidden, times } = this.scene
      const left = hidden ? without(strips, hidden) : strips
      const scale = times ? new TimeScale(times) : new EventScale(strips.events)
      this.rasteriser = new Rasteriser(left, curve ?? curveOf(left), scale)
      return null
    }
    if (!this.rasteriser) return null
    const begun = performance.now()
    const { job, window, width, height, recycled } = message
    const raster = this.rasteriser.paint(window, width, height, recycled)
    return { job, raster, took: performance.now() - begun }
  }
}

/** Makes the worker's global scope answer messages. */
export function serve(scope: DedicatedWorkerGlobalScopeLike): void {
  const server = new RasterServer()
  scope.onmessage = (event) => {
    const answer = server.handle(event.data)
    if (answer) scope.postMessage(answer, [answer.raster.ids.buffer as ArrayBuffer, answer.raster.events.buffer as ArrayBuffer])
  }
}

/** The part of a worker's global scope that is used; TypeScript cannot load both libraries at once. */
export interface DedicatedWorkerGlobalScopeLike {
  onmessage: ((event: MessageEvent<LoadMessage | PaintMessage>) => void) | null
  postMessage(message: unknown, transfer: Transferable[]): void
}
