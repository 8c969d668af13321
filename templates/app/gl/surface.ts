/** The one canvas of the timeline and what draws on it; devices take turns. */

import { StripCanvas } from "./strip_canvas"
import type { StripPainter } from "./strip_painter"
import { StripRenderer } from "./strip_renderer"

/** Canvas 2D at first, WebGL2 from then on where there is one.
 *
 * A WebGL context takes a while: the graphics process starts, compiles, and answers only when all that it was given before
 * is done. One picture is painted sooner without it. */
export class Surface {
  canvas = newCanvas()
  painter: StripPainter = new StripCanvas(this.canvas)
  /** What to tell the reader about how this is drawn; often nothing. */
  note = ""
  /** Whether the painter stays. */
  final = false

  /** Makes the context, of the size that the canvas has: to resize one later waits for the graphics process as well.
   *
   * Returns whether there are now another canvas and a painter that knows nothing yet. */
  accelerate(): boolean {
    this.final = true
    const { width, height } = this.canvas
    const canvas = Object.assign(newCanvas(), { width, height })
    try {
      this.painter = new StripRenderer(canvas)
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
