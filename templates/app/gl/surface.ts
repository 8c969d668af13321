/** The one canvas of the timeline and what draws on it; devices take turns. */

import { StripCanvas } from "./strip_canvas"
import type { StripPainter } from "./strip_painter"
import { StripRenderer } from "./strip_renderer"

export interface Surface {
  canvas: HTMLCanvasElement
  painter: StripPainter
  /** What to tell the reader about how this is drawn; often nothing. */
  note: string
}

/** WebGL2 where there is one, else Canvas 2D.
 *
 * `size`: that the canvas will have. To give a context another size waits for all that the graphics process does
 * meanwhile, which is to show the page for the first time. */
export function makeSurface(size: { width: number; height: number } | null): Surface {
  const make = () => Object.assign(document.createElement("canvas"), { className: "picture", ...size })
  const canvas = make()
  try {
    return { canvas, painter: new StripRenderer(canvas), note: "" }
  } catch {
    // A canvas that had a WebGL context, even a broken one, gives no other.
    const plain = make()
    return {
      canvas: plain,
      painter: new StripCanvas(plain),
      note: "This browser offers no WebGL2, so the timeline is painted without it: the same picture, only slower.",
    }
  }
}
