/** A pen that writes SVG. */

import { ID, type Raster } from "../../lib/picture/raster"
import type { Pen } from "./pen"

/** Writes one element per call; texts are measured by a canvas. */
export class SvgPen implements Pen {
  fillStyle: Pen["fillStyle"] = "#000"
  strokeStyle: Pen["strokeStyle"] = "#000"
  lineWidth = 1
  globalAlpha = 1
  font = "12px sans-serif"
  textAlign: CanvasTextAlign = "left"
  textBaseline: CanvasTextBaseline = "alphabetic"
  private clipped = ""
  private dash = ""
  private shift = ""
  private path: string[] = []
  private readonly out: string[] = []
  private readonly stack: Partial<SvgPen>[] = []
  private readonly measure = document.createElement("canvas").getContext("2d")!

  constructor(
    readonly width: number,
    readonly height: number,
  ) {}

  /** The document. */
  text(title: string): string {
    return (
      `<svg xmlns="${svgNamespace()}" width="${num(this.width)}" height="${num(this.height)}" viewBox="0 0 ${num(this.width)} ${num(this.height)}">` +
      `<title>${escaped(title)}</title>${this.out.join("\n")}</svg>\n`
    )
  }

  translate(x: number, y: number): void {
    this.shift = ` transform="translate(${num(x)} ${num(y)})"`
  }

  save(): void {
    this.stack.push({ ...this })
  }

  restore(): void {
    Object.assign(this, this.stack.pop())
  }

  clipTo(x: number, y: number, width: number, height: number): void {
    this.path = [`M${num(x)} ${num(y)}h${num(width)}v${num(height)}h${num(-width)}Z`]
    this.clip()
  }

  /** To the path alone: an earlier clip ends. */
  clip(): void {
    const id = `clip-${this.out.length}`
    this.out.push(`<clipPath id="${id}"><path d="${this.path.join("")}"/></clipPath>`)
    this.clipped = ` clip-path="url(#${id})"`
  }

  measureText(text: string): { width: number } {
    this.measure.font = this.font
    return this.measure.measureText(text)
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.out.push(`<rect x="${num(x)}" y="${num(y)}" width="${num(width)}" height="${num(height)}"${this.filled()}/>`)
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.out.push(`<rect x="${num(x)}" y="${num(y)}" width="${num(width)}" height="${num(height)}"${this.stroked()}/>`)
  }

  beginPath(): void {
    this.path = []
  }

  moveTo(x: number, y: number): void {
    this.path.push(`M${num(x)} ${num(y)}`)
  }

  lineTo(x: number, y: number): void {
    this.path.push(`${this.path.length ? "L" : "M"}${num(x)} ${num(y)}`)
  }

  closePath(): void {
    this.path.push("Z")
  }

  /** Full circles only. */
  arc(x: number, y: number, radius: number): void {
    this.path.push(
      `M${num(x - radius)} ${num(y)}a${num(radius)} ${num(radius)} 0 1 0 ${num(2 * radius)} 0a${num(radius)} ${num(radius)} 0 1 0 ${num(-2 * radius)} 0`,
    )
  }

  roundRect(x: number, y: number, width: number, height: number, radii?: unknown): void {
    const r = Math.min(Number(radii) || 0, width / 2, height / 2)
    const corner = (dx: number, dy: number) => `a${num(r)} ${num(r)} 0 0 1 ${num(dx)} ${num(dy)}`
    this.path.push(
      `M${num(x + r)} ${num(y)}h${num(width - 2 * r)}${corner(r, r)}v${num(height - 2 * r)}${corner(-r, r)}h${num(2 * r - width)}${corner(-r, -r)}v${num(2 * r - height)}${corner(r, -r)}Z`,
    )
  }

  fill(): void {
    this.out.push(`<path d="${this.path.join("")}"${this.filled()}/>`)
  }

  stroke(): void {
    if (this.path.length) this.out.push(`<path d="${this.path.join("")}"${this.stroked()}/>`)
  }

