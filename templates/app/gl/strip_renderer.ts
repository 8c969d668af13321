/** Draws rasters with WebGL2: one quad, and a fragment shader that looks every pixel up. */

import type { Raster } from "../lib/raster"
import type { Window } from "../lib/window"
import { makeProgram, makeTexture } from "./program"
import type { Highlight, StripPainter } from "./strip_painter"

const VERTEX = `#version 300 es
out vec2 at;
void main() {
  at = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  gl_Position = vec4(at * 2.0 - 1.0, 0.0, 1.0);
}`

// A raster's texel (x, y) is row x of column y: its pixels stand column after column.
// Software GL pays for every fetch: one for the pixel, one for its colour, more only to bring something out.
const FRAGMENT = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;
uniform usampler2D base, detail, sites;
uniform sampler2D palette;
uniform vec4 toBase, toDetail;
uniform ivec2 baseSize, detailSize;
uniform int hovered, pinned, site;
uniform vec3 background;
in vec2 at;
out vec4 colour;
bool rim(vec2 inDetail, uint pixel) {
  ivec2 p = ivec2(inDetail * vec2(detailSize)).yx;
  for (int k = 0; k < 4; k++) {
    ivec2 beside = p + ivec2(k == 0 ? 1 : k == 1 ? -1 : 0, k == 2 ? 1 : k == 3 ? -1 : 0);
    if (((texelFetch(detail, beside, 0).r ^ pixel) & 0x7fffffffu) != 0u) return true;
  }
  return false;
}
void main() {
  vec2 inDetail = at * toDetail.xy + toDetail.zw;
  vec2 inBase = at * toBase.xy + toBase.zw;
  uint pixel = 0u;
  if (inDetail.x >= 0.0 && inDetail.y >= 0.0 && inDetail.x < 1.0 && inDetail.y < 1.0) {
    pixel = texelFetch(detail, ivec2(inDetail * vec2(detailSize)).yx, 0).r;
  } else if (inBase.x >= 0.0 && inBase.y >= 0.0 && inBase.x < 1.0 && inBase.y < 1.0) {
    pixel = texelFetch(base, ivec2(inBase * vec2(baseSize)).yx, 0).r;
  }
  int id = int(pixel & 0x7fffffffu) - 1;
  if (id < 0) { colour = vec4(background, 1.0); return; }
  ivec2 entry = ivec2(id & 2047, id >> 11);
  vec3 rgb = texelFetch(palette, entry, 0).rgb;
  bool edge = pixel > 0x7fffffffu;
  if (edge) rgb *= 0.8;
  if (site >= 0 && int(texelFetch(sites, entry, 0).r) != site) rgb = mix(rgb, background, 0.78);
  if (id == hovered) rgb = mix(rgb, vec3(1.0), 0.4);
  if (id == pinned) rgb = rim(inDetail, pixel) ? vec3(0.0) : mix(rgb, vec3(1.0), 0.5);
  colour = vec4(rgb, 1.0);
}`

const ROW = 2048

/** Works in fractions of the canvas: a window only ever reaches the GPU relative to a raster's own. */
export class StripRenderer implements StripPainter {
  private readonly gl: WebGL2RenderingContext
  private program!: WebGLProgram
  private textures!: Record<"base" | "detail" | "sites" | "palette", WebGLTexture>
  private uniforms = new Map<string, WebGLUniformLocation | null>()
  private base: Raster | null = null
  private detail: Raster | null = null
  private sites: Int32Array = new Int32Array(0)
  private colours: Uint8Array = new Uint8Array(0)
  private background: [number, number, number] = [255, 255, 255]

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

  setColours(siteOfAllocation: Int32Array, colours: Uint8Array, background: [number, number, number]): void {
    this.sites = siteOfAllocation
    this.colours = colours
    this.background = background
    this.uploadColours()
  }

  setBase(raster: Raster): void {
    this.base = raster
    this.uploadRaster("base", raster)
  }

  setDetail(raster: Raster): void {
    this.detail = raster
    this.uploadRaster("detail", raster)
  }

  resize(widthPx: number, heightPx: number): void {
    this.canvas.width = widthPx
    this.canvas.height = heightPx
  }

  draw(window: Window, highlight: Highlight): void {
    const { gl } = this
    if (gl.isContextLost()) return
    gl.viewport(0, 0, this.canvas.width, this.canvas.height)
    gl.useProgram(this.program)
    ;(["base", "detail", "sites", "palette"] as const).forEach((name, unit) => {
      gl.activeTexture(gl.TEXTURE0 + unit)
      gl.bindTexture(gl.TEXTURE_2D, this.textures[name])
      gl.uniform1i(this.at(name), unit)
    })
    this.place("Base", this.base, window)
    this.place("Detail", this.detail, window)
    gl.uniform1i(this.at("hovered"), highlight.hovered)
    gl.uniform1i(this.at("pinned"), highlight.pinned)
    gl.uniform1i(this.at("site"), highlight.site)
    const [r, g, b] = this.background
    gl.uniform3f(this.at("background"), r / 255, g / 255, b / 255)
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)
  }

  clear(): void {
    this.base = this.detail = null
  }

  /** Says where the canvas lies in a raster: float64 here, since a fraction of it is all the GPU sees. */
  private place(name: "Base" | "Detail", raster: Raster | null, w: Window): void {
    const { gl } = this
    const size = name === "Base" ? "baseSize" : "detailSize"
    if (!raster) {
      gl.uniform2i(this.at(size), 0, 0)
      return
    }
    const of = raster.window
    const spanX = of.x1 - of.x0
    const spanY = of.y1 - of.y0
    gl.uniform2i(this.at(size), raster.width, raster.height)
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
    this.textures = { base: makeTexture(gl), detail: makeTexture(gl), sites: makeTexture(gl), palette: makeTexture(gl) }
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1)
    this.uploadColours()
    const blank = { window: { x0: 0, x1: 1, y0: 0, y1: 1 }, width: 1, height: 1, ids: new Uint32Array(1) }
    this.uploadRaster("base", this.base ?? blank)
    this.uploadRaster("detail", this.detail ?? blank)
  }

  private uploadRaster(name: "base" | "detail", raster: Raster): void {
    const { gl } = this
    gl.bindTexture(gl.TEXTURE_2D, this.textures[name])
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32UI, raster.height, raster.width, 0, gl.RED_INTEGER, gl.UNSIGNED_INT, raster.ids)
  }

  private uploadColours(): void {
    const { gl } = this
    const rows = Math.max(Math.ceil(this.sites.length / ROW), 1)
    const sites = new Uint32Array(rows * ROW)
    sites.set(this.sites)
    gl.bindTexture(gl.TEXTURE_2D, this.textures.sites)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32UI, ROW, rows, 0, gl.RED_INTEGER, gl.UNSIGNED_INT, sites)
    const bySite = new Uint32Array(this.colours.slice().buffer)
    const byAllocation = new Uint32Array(rows * ROW)
    for (let i = 0; i < this.sites.length; i++) byAllocation[i] = bySite[this.sites[i]]
    gl.bindTexture(gl.TEXTURE_2D, this.textures.palette)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, ROW, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(byAllocation.buffer))
  }
}
