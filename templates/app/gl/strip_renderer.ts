/** Draws the timeline with WebGL2: one quad, and a fragment shader that looks every pixel up. */

import type { Rgb } from "../lib/colours"
import type { Raster } from "../lib/raster"
import type { Window } from "../lib/window"
import { makeProgram, makeTexture } from "./program"
import { EDGE_SHADE, type Highlight, HOVERED, PINNED, type PlotPx, type StripPainter } from "./strip_painter"

// The overlay is a texture, not a canvas on top: blending two canvases cost software GL a third of each frame.
const VERTEX = `#version 300 es
uniform vec4 plot, toBase, toDetail;
out vec2 inOverlay, inPlot, inBase, inDetail;
void main() {
  vec2 at = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  inOverlay = vec2(at.x, 1.0 - at.y);
  inPlot = (at - plot.xy) / plot.zw;
  inBase = inPlot * toBase.xy + toBase.zw;
  inDetail = inPlot * toDetail.xy + toDetail.zw;
  gl_Position = vec4(at * 2.0 - 1.0, 0.0, 1.0);
}`

// A raster's texel (x, y) is row x of column y: its pixels stand column after column.
// Software GL pays for every fetch: the pixel, its colour and the overlay; more only to bring a strip out.
const FRAGMENT = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;
uniform usampler2D base, detail;
uniform sampler2D palette, overlay;
uniform vec2 baseSize, detailSize;
uniform int hovered, pinned;
uniform vec3 background, page;
uniform bool withOverlay;
in vec2 inOverlay, inPlot, inBase, inDetail;
out vec4 colour;
bool within(vec2 p) { return p.x >= 0.0 && p.y >= 0.0 && p.x < 1.0 && p.y < 1.0; }
bool rim(uint pixel) {
  ivec2 p = ivec2(inDetail * detailSize).yx;
  for (int k = 0; k < 4; k++) {
    ivec2 beside = p + ivec2(k == 0 ? 1 : k == 1 ? -1 : 0, k == 2 ? 1 : k == 3 ? -1 : 0);
    if (((texelFetch(detail, beside, 0).r ^ pixel) & 0x7fffffffu) != 0u) return true;
  }
  return false;
}
vec3 strip() {
  uint pixel = 0u;
  if (within(inDetail)) pixel = texelFetch(detail, ivec2(inDetail * detailSize).yx, 0).r;
  else if (within(inBase)) pixel = texelFetch(base, ivec2(inBase * baseSize).yx, 0).r;
  int id = int(pixel & 0x7fffffffu) - 1;
  if (id < 0) return background;
  vec3 rgb = texelFetch(palette, ivec2(id & 2047, id >> 11), 0).rgb;
  if (pixel > 0x7fffffffu) rgb *= ${EDGE_SHADE};
  if (id == hovered) rgb = mix(rgb, vec3(1.0), ${HOVERED});
  if (id == pinned) rgb = rim(pixel) ? vec3(0.0) : mix(rgb, vec3(1.0), ${PINNED});
  return rgb;
}
void main() {
  vec3 rgb = within(inPlot) ? strip() : page;
  if (withOverlay) {
    vec4 over = texture(overlay, inOverlay);
    rgb = rgb * (1.0 - over.a) + over.rgb;
  }
  colour = vec4(rgb, 1.0);
}`

const ROW = 2048
const TEXTURES = ["base", "detail", "palette", "overlay"] as const

/** Works in fractions of the plot: a window only ever reaches the GPU relative to a raster's own. */
export class StripRenderer implements StripPainter {
  private readonly gl: WebGL2RenderingContext
  private program!: WebGLProgram
  private textures!: Record<(typeof TEXTURES)[number], WebGLTexture>
  private uniforms = new Map<string, WebGLUniformLocation | null>()
  private base: Raster | null = null
  private detail: Raster | null = null
  private overlay: HTMLCanvasElement | null = null
  private palette: Uint32Array = new Uint32Array(0)
  private background: Rgb = [255, 255, 255]
  private page: Rgb = [255, 255, 255]

  /** Called when a lost context has come back, so that a frame is drawn. */
  onRestored: () => void = () => {}

  /** Throws where the browser offers no WebGL2. */
  constructor(private readonly canvas: HTMLCanvasElement) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false })
    if (!gl) throw new Error("no WebGL2")
    this.gl = gl
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault())
    canvas.addEventListener("webglcontextrestored", () => {
      this.upload()
      this.onRestored()
    })
    this.upload()
  }

  /** Whether no graphics card does the work. */
  get software(): boolean {
    const info = this.gl.getExtension("WEBGL_debug_renderer_info")
    const name = this.gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : this.gl.RENDERER)
    return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(String(name))
  }

  setColours(palette: Uint32Array, background: Rgb, page: Rgb): void {
    this.palette = palette
    this.background = background
    this.page = page
    this.uploadPalette()
  }

  setBase(raster: Raster): void {
    this.base = raster
    this.uploadRaster("base", raster)
  }

  setDetail(raster: Raster): void {
    this.detail = raster
    this.uploadRaster("detail", raster)
  }

  setOverlay(overlay: HTMLCanvasElement): void {
    this.overlay = overlay
    this.uploadOverlay()
  }

  resize(widthPx: number, heightPx: number): void {
    this.canvas.width = widthPx
    this.canvas.height = heightPx
  }

  draw(window: Window, plot: PlotPx, highlight: Highlight, overlay: boolean): void {
    const { gl } = this
    const { width, height } = this.canvas
    if (gl.isContextLost()) return
    gl.viewport(0, 0, width, height)
    gl.useProgram(this.program)
    TEXTURES.forEach((name, unit) => {
      gl.activeTexture(gl.TEXTURE0 + unit)
      gl.bindTexture(gl.TEXTURE_2D, this.textures[name])
      gl.uniform1i(this.at(name), unit)
    })
    this.place("Base", this.base, window)
    this.place("Detail", this.detail, window)
    gl.uniform4f(this.at("plot"), plot.left / width, 1 - (plot.top + plot.height) / height, plot.width / width, plot.height / height)
    gl.uniform1i(this.at("hovered"), highlight.hovered)
    gl.uniform1i(this.at("pinned"), highlight.pinned)
    gl.uniform1i(this.at("withOverlay"), overlay && this.overlay ? 1 : 0)
    for (const name of ["background", "page"] as const) gl.uniform3fv(this.at(name), this[name].map((channel) => channel / 255))
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)
  }

  clear(): void {
    this.base = this.detail = null
  }

  /** Says where the plot lies in a raster: float64 here, since a fraction of it is all the GPU sees. */
  private place(name: "Base" | "Detail", raster: Raster | null, w: Window): void {
    const { gl } = this
    const size = name === "Base" ? "baseSize" : "detailSize"
    if (!raster) {
      gl.uniform2f(this.at(size), 0, 0)
      gl.uniform4f(this.at(`to${name}`), 0, 0, -1, -1) // nowhere
      return
    }
    const of = raster.window
    const spanX = of.x1 - of.x0
    const spanY = of.y1 - of.y0
    gl.uniform2f(this.at(size), raster.width, raster.height)
    gl.uniform4f(
      this.at(`to${name}`),
      (w.x1 - w.x0) / spanX, (w.y1 - w.y0) / spanY, (w.x0 - of.x0) / spanX, (w.y0 - of.y0) / spanY,
    )
  }

  private at(name: string): WebGLUniformLocation | null {
    if (!this.uniforms.has(name)) this.uniforms.set(name, this.gl.getUniformLocation(this.program, name))
    return this.uniforms.get(name)!
  }

  /** Makes everything the context holds; a lost context takes it all with it. */
  private upload(): void {
    const { gl } = this
    this.uniforms.clear()
    this.program = makeProgram(gl, VERTEX, FRAGMENT)
    this.textures = { base: makeTexture(gl), detail: makeTexture(gl), palette: makeTexture(gl), overlay: makeTexture(gl) }
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1)
    gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, true)
    this.uploadPalette()
    this.uploadOverlay()
    const blank = { window: { x0: 0, x1: 1, y0: 0, y1: 1 }, width: 1, height: 1, ids: new Uint32Array(1) }
    this.uploadRaster("base", this.base ?? blank)
    this.uploadRaster("detail", this.detail ?? blank)
  }

  private uploadRaster(name: "base" | "detail", raster: Pick<Raster, "width" | "height" | "ids">): void {
    const { gl } = this
    gl.bindTexture(gl.TEXTURE_2D, this.textures[name])
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32UI, raster.height, raster.width, 0, gl.RED_INTEGER, gl.UNSIGNED_INT, raster.ids)
  }

  private uploadOverlay(): void {
    const { gl, overlay } = this
    gl.bindTexture(gl.TEXTURE_2D, this.textures.overlay)
    if (overlay) gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, overlay)
    else gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4))
  }

  private uploadPalette(): void {
    const { gl } = this
    const rows = Math.max(Math.ceil(this.palette.length / ROW), 1)
    const texels = new Uint32Array(rows * ROW)
    texels.set(this.palette)
    gl.bindTexture(gl.TEXTURE_2D, this.textures.palette)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, ROW, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(texels.buffer))
  }
}