  fillText(text: string, x: number, y: number): void {
    if (!text) return
    const [, weight, size, family] = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(this.font)!
    const anchor = { center: "middle", right: "end", end: "end" }[this.textAlign as string] ?? "start"
    const down = { top: 0.82, middle: 0.35, bottom: -0.2 }[this.textBaseline as string] ?? 0
    this.out.push(
      `<text x="${num(x)}" y="${num(y + down * Number(size))}" font-size="${size}" font-family="${escaped(family)}"${weight ? ` font-weight="${weight}"` : ""}` +
        ` text-anchor="${anchor}"${this.filled()}>${escaped(text)}</text>`,
    )
  }

  setLineDash(dash: Iterable<number>): void {
    this.dash = [...dash].join(" ")
  }

  /** Filled paths by colour, in units of their own. */
  paths(paths: Map<number, string>, left: number, top: number, perX: number, perY: number): void {
    this.out.push(`<g${this.shift}><g transform="translate(${num(left)} ${num(top)}) scale(${perX} ${perY})" shape-rendering="crispEdges">`)
    for (const [colour, path] of paths) this.out.push(`<path fill="#${hex(colour)}" d="${path}"/>`)
    this.out.push("</g></g>")
  }

  private filled(): string {
    return ` fill="${escaped(String(this.fillStyle))}"${this.faint()}${this.clipped}${this.shift}`
  }

  private stroked(): string {
    return (
      ` fill="none" stroke="${escaped(String(this.strokeStyle))}" stroke-width="${num(this.lineWidth)}" stroke-linejoin="round"` +
      `${this.dash ? ` stroke-dasharray="${this.dash}"` : ""}${this.faint()}${this.clipped}${this.shift}`
    )
  }

  private faint(): string {
    return this.globalAlpha === 1 ? "" : ` opacity="${num(this.globalAlpha)}"`
  }
}

function num(value: number): string {
  return String(Math.round(value * 100) / 100)
}

function hex(colour: number): string {
  return [0, 8, 16].map((shift) => ((colour >>> shift) & 255).toString(16).padStart(2, "0")).join("")
}

/** Text for an element or an attribute; characters that XML forbids, or that reverse text, are shown as a box. */
function escaped(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\ufffe\uffff]/gu, "\ufffd")
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** The SVG namespace; taken from the parser, so that the page contains no address. */
function svgNamespace(): string {
  const parsed = document.createElement("template")
  parsed.innerHTML = "<svg></svg>"
  return parsed.content.firstElementChild!.namespaceURI!
}

/** A raster as paths of rectangles by colour, in its pixels from the top left: runs of one strip, joined with equal runs of adjacent columns. */
export function stripPaths({ width, height, ids }: Raster, palette: Uint32Array, background: number): Map<number, string> {
  const paths = new Map<number, string[]>()
  /** Open rectangles of the column before, by the row they begin at. */
  let open = new Map<number, { id: number; to: number; since: number }>()
  const close = (column: number, from: number, { id, to, since }: { id: number; to: number; since: number }) => {
    const colour = palette[id - 1]
    if (colour === background) return
    const path = paths.get(colour)
    const rectangle = `M${since} ${height - to}h${column - since}v${to - from}h${since - column}z`
    if (path) path.push(rectangle)
    else paths.set(colour, [rectangle])
  }
  for (let x = 0; x <= width; x++) {
    const next: typeof open = new Map()
    for (let y = 0; x < width && y < height;) {
      const from = y
      const id = ids[x * height + y] & ID
      while (y < height && (ids[x * height + y] & ID) === id) y++
      if (!id) continue
      const same = open.get(from)
      const goesOn = same && same.id === id && same.to === y
      next.set(from, goesOn ? same : { id, to: y, since: x })
      if (goesOn) open.delete(from)
    }
    for (const [from, rectangle] of open) close(x, from, rectangle)
    open = next
  }
  return new Map([...paths].map(([colour, parts]) => [colour, parts.join("")]))
}
