/** Draws the same rasters with Canvas 2D, where WebGL2 is missing. */

import { ID, type Raster } from "../lib/raster"
import type { Window } from "../lib/window"
import type { Highlight, StripPainter } from "./strip_painter"

interface Picture {
  raster: Raster
  canvas: HTMLCanvasElement
  /** The highlight that the canvas was painted with; null when it is out of date. */
  painted: string | null
}

export class StripCanvas implements StripPainter {
  onRestored: () => void = () => {}
  readonly software = true
  private readonly context: CanvasRenderingContext2D
  private base: Picture | null = null
  private detail: Picture | null = null
  private sites: Int32Array = new Int32Array(0)
  private colours: Uint8Array = new Uint8Array(0)
  private background: [number, number, number] = [255, 255, 255]

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: false })!
  }

  setColours(siteOfAllocation: Int32Array, colours: Uint8Array, background: [number, number, number]): void {
    this.sites = siteOfAllocation
    this.colours = colours
    this.background = background
    for (const picture of [this.base, this.detail]) if (picture) picture.painted = null
  }

  setBase(raster: Raster): void {
    this.base = { raster, canvas: document.createElement("canvas"), painted: null }
  }

  setDetail(raster: Raster): void {
    this.detail = { raster, canvas: this.detail?.canvas ?? document.createElement("canvas"), painted: null }
  }

  resize(widthPx: number, heightPx: number): void {
    this.canvas.width = widthPx
    this.canvas.height = heightPx
  }

  draw(window: Window, highlight: Highlight): void {
    const { context, canvas } = this
    context.imageSmoothingEnabled = false
    context.fillStyle = `rgb(${this.background.join(" ")})`
    context.fillRect(0, 0, canvas.width, canvas.height)
    for (const picture of [this.base, this.detail]) {
      if (!picture) continue
      const key = `${highlight.hovered} ${highlight.pinned} ${highlight.site}`
      if (picture.painted !== key) {
        this.paint(picture, highlight)
        picture.painted = key
      }
      const of = picture.raster.window
      const perStep = canvas.width / (window.x1 - window.x0)
      const perByte = canvas.height / (window.y1 - window.y0)
      context.drawImage(
        picture.canvas,
        (of.x0 - window.x0) * perStep, (window.y1 - of.y1) * perByte,
        (of.x1 - of.x0) * perStep, (of.y1 - of.y0) * perByte,
      )
    }
  }

  clear(): void {
    this.base = this.detail = null
  }

  private paint({ raster, canvas }: Picture, highlight: Highlight): void {
    const { width, height, ids } = raster
    canvas.width = width
    canvas.height = height
    const image = new ImageData(width, height)
    const pixels = new Uint32Array(image.data.buffer)
    const blank = pack(...this.background)
    for (let x = 0; x < width; x++) {
      for (let y = 0; y < height; y++) {
        const at = x * height + y
        const id = ids[at] & ID
        pixels[(height - 1 - y) * width + x] = id ? this.colourOf(id - 1, highlight, ids[at] > ID ? 0.8 : 1) : blank
      }
    }
    canvas.getContext("2d")!.putImageData(image, 0, 0)
  }

  private colourOf(allocation: number, highlight: Highlight, shade: number): number {
    const row = this.sites[allocation]
    const dim = highlight.site >= 0 && row !== highlight.site ? 0.78 : 0
    const light = allocation === highlight.pinned ? 0.55 : allocation === highlight.hovered ? 0.38 : 0
    const channel = (k: number) => {
      const plain = this.colours[row * 4 + k] * shade
      const dimmed = plain + (this.background[k] - plain) * dim
      return dimmed + (255 - dimmed) * light
    }
    return pack(channel(0), channel(1), channel(2))
  }
}

function pack(r: number, g: number, b: number): number {
  return (255 << 24) | (b << 16) | (g << 8) | r
}
