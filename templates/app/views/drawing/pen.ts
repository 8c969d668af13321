/** What the overlay is drawn with: a canvas, or a recorder that writes SVG. */

/** The part of a canvas' context that is used; all of it can be written as SVG. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "fillStyle"
  | "strokeStyle"
  | "lineWidth"
  | "globalAlpha"
  | "font"
  | "textAlign"
  | "textBaseline"
  | "fillRect"
  | "strokeRect"
  | "beginPath"
  | "moveTo"
  | "lineTo"
  | "closePath"
  | "arc"
  | "roundRect"
  | "fill"
  | "clip"
  | "stroke"
  | "fillText"
  | "setLineDash"
  | "save"
  | "restore"
> & {
  measureText(text: string): { width: number }
  /** Cuts everything up to `restore` to a rectangle. */
  clipTo(x: number, y: number, width: number, height: number): void
}

/** A context as a pen. */
export function penOf(context: CanvasRenderingContext2D): Pen {
  return Object.assign(context, {
    clipTo(x: number, y: number, width: number, height: number) {
      context.beginPath()
      context.rect(x, y, width, height)
      context.clip()
    },
  })
}

/** Cuts a text to a width, with an ellipsis; "" where not even two letters fit. */
export function fit(pen: Pen, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text
  let low = 0
  let high = Math.min(text.length, 200)
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (pen.measureText(`${text.slice(0, middle)}\u2026`).width <= width) low = middle
    else high = middle - 1
  }
  return low > 1 ? `${text.slice(0, low)}\u2026` : ""
}
