/** The canvases of a timeline or a map: what a painter paints, and the lines drawn over that. */

import type { StripPainter, PlotPx } from "../../gl/strip_painter"
import type { Surface } from "../../gl/surface"
import type { Plot } from "../../lib/picture/window"
import { h } from "../shared/dom"
import { plotPx } from "./geometry"

/** A plot in a drawing of this size, all in CSS pixels. */
type Placed = Plot & { width: number; height: number }

/** Works in CSS pixels; canvases in device pixels, names ending in Px. */
export class Layers {
  /** Where the strips or cells are, for tests and pointers; the canvas reaches further. */
  readonly strips = h("div.strips")
  ratio = 1
  private lines!: HTMLCanvasElement
  private pen!: CanvasRenderingContext2D
  private geometry: Placed | null = null

  /** Takes the surface over from whoever had it; `redraw` is called when a lost drawing can be drawn again. */
  constructor(
    private readonly surface: Surface,
    private readonly redraw: () => void,
  ) {
    this.take()
  }

  get painter(): StripPainter {
    return this.surface.painter
  }

  get plotPx(): PlotPx {
    return plotPx(this.geometry!, this.ratio)
  }

  private take(): void {
    const { painter } = this
    painter.clear()
    painter.onRestored = this.redraw
    // Without a graphics card, plain painting is twice as fast as emulating one.
    this.lines = document.createElement("canvas")
    this.pen = this.lines.getContext("2d", { willReadFrequently: painter.software })!
  }

  /** Has a graphics card paint from now on; returns whether there is one, whose painter has no rasters yet. */
  accelerate(): boolean {
    const { canvas } = this.surface
    if (!this.surface.accelerate()) return false
    canvas.replaceWith(this.surface.canvas)
    this.take()
    if (this.geometry) this.place(this.geometry, this.ratio)
    return true
  }

  /** Gives the canvases their size. */
  place(geometry: Placed, ratio: number): void {
    this.geometry = geometry
    this.ratio = ratio
    const { left, top, width, height, plotWidth, plotHeight } = geometry
    const [widthPx, heightPx] = [Math.round(width * ratio), Math.round(height * ratio)]
    Object.assign(this.strips.style, { left: `${left}px`, top: `${top}px`, width: `${plotWidth}px`, height: `${plotHeight}px` })
    Object.assign(this.surface.canvas.style, { width: `${widthPx / ratio}px`, height: `${heightPx / ratio}px` })
    this.painter.resize(widthPx, heightPx)
    Object.assign(this.lines, { width: widthPx, height: heightPx })
  }

  /** Draws the lines anew. */
  drawLines(draw: (pen: CanvasRenderingContext2D) => void): void {
    const { pen, ratio } = this
    pen.setTransform(ratio, 0, 0, ratio, 0, 0)
    pen.clearRect(0, 0, this.lines.width, this.lines.height)
    draw(pen)
    this.painter.setOverlay(this.lines)
  }

  /** The plot as it was drawn in this turn: later a WebGL canvas may be empty. */
  pixels(): ImageData {
    const { left, top, width, height } = this.plotPx
    const copy = h("canvas", { width, height }).getContext("2d")!
    copy.drawImage(this.surface.canvas, -left, -top)
    return copy.getImageData(0, 0, width, height)
  }
}
