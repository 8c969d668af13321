/** Pictures of the timeline as it is, to save or to print: of pixels, or an SVG drawing of rectangles and text. */

import { packed } from "../../gl/strip_painter"
import { paintRaster } from "../../gl/strip_canvas"
import { formatBytes, formatCount } from "../../lib/text/format"
import { cssColour } from "../../lib/picture/colours"
import type { Raster } from "../../lib/picture/raster"
import { h } from "../shared/dom"
import type { Geometry } from "./geometry"
import type { Overlay } from "./overlay"
import { type Pen, penOf } from "./pen"
import { drawLegend, legendHeight, type PictureLegend } from "./picture_legend"
import type { Scene } from "./scene"
import { stripPaths, SvgPen } from "./svg_pen"

export interface PictureParts {
  title: string
  scene: Scene
  overlay: Overlay
  raster: Raster
  /** RGBA of each allocation. */
  palette: Uint32Array
  legend: PictureLegend
}

/** Pixels per CSS pixel. */
const SCALE = 2

/** Space at the left, in font sizes. */
const EDGE = 0.5

/** Makes the file and has the browser save it. */
export async function savePicture(kind: "png" | "svg", parts: PictureParts): Promise<void> {
  const png = () => new Promise<Blob>((done) => drawn(parts).toBlob((blob) => done(blob!), "image/png"))
  const blob = kind === "svg" ? new Blob([svgOf(parts)], { type: "image/svg+xml" }) : await png()
  const url = URL.createObjectURL(blob)
  h("a", { href: url, download: `${fileName(parts.title)}.${kind}` }).click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** A file's name from a report's title: letters and digits of any script, and what joins them. */
export function fileName(title: string): string {
  const words = title
    .slice(0, 200)
    .replace(/\.(pickle|pkl|json|zip)(\.(gz|zst))?$/i, "")
    .replace(/[^\p{L}\p{N}._-]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
  return `${words.slice(0, 80) || "memory"}-timeline`
}

/** Room for the heading. */
const headHeight = (g: Geometry) => Math.round(g.font * 3.4)

function heading({ title, overlay, legend, scene: { state, scale, counted } }: PictureParts): [string, string] {
  const [first, end] = scale.eventsIn(state.window.x0, state.window.x1)
  const bytes = `${formatBytes(Math.round(state.window.y0))} to ${formatBytes(Math.round(state.window.y1))}`
  const replay = counted.partial ? null : overlay.history.device.replays[state.replay]
  const line =
    `line: ${state.curve === "allocated" ? "requested" : "allocated"}${overlay.history.hasReserved && !counted.partial ? ", dashed: reserved" : ""}` +
    (overlay.history.device.envelopes.length && !counted.partial ? ", hatched: what private pools reserve" : "") +
    (replay ? `, pink: reserved with ${replay.settings}, by a model` : "")
  return [
    title,
    `${legend.filter && `${legend.filter}: `}${state.curve} bytes, events ${formatCount(Math.max(first, 0))} to ${formatCount(Math.max(end - 1, 0))}, ${bytes}; ${line}`,
  ]
}

/** The timeline's height without the map of the entire recording, which is useless on paper. */
const plotHeight = ({ g }: Scene) => g.mapTop - Math.round(g.font * 0.3)

const pictureHeight = ({ scene, legend }: PictureParts) => headHeight(scene.g) + plotHeight(scene) + legendHeight(legend, scene.g)

/** The picture, sharp on a slide and on paper. */
export function drawn(parts: PictureParts): HTMLCanvasElement {
  const { scene, raster, palette } = parts
  const { g, theme } = scene
  const head = headHeight(g)
  const canvas = h("canvas", { width: Math.round(g.width * SCALE), height: Math.round(pictureHeight(parts) * SCALE) })
  const context = canvas.getContext("2d")!
  context.scale(SCALE, SCALE)
  context.fillStyle = cssColour(theme.page)
  context.fillRect(0, 0, canvas.width, canvas.height)
  const strips = h("canvas", { width: raster.width, height: raster.height })
  strips.getContext("2d")!.putImageData(paintRaster(raster, palette, theme.background, { hovered: -1, pinned: scene.state.pinned }), 0, 0)
  write(context, parts)
  context.translate(0, head)
  context.imageSmoothingEnabled = false
  context.drawImage(strips, g.left, g.top, g.plotWidth, g.plotHeight)
  drawOver(penOf(context), parts)
  return canvas
}

function svgOf(parts: PictureParts): string {
  const { scene, raster, palette } = parts
  const { g, theme } = scene
  const head = headHeight(g)
  const pen = new SvgPen(g.width, pictureHeight(parts))
  pen.fillStyle = cssColour(theme.page)
  pen.fillRect(0, 0, pen.width, pen.height)
  write(pen, parts)
  pen.translate(0, head)
  pen.fillStyle = cssColour(theme.background)
  pen.fillRect(g.left, g.top, g.plotWidth, g.plotHeight)
  pen.paths(stripPaths(raster, palette, packed(theme.background)), g.left, g.top, g.plotWidth / raster.width, g.plotHeight / raster.height)
  drawOver(pen, parts)
  return pen.text(parts.title)
}

/** The axes, curves and marks, and the legend below them. */
function drawOver(pen: Pen, { scene, overlay, legend }: PictureParts): void {
  const g = { ...scene.g, edge: scene.g.font * EDGE }
  overlay.draw(pen, { ...scene, g })
  drawLegend(pen, legend, g, scene.theme, plotHeight(scene) + g.font * 0.5)
}

/** The heading's two lines. */
function write(
  pen: Pick<CanvasRenderingContext2D, "font" | "fillStyle" | "textAlign" | "textBaseline" | "fillText">,
  parts: PictureParts,
): void {
  const { g, theme } = parts.scene
  const [title, about] = heading(parts)
  pen.textAlign = "left"
  pen.textBaseline = "top"
  pen.font = `600 ${Math.round(g.font * 1.2)}px ${theme.font}`
  pen.fillStyle = theme.text
  pen.fillText(title, g.font * EDGE, g.font * 0.5)
  pen.font = `${g.font}px ${theme.font}`
  pen.fillStyle = theme.muted
  pen.fillText(about, g.font * EDGE, g.font * 2)
}
