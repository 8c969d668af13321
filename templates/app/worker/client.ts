/** Requests rasters: one at a time, the latest request wins, and a coarse one comes first if a full one is slow.
 *
 * The page itself computes the first one, which takes less time than starting a worker and copying the strips. */

import type { Bytes } from "../lib/data/curves"
import type { Raster } from "../lib/picture/raster"
import { sameWindow, type Window } from "../lib/picture/window"
import { type LoadMessage, type PaintedMessage, type PaintMessage, RasterServer, type Scene } from "./server"

interface Wish {
  window: Window
  width: number
  height: number
}

/** A full picture slower than this is preceded by a coarse one. */
const PATIENCE_MS = 12
const COARSE = 3

export class RasterClient {
  private worker: Worker | null = null
  private local: RasterServer | null = new RasterServer()
  private loaded: Scene | null = null
  private job = 0
  private busy: (Wish & { coarse: boolean }) | null = null
  private wish: Wish | null = null
  private spare: Uint32Array | undefined
  private fullTook = 0
  private hired = false

  onRaster: (raster: Raster) => void = () => {}

  /** `script` is the page's own code, which knows that it runs in a worker. */
  constructor(private readonly script: string) {}

  /** Has a worker compute all later rasters, so that the page stays responsive; without workers the page does it. */
  hire(): void {
    if (this.hired) return
    this.hired = true
    try {
      const url = URL.createObjectURL(new Blob([this.script], { type: "text/javascript" }))
      this.worker = new Worker(url)
    } catch {
      return
    }
    this.worker.onmessage = (event: MessageEvent<PaintedMessage>) => this.painted(event.data)
    this.worker.onerror = (event) => {
      this.workHere()
      if (event.message) reportError(event.error ?? new Error(event.message)) // without one it may not start here at all
    }
    this.local = null
    if (this.loaded) this.send({ kind: "load", scene: this.loaded })
  }

  /** Whether no request is waiting or being worked on. */
  get idle(): boolean {
    return !this.busy && !this.wish
  }

  /** Paints this scene from now on. `curve`: of its strips without the hidden ones. */
  load(scene: Scene, curve: Bytes): void {
    const { loaded } = this
    this.loaded = scene
    this.job++ // answers to earlier jobs show another scene
    this.busy = this.wish = null
    this.spare = undefined
    this.fullTook = 0
    const { strips, hidden, times } = scene
    const same =
      loaded && strips.birth === loaded.strips.birth && strips.death === loaded.strips.death && strips.height === loaded.strips.height
    this.send({ kind: "load", scene: { hidden, ...(!same && { strips }), ...(times !== loaded?.times && { times }) } }, curve)
  }

  /** Requests a picture; it replaces an earlier request that has not been started. */
  want(window: Window, width: number, height: number): void {
    if (width < 1 || height < 1) return
    this.wish = { window, width, height }
    if (!this.busy) this.begin(this.fullTook > PATIENCE_MS)
  }

  /** Gives a picture's buffer back for the next one. */
  recycle(raster: Raster): void {
    this.spare = raster.ids
  }

  private begin(coarse: boolean): void {
    if (!this.wish) return
    const { window, width, height } = this.wish
    const scale = coarse ? COARSE : 1
    this.busy = { ...this.wish, coarse }
    if (!coarse) this.wish = null
    const recycled = this.spare
    this.spare = undefined
    this.send({ kind: "paint", job: ++this.job, window, recycled, width: Math.ceil(width / scale), height: Math.ceil(height / scale) })
  }

  private painted(answer: PaintedMessage): void {
    if (answer.job !== this.job || !this.busy) return
    const done = this.busy
    this.busy = null
    if (!done.coarse) this.fullTook = answer.took
    this.onRaster(answer.raster)
    if (!this.wish) return
    // If the window is still the same, the full picture is next; for another one, a coarse one if need be.
    const same = sameWindow(this.wish.window, done.window)
    this.begin(!(done.coarse && same) && this.fullTook > PATIENCE_MS)
  }

  private send(message: LoadMessage | PaintMessage, curve?: Bytes): void {
    if (this.worker) {
      const transfer = message.kind === "paint" && message.recycled ? [message.recycled.buffer as ArrayBuffer] : []
      this.worker.postMessage(message, transfer)
    } else if (this.local) {
      const server = this.local
      const answer = () => {
        let painted = null
        try {
          painted = server.handle(message, curve)
        } catch (error) {
          this.busy = null // what is wished for next may be painted
          reportError(error)
        }
        if (painted) this.painted(painted)
      }
      if (this.hired) setTimeout(answer)
      else answer() // the first picture: nobody waits for anything else
    }
  }

  private workHere(): void {
    if (this.local) return
    this.worker?.terminate()
    this.worker = null
    this.local = new RasterServer()
    if (this.loaded) this.send({ kind: "load", scene: this.loaded })
    if (this.busy) {
      this.wish ??= this.busy
      this.busy = null
    }
    this.begin(false)
  }
}
