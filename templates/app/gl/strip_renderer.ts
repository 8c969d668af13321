/** Draws the timeline with WebGL2: one quad, and a fragment shader that looks every pixel up. */

import type { Rgb } from "../lib/picture/colours"
import type { Raster } from "../lib/picture/raster"
import { around, common, type Window, within } from "../lib/picture/window"
import { EDGE_SHADE, type Highlight, HOVERED, packed, PINNED, type PlotPx, type StripPainter } from "./strip_painter"

// The overlay is a texture, not a canvas on top: blending two canvases cost software GL a third of each frame.
// Software GL also pays for every fetch and branch of every pixel, so rasters are drawn as rectangles of exactly the right
// size, no pixel twice, and highlighting a pinned strip is a program of its own.

// A rectangle of the canvas, in fractions of it, and the part of a raster that it shows, in texels.
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

// A raster's texel (x, y) is row x of column y: its pixels are stored column after column.
// The palette's first colour is the background's, so that no pixel branches.
const STRIPS = `${HEAD}
uniform usampler2D raster;
uniform sampler2D palette;
uniform int hovered, pinned;
void main() {
  ivec2 at = ivec2(inRaster).yx;
  uint pixel = texelFetch(raster, at, 0).r;
  int place = int(pixel & 0x7fffffffu);
  vec3 rgb = texelFetch(palette, ivec2(place & 2047, place >> 11), 0).rgb;
  rgb *= pixel > 0x7fffffffu ? ${EDGE_SHADE} : 1.0;
  rgb = place == hovered ? mix(rgb, vec3(1.0), ${HOVERED}) : rgb;
#ifdef PINNED
  if (place == pinned) {
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

/** A linked program and where its uniforms are. */
interface Program {
  program: WebGLProgram
  at: Map<string, WebGLUniformLocation | null>
}

/** Works in fractions of the canvas and texels of a raster: bytes and events never reach the GPU. */
export class StripRenderer implements StripPainter {
  readonly software = false
  private programs = new Map<string, Program>()
  private textures!: Record<"base" | "detail" | "palette" | "overlay", WebGLTexture>
  private base: Raster | null = null
  private detail: Raster | null = null
  private overlay: HTMLCanvasElement | null = null
  private palette: Uint32Array = new Uint32Array(0)
  private background: Rgb = [255, 255, 255]
  private page: Rgb = [255, 255, 255]

  /** Called when a lost context is restored, to draw a frame. */
  onRestored: () => void = () => {}

  /** `gl`: from `openWebGL` of the same canvas. */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault())
    canvas.addEventListener("webglcontextrestored", () => {
      this.upload()
      this.onRestored()
    })
    this.upload()
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
    if (this.canvas.width !== widthPx) this.canvas.width = widthPx
    if (this.canvas.height !== heightPx) this.canvas.height = heightPx
  }

  draw(window: Window, plot: PlotPx, highlight: Highlight, overlay: boolean): void {
    const { gl } = this
    const { width, height } = this.canvas
    if (gl.isContextLost()) return
    gl.viewport(0, 0, width, height)
    this.bind(OVERLAY, "overlay")
    this.bind(PALETTE, "palette")
    const bottom = height - plot.top - plot.height
    const inside = { x0: plot.left, x1: plot.left + plot.width, y0: bottom, y1: bottom + plot.height }
    for (const margin of around(inside, { x0: 0, x1: width, y0: 0, y1: height })) this.plain(margin, this.page, overlay)
    const place = (part: Window) => within(part, window, inside)
    if (this.detail) this.strips("detail", this.detail, window, place, highlight, overlay)
    // Each pixel is drawn once: the entire recording only where the detail does not reach.
    for (const part of this.detail ? around(this.detail.window, window) : [window]) {
      const { base } = this
      for (const bare of base ? around(base.window, part) : [part]) this.plain(place(bare), this.background, overlay)
      if (base) this.strips("base", base, part, place, highlight, overlay)
    }
  }

  clear(): void {
    this.base = this.detail = null
  }

  /** Draws the part of a raster that shows a part of the data. */
  private strips(
    name: "base" | "detail",
    { window: of, width, height }: Raster,
    part: Window,
    place: (part: Window) => Window,
    highlight: Highlight,
    overlay: boolean,
  ): void {
    const { gl } = this
    const shown = common(of, part)
    if (!shown) return
    const program = this.use(STRIPS, [overlay && "OVERLAY", highlight.pinned >= 0 && "PINNED"])
    this.bind(RASTER, name)
    gl.uniform1i(this.at(program, "raster"), RASTER)
    gl.uniform1i(this.at(program, "palette"), PALETTE)
    gl.uniform1i(this.at(program, "hovered"), highlight.hovered < 0 ? -1 : highlight.hovered + 1) // 0 is the background
    gl.uniform1i(this.at(program, "pinned"), highlight.pinned + 1)
    this.rectangle(program, place(shown), within(shown, of, { x0: 0, x1: width, y0: 0, y1: height }), this.background)
  }

  private plain(place: Window, colour: Rgb, overlay: boolean): void {
    this.rectangle(this.use(PLAIN, [overlay && "OVERLAY"]), place, place, colour)
  }

  private rectangle(program: Program, place: Window, texels: Window, background: Rgb): void {
    const { gl } = this
    const { width, height } = this.canvas
    gl.uniform4f(this.at(program, "place"), place.x0 / width, place.y0 / height, place.x1 / width, place.y1 / height)
    gl.uniform4f(this.at(program, "texels"), texels.x0, texels.y0, texels.x1, texels.y1)
    gl.uniform3f(this.at(program, "background"), background[0] / 255, background[1] / 255, background[2] / 255)
    gl.uniform1i(this.at(program, "overlay"), OVERLAY)
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)
  }

  /** Switches to a variant of a program, which is compiled when first used. */
  private use(fragment: string, defines: (string | false)[]): Program {
    const wanted = defines
      .filter(Boolean)
      .map((name) => `#define ${name}\n`)
      .join("")
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

  /** Creates everything that the context holds, at first and after a lost context. */
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
    const texels = new Uint32Array(Math.ceil((this.palette.length + 1) / ROW) * ROW)
    texels[0] = packed(this.background)
    texels.set(this.palette, 1)
    gl.bindTexture(gl.TEXTURE_2D, this.textures.palette)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, ROW, texels.length / ROW, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(texels.buffer))
  }
}

