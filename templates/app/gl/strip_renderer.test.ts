import assert from "node:assert/strict"
import { test } from "node:test"
import { openWebGL } from "./strip_renderer"

/** A canvas whose WebGL2 is run by what has this name; null for a browser without WebGL2. */
function canvasOf(renderer: string | null): { canvas: HTMLCanvasElement; lost: () => number } {
  let lost = 0
  const extensions: Record<string, unknown> = {
    WEBGL_debug_renderer_info: { UNMASKED_RENDERER_WEBGL: 0x9246 },
    WEBGL_lose_context: { loseContext: () => lost++ },
  }
  const gl = { RENDERER: 0x1f01, getExtension: (name: string) => extensions[name], getParameter: () => renderer }
  return { canvas: { getContext: () => (renderer === null ? null : gl) } as unknown as HTMLCanvasElement, lost: () => lost }
}

test("software that runs WebGL is told by its name, and its context is let go", () => {
  for (const name of [
    "ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero) (0x0000C0DE)), SwiftShader driver)",
    "llvmpipe (LLVM 15.0.7, 256 bits)",
    "llvmpipe, or similar",
    "ANGLE (Microsoft, Microsoft Basic Render Driver (0x0000008C) Direct3D11 vs_5_0 ps_5_0, D3D11)",
    "Apple Software Renderer",
  ]) {
    const { canvas, lost } = canvasOf(name)
    assert.equal(openWebGL(canvas), null, name)
    assert.equal(lost(), 1)
  }
})

test("a graphics card draws with WebGL", () => {
  for (const name of [
    "NVIDIA GeForce RTX 3060/PCIe/SSE2",
    "ANGLE (Apple, ANGLE Metal Renderer: Apple M2, Unspecified Version)",
    "Mozilla",
  ]) {
    const { canvas, lost } = canvasOf(name)
    assert.notEqual(openWebGL(canvas), null, name)
    assert.equal(lost(), 0)
  }
  assert.throws(() => openWebGL(canvasOf(null).canvas))
})
