/** The one canvas of the timeline and what draws on it; devices take turns. */

import { StripCanvas } from "./strip_canvas"
import type { StripPainter } from "./strip_painter"
import { openWebGL, StripRenderer } from "./strip_renderer"

/** Canvas 2D at first, WebGL2 from then on where a graphics card runs it.
 *
 * A WebGL context takes a while: the graphics process starts, compiles, and answers only when all earlier work is done.
 * The first picture is painted sooner without it. Where software runs WebGL, Canvas 2D stays: it is the faster of the two. */
export class Surface {
  canvas = newCanvas()
  painter: StripPainter = new StripCanvas(this.canvas)
  /** A note for the reader about how the timeline is drawn; often empty. */
  note = ""
  /** Whether the painter stays. */
  final = false

  /** Creates the context at the canvas' size: resizing it later would wait for the graphics process, too.
   *
   * Returns whether the canvas and the painter, which has no rasters yet, are new. */
  accelerate(): boolean {
    this.final = true
    const { width, height } = this.canvas
    const canvas = Object.assign(newCanvas(), { width, height })
    try {
      const gl = openWebGL(canvas)
      if (!gl) return false
      this.painter = new StripRenderer(canvas, gl)
      this.canvas = canvas
      return true
    } catch {
      this.note = "This browser offers no WebGL2, so the timeline is painted without it: the same picture, only slower."
      return false
    }
  }
}

function newCanvas(): HTMLCanvasElement {
  return Object.assign(document.createElement("canvas"), { className: "picture" })
}