/** The names of what runs WebGL without a graphics card. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i

/** Opens a canvas for drawing by a graphics card; null where software would do its work. Throws if there is no WebGL2. */
export function openWebGL(canvas: HTMLCanvasElement): WebGL2RenderingContext | null {
  const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false })
  if (!gl) throw new Error("no WebGL2")
  const info = gl.getExtension("WEBGL_debug_renderer_info")
  // Queried while nothing is pending: later it would wait for everything that is.
  const name = gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER)
  if (!SOFTWARE.test(String(name))) return gl
  gl.getExtension("WEBGL_lose_context")?.loseContext()
  return null
}

/** Every query waits for the driver, so that only the link status is queried, and the shaders only if linking failed. */
function makeProgram(gl: WebGL2RenderingContext, vertex: string, fragment: string): WebGLProgram {
  const program = gl.createProgram()!
  const shaders = (
    [
      [gl.VERTEX_SHADER, vertex],
      [gl.FRAGMENT_SHADER, fragment],
    ] as const
  ).map(([type, source]) => {
    const shader = gl.createShader(type)!
    gl.shaderSource(shader, source)
    gl.compileShader(shader)
    gl.attachShader(program, shader)
    return shader
  })
  gl.linkProgram(program)
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    const said = [...shaders.map((shader) => gl.getShaderInfoLog(shader)), gl.getProgramInfoLog(program)]
    throw new Error(said.filter(Boolean).join("\n") || "program")
  }
  for (const shader of shaders) gl.deleteShader(shader)
  return program
}

/** A texture that is read texel by texel: integer textures cannot be filtered. */
function makeTexture(gl: WebGL2RenderingContext): WebGLTexture {
  const texture = gl.createTexture()!
  gl.bindTexture(gl.TEXTURE_2D, texture)
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST)
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST)
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE)
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE)
  return texture
}
