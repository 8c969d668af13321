/** Draws the timeline with WebGL2: one quad, and a fragment shader that looks every pixel up. */

import type { Rgb } from "../lib/colours"
import type { Raster } from "../lib/raster"
import type { Window } from "../lib/window"
import { makeProgram, makeTexture } from "./program"
import { EDGE_SHADE, type Highlight, HOVERED, PINNED, type PlotPx, type StripPainter } from "./strip_painter"

// The overlay is a texture, not a canvas on top: blending two canvases cost software GL a third of each frame.
// Software GL also pays for every fetch and branch of every pixel, so that rasters are drawn as rectangles of just
// the right size, and what brings a pinned strip out is a program of its own.

// A rectangle of the canvas, in its fractions, and what part of a raster it shows, in texels.
const VERTEX = `#version 300 es
uniform vec4 place, texels;
out vec2 inOverlay, inRaster;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 at = mix(place.xy, place.zw, corner);
  inOverlay = vec2(at.x, 1.0 - at.y);
  inRaster = mix(texels.xy, texels.zw, corner);
  gl_Position = vec4(at * 2.0 - 1.0, 0.0, 1.0);
}`

const HEAD = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;
uniform sampler2D overlay;
uniform vec3 background;
in vec2 inOverlay, inRaster;
out vec4 colour;
void put(vec3 rgb) {
#ifdef OVERLAY
  vec4 over = texture(overlay, inOverlay);
  rgb = rgb * (1.0 - over.a) + over.rgb;
#endif
  colour = vec4(rgb, 1.0);
}`

const PLAIN = `${HEAD}
void main() { put(background); }`

// A raster's texel (x, y) is row x of column y: its pixels stand column after column.
const STRIPS = `${HEAD}
uniform usampler2D raster;
uniform sampler2D palette;
uniform int hovered, pinned;
void main() {
  ivec2 at = ivec2(inRaster).yx;
  uint pixel = texelFetch(raster, at, 0).r;
  int id = int(pixel & 0x7fffffffu) - 1;
  if (id < 0) { put(background); return; }
  vec3 rgb = texelFetch(palette, ivec2(id & 2047, id >> 11), 0).rgb;
  if (pixel > 0x7fffffffu) rgb *= ${EDGE_SHADE};
  if (id == hovered) rgb = mix(rgb, vec3(1.0), ${HOVERED});
#ifdef PINNED
  if (id == pinned) {
    bool rim = false;
    for (int k = 0; k < 4; k++) {
      ivec2 beside = at + ivec2(k == 0 ? 1 : k == 1 ? -1 : 0, k == 2 ? 1 : k == 3 ? -1 : 0);
      rim = rim || ((texelFetch(raster, beside, 0).r ^ pixel) & 0x7fffffffu) != 0u;
    }
    rgb = rim ? vec3(0.0) : mix(rgb, vec3(1.0), ${PINNED});
  }
#endif
  put(rgb);
}`

const ROW = 2048
/** Units of the textures. */
const RASTER = 0
const PALETTE = 1
const OVERLAY = 2

/** A rectangle: left, bottom, right, top; y grows upwards. */
type Rectangle = [number, number, number, number]

/** A linked program and where its uniforms are. */
interface Program {
  program: WebGLProgram
  at: Map<string, WebGLUniformLocation | null>
}

/** Works in fractions of the canvas and texels of a raster: bytes and steps never reach the GPU. */
export class StripRenderer implements StripPainter {
  private readonly gl: WebGL2RenderingContext
  private programs = new Map<string, Program>()
  private textures!: Record<"base" | "detail" | "palette" | "overlay", WebGLTexture>
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
    this.bind(OVERLAY, "overlay")
    this.bind(PALETTE, "palette")
    const bottom = height - plot.top - plot.height
    const around: Rectangle[] = [
      [0, 0, width, bottom], [0, bottom + plot.height, width, height],
      [0, bottom, plot.left, bottom + plot.height], [plot.left + plot.width, bottom, width, bottom + plot.height],
    ]
    const inside: Rectangle = [plot.left, bottom, plot.left + plot.width, bottom + plot.height]
    for (const rectangle of around) this.plain(rectangle, this.page, overlay)
    const covers = (raster: Raster | null) => raster && this.part(raster, window, inside).covers
    if (!covers(this.detail)) {
      if (!covers(this.base)) this.plain(inside, this.background, overlay)
      if (this.base) this.strips("base", this.base, window, inside, highlight, overlay)
    }
    if (this.detail) this.strips("detail", this.detail, window, inside, highlight, overlay)
  }

  clear(): void {
    this.base = this.detail = null
  }

  /** The part of the plot that a raster covers, and which of its texels are there. */
  private part({ window: of, width, height }: Raster, w: Window, [left, bottom, right, top]: Rectangle): { place: Rectangle; texels: Rectangle; covers: boolean } {
    const [x0, x1] = [Math.max(w.x0, of.x0), Math.min(w.x1, of.x1)]
    const [y0, y1] = [Math.max(w.y0, of.y0), Math.min(w.y1, of.y1)]
    const toX = (x: number) => left + ((x - w.x0) / (w.x1 - w.x0)) * (right - left)
    const toY = (y: number) => bottom + ((y - w.y0) / (w.y1 - w.y0)) * (top - bottom)
    const texelX = (x: number) => ((x - of.x0) / (of.x1 - of.x0)) * width
    const texelY = (y: number) => ((y - of.y0) / (of.y1 - of.y0)) * height
    return {
      place: [toX(x0), toY(y0), toX(x1), toY(y1)],
      texels: [texelX(x0), texelY(y0), texelX(x1), texelY(y1)],
      covers: x0 === w.x0 && x1 === w.x1 && y0 === w.y0 && y1 === w.y1,
    }
  }

  private strips(name: "base" | "detail", raster: Raster, w: Window, inside: Rectangle, highlight: Highlight, overlay: boolean): void {
    const { gl } = this
    const { place, texels } = this.part(raster, w, inside)
    if (place[2] <= place[0] || place[3] <= place[1]) return
    const program = this.use(STRIPS, [overlay && "OVERLAY", highlight.pinned >= 0 && "PINNED"])
    this.bind(RASTER, name)
    gl.uniform1i(this.at(program, "raster"), RASTER)
    gl.uniform1i(this.at(program, "palette"), PALETTE)
    gl.uniform1i(this.at(program, "hovered"), highlight.hovered)
    gl.uniform1i(this.at(program, "pinned"), highlight.pinned)
    this.rectangle(program, place, texels, this.background)
  }

  private plain(place: Rectangle, colour: Rgb, overlay: boolean): void {
    this.rectangle(this.use(PLAIN, [overlay && "OVERLAY"]), place, [0, 0, 0, 0], colour)
  }

  private rectangle(program: Program, place: Rectangle, texels: Rectangle, background: Rgb): void {
    const { gl } = this
    const { width, height } = this.canvas
    const [left, bottom, right, top] = place
    gl.uniform4f(this.at(program, "place"), left / width, bottom / height, right / width, top / height)
    gl.uniform4f(this.at(program, "texels"), ...texels)
    gl.uniform3f(this.at(program, "background"), background[0] / 255, background[1] / 255, background[2] / 255)
    gl.uniform1i(this.at(program, "overlay"), OVERLAY)
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)
  }

  /** Makes a variant of a program the present one; it is compiled when it is first needed. */
  private use(fragment: string, defines: (string | false)[]): Program {
    const wanted = defines.filter(Boolean).map((name) => `#define ${name}\n`).join("")
    const source = fragment.replace("precision", `${wanted}precision`)
    let program = this.programs.get(source)
    if (!program) this.programs.set(source, (program = { program: makeProgram(this.gl, VERTEX, source), at: new Map() }))
    this.gl.useProgram(program.program)
    return program
  }

  private at({ program, at }: Program, name: string): WebGLUniformLocation | null {
    if (!at.has(name)) at.set(name, this.gl.getUniformLocation(program, name))
    return at.get(name)!
  }

  private bind(unit: number, name: keyof typeof this.textures): void {
    this.gl.activeTexture(this.gl.TEXTURE0 + unit)
    this.gl.bindTexture(this.gl.TEXTURE_2D, this.textures[name])
  }

  /** Makes everything the context holds; a lost context takes it all with it. */
  private upload(): void {
    const { gl } = this
    this.programs.clear()
    for (const source of [PLAIN, STRIPS]) this.use(source, ["OVERLAY"]) // while there is nothing to draw yet
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
