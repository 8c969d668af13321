/** Draws the same rasters with Canvas 2D, where WebGL2 is missing. */

import { cssColour, type Rgb } from "../lib/picture/colours"
import { ID, type Raster } from "../lib/picture/raster"
import type { Window } from "../lib/picture/window"
import { EDGE_SHADE, type Highlight, HOVERED, packed, PINNED, type PlotPx, type StripPainter } from "./strip_painter"

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
  private overlay: HTMLCanvasElement | null = null
  private palette: Uint32Array = new Uint32Array(0)
  private background: Rgb = [255, 255, 255]
  private page: Rgb = [255, 255, 255]

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: false, willReadFrequently: true })!
  }

  setColours(palette: Uint32Array, background: Rgb, page: Rgb): void {
    this.palette = palette
    this.background = background
    this.page = page
    for (const picture of [this.base, this.detail]) if (picture) picture.painted = null
  }

  setBase(raster: Raster): void {
    this.base = { raster, canvas: document.createElement("canvas"), painted: null }
  }

  setDetail(raster: Raster): void {
    this.detail = { raster, canvas: this.detail?.canvas ?? document.createElement("canvas"), painted: null }
  }

  setOverlay(overlay: HTMLCanvasElement): void {
    this.overlay = overlay
  }

  resize(widthPx: number, heightPx: number): void {
    this.canvas.width = widthPx
    this.canvas.height = heightPx
  }

  draw(window: Window, plot: PlotPx, highlight: Highlight, overlay: boolean): void {
    const { context: c, canvas } = this
    c.imageSmoothingEnabled = false
    c.fillStyle = cssColour(this.page)
    c.fillRect(0, 0, canvas.width, canvas.height)
    c.save()
    c.beginPath()
    c.rect(plot.left, plot.top, plot.width, plot.height)
    c.clip()
    c.fillStyle = cssColour(this.background)
    c.fillRect(plot.left, plot.top, plot.width, plot.height)
    for (const picture of [this.base, this.detail]) {
      if (!picture) continue
      const key = `${highlight.hovered} ${highlight.pinned}`
      if (picture.painted !== key) {
        this.paint(picture, highlight)
        picture.painted = key
      }
      const of = picture.raster.window
      const perX = plot.width / (window.x1 - window.x0)
      const perByte = plot.height / (window.y1 - window.y0)
      c.drawImage(
        picture.canvas,
        plot.left + (of.x0 - window.x0) * perX,
        plot.top + (window.y1 - of.y1) * perByte,
        (of.x1 - of.x0) * perX,
        (of.y1 - of.y0) * perByte,
      )
    }
    c.restore()
    if (overlay && this.overlay) c.drawImage(this.overlay, 0, 0)
  }

  clear(): void {
    this.base = this.detail = null
  }

  private paint({ raster, canvas }: Picture, highlight: Highlight): void {
    canvas.width = raster.width
    canvas.height = raster.height
    canvas.getContext("2d", { willReadFrequently: true })!.putImageData(paintRaster(raster, this.palette, this.background, highlight), 0, 0)
  }
}

/** A raster as pixels, from the top left. */
export function paintRaster({ width, height, ids }: Raster, palette: Uint32Array, background: Rgb, highlight: Highlight): ImageData {
  const image = new ImageData(width, height)
  const pixels = new Uint32Array(image.data.buffer)
  const blank = packed(background)
  for (let x = 0; x < width; x++) {
    let last = -1
    let colour = blank
    for (let y = 0; y < height; y++) {
      const pixel = ids[x * height + y]
      if (pixel !== last) {
        const id = (pixel & ID) - 1
        colour = id < 0 ? blank : shaded(palette[id], pixel > ID, id === highlight.pinned ? PINNED : id === highlight.hovered ? HOVERED : 0)
        last = pixel
      }
      pixels[(height - 1 - y) * width + x] = colour
    }
  }
  return image
}

function shaded(colour: number, edge: boolean, light: number): number {
  if (!edge && !light) return colour
  const channel = (shift: number) => {
    const plain = ((colour >>> shift) & 255) * (edge ? EDGE_SHADE : 1)
    return Math.round(plain + (255 - plain) * light)
  }
  return packed([channel(0), channel(8), channel(16)])
}
