/** The map of memory: a bar for each segment, to scale, with its blocks, grouped by pool. */

import { stripColour } from "../shared/describe"
import { formatAddress, formatBytes, plural } from "../../lib/text/format"
import { blockAt, boxes, type Flow, flow, hit, paint, scaleBar } from "../../lib/picture/segment_flow"
import {
  type Kept,
  ALLOCATED,
  blockOf,
  type Group,
  INACTIVE,
  isPrivate,
  kindText,
  type Layout,
  PENDING,
  poolText,
  segmentOfBlock,
  streamText,
} from "../../lib/data/segments"
import { parse, type Rgb } from "../../lib/picture/colours"
import { onTheme, readTheme, styleOf } from "../../lib/picture/theme"
import type { Store } from "../../store"
import { button } from "../shared/controls"
import { h } from "../shared/dom"
import { later } from "../shared/failure"
import { pointOf } from "../shared/gestures"
import { allocationTip, tip, Tooltip } from "../drawing/tooltip"

export type BlockColour = "state" | "site"
export type Order = "address" | "size"

/** CSS pixels. */
const BAR = 18
const GAP = 4
const BETWEEN = 2
const LEAST = 3
const LEAST_CUT = 4
/** Before zooming, the most and the fewest rows that show the highest reserved bytes of the recording. */
const ROWS = 18
const LEAST_ROWS = 3
const MOST_ROWS = 400
/** The most kept segments that are framed, largest first. */
const MOST_FRAMES = 500

interface Strip {
  group: Group
  canvas: HTMLCanvasElement
  marks: HTMLCanvasElement
  flow: Flow | null
}

export class SegmentMap {
  readonly element: HTMLElement
  colour: BlockColour = "state"
  order: Order = "address"
  private readonly body = h("div.segment-groups")
  private readonly tip = new Tooltip()
  private readonly bar = h("i")
  private readonly barText = h("span")
  private readonly out: HTMLButtonElement
  private readonly in: HTMLButtonElement
  private strips: Strip[] = []
  private layout: Layout | null = null
  private kept: Kept[] = []
  private block = -1
  private zoom = 0
  private width = 0

  /** `onBlock`: a block was chosen by click or key; `onPin`: it was clicked or Enter was pressed. */
  constructor(
    private readonly store: Store,
    private readonly onBlock: (block: number) => void,
    private readonly onPin: (block: number) => void,
  ) {
    const zoom = (by: number) => () => {
      this.zoom += by
      this.draw()
    }
    this.out = button("\u2212", "Smaller bars", zoom(-1))
    this.in = button("+", "Larger bars", zoom(1))
    const keys = h(
      "div.segment-map",
      {
        role: "application",
        tabindex: 0,
        "aria-roledescription": "map of memory",
        "aria-label": "Segments and blocks. Left and right: blocks; up and down: segments; Enter: the allocation's details.",
        keydown: (event: KeyboardEvent) => this.key(event),
      },
      this.body,
      this.tip.element,
    )
    this.element = h("div", keys, h("p.map-scale", this.bar, this.barText, this.out, this.in))
    keys.addEventListener("pointermove", (event) => this.point(event))
    keys.addEventListener("pointerleave", () => this.leave())
    keys.addEventListener("click", (event) => this.click(event))
    new ResizeObserver(
      later(this.element, () => {
        if (Math.round(this.body.clientWidth) !== this.width) this.draw()
      }),
    ).observe(this.body)
    onTheme(() => this.draw())
  }

  /** Shows another moment. */
  show(layout: Layout, kept: Kept[]): void {
    this.layout = layout
    this.kept = kept
    this.block = -1 // of another layout
    const { device } = this.store.history
    this.strips = layout.groups.map((group) => ({ group, canvas: h("canvas"), marks: h("canvas.marks"), flow: null }))
    const sections = new Map<number, HTMLElement>()
    this.body.replaceChildren()
    for (const { group, canvas, marks } of this.strips) {
      let section = sections.get(group.pool)
      if (!section) {
        const pool = poolText(device, group.pool)
        section = h(
          "section",
          { class: isPrivate(device, group.pool) ? "pool envelope" : "pool", "data-pool": group.pool },
          h("h4", pool[0].toUpperCase() + pool.slice(1)),
        )
        sections.set(group.pool, section)
        this.body.append(section)
      }
      const what = [
        streamText(device, group.stream),
        kindText(group.kind),
        plural(group.use.segments, "segment"),
        formatBytes(group.use.reserved),
      ]
      section.append(h("p.group-name", what.join(" \u00b7 ")), h("div.strip", canvas, marks))
    }
    this.draw()
  }

  /** Marks a block as chosen; -1 for none. */
  choose(block: number): void {
    this.block = block
    this.mark()
  }

  /** Segments in the order in which they are shown. */
  get places(): number[] {
    return this.strips.flatMap(({ group }) => this.ordered(group))
  }

  draw(): void {
    const { layout, store } = this
    const { device } = store.history
    this.width = Math.round(this.body.clientWidth)
    if (!layout || this.width <= 0) return
    const dpr = devicePixelRatio
    const bytesPerPx = this.rowBytes() / (this.width * dpr) / 2 ** this.zoom
    const laid = this.strips.map(({ group, canvas }) =>
      flow(
        layout,
        this.ordered(group),
        bytesPerPx,
        Math.floor(canvas.parentElement!.clientWidth * dpr),
        Math.round(LEAST * dpr),
        Math.round(BETWEEN * dpr),
      ),
    )
    const rows = laid.reduce((all, { rows }) => all + rows, 0)
    const colours = this.colours()
    laid.forEach((flow, k) => {
      const { canvas, marks } = this.strips[k]
      this.strips[k].flow = flow
      size(canvas, flow, dpr)
      size(marks, flow, dpr)
      const context = canvas.getContext("2d")!
      const { width } = flow
      const pixels = paint(device, layout, flow, colours.of, colours.slack)
      for (let row = 0; row < flow.rows; row++) {
        const line = new ImageData(pixels.slice(row * width * 4, (row + 1) * width * 4), width, 1)
        const [top, height] = [Math.round(row * (BAR + GAP) * dpr), Math.round(BAR * dpr)]
        context.putImageData(line, 0, top)
        context.imageSmoothingEnabled = false
        context.drawImage(canvas, 0, top, width, 1, 0, top, width, height)
      }
      this.divide(context, flow, dpr)
    })
    const bar = scaleBar(bytesPerPx * dpr, 90)
    this.bar.style.width = `${bar / (bytesPerPx * dpr)}px`
    this.barText.textContent = formatBytes(bar)
    this.out.disabled = this.zoom <= 0
    this.in.disabled = rows * 2 > MOST_ROWS
    this.mark()
  }

  /** Draws what is chosen and pinned over the bars. */
  mark(): void {
    const { layout, store } = this
    if (!layout || !this.strips.length) return
    const theme = readTheme(this.body)
    const dpr = devicePixelRatio
    const pinned = store.state.pinned >= 0 ? blockOf(store.history.device, layout, store.state.pinned) : -1
    for (const { flow, marks, group } of this.strips) {
      if (!flow) continue
      const context = marks.getContext("2d")!
      context.clearRect(0, 0, marks.width, marks.height)
      const frame = (segment: number, from: number, to: number, colour: string, thick: number) => {
        if (!group.members.includes(segment)) return
        context.strokeStyle = colour
        context.lineWidth = thick * dpr
        const half = (thick * dpr) / 2
        for (const { row, x, width } of boxes(layout, flow, segment, from, to)) {
          const wide = Math.max(width, 3 * dpr)
          const left = Math.min(Math.max(x + width / 2 - wide / 2, 0), flow.width - wide)
          context.strokeRect(left + half, row * (BAR + GAP) * dpr + half, Math.max(wide - 2 * half, 1), BAR * dpr - 2 * half)
        }
      }
      for (const { segment, offset, size } of this.kept.slice(0, MOST_FRAMES)) frame(segment, offset, offset + size, theme.danger, 1.5)
      if (this.block >= 0) {
        const segment = segmentOfBlock(layout, this.block)
        frame(segment, 0, layout.uses[segment].reserved, theme.muted, 1)
        frame(segment, layout.offset[this.block], layout.offset[this.block] + layout.size[this.block], theme.text, 2)
      }
      if (pinned >= 0)
        frame(segmentOfBlock(layout, pinned), layout.offset[pinned], layout.offset[pinned] + layout.size[pinned], theme.accent, 2.5)
    }
  }

  /** Bytes in a row, the same at every moment; enough for the largest segment if possible. */
  private rowBytes(): number {
    const { device } = this.store.history
    const highest = device.summary.peaks.reserved?.bytes ?? this.layout!.total.reserved
    return Math.max(
      highest / ROWS,
      Math.min(
        device.segments.size.reduce((most, size) => Math.max(most, size), 1),
        highest / LEAST_ROWS,
      ),
    )
  }

  private ordered({ members }: Group): number[] {
    if (this.order === "address" || !this.layout) return members
    const { uses } = this.layout
    return [...members].sort((a, b) => uses[b].reserved - uses[a].reserved || a - b)
  }

  /** Draws a gap between blocks that are wide enough to lose a pixel. */
  private divide(context: CanvasRenderingContext2D, laid: Flow, dpr: number): void {
    const layout = this.layout!
    context.globalCompositeOperation = "destination-out"
    context.fillStyle = "rgb(0 0 0 / 45%)"
    for (const { segment, row, x, width, skip } of laid.pieces) {
      const scale = laid.length.get(segment)! / layout.uses[segment].reserved
      for (let b = blockAt(layout, segment, skip / scale); b < layout.first[segment + 1] - 1; b++) {
        const end = x - skip + (layout.offset[b] + layout.size[b]) * scale
        if (end >= x + width) break
        if (end > x && Math.min(layout.size[b], layout.size[b + 1]) * scale >= LEAST_CUT * dpr) {
          context.fillRect(Math.round(end) - 1, Math.round(row * (BAR + GAP) * dpr), 1, Math.round(BAR * dpr))
        }
      }
    }
    context.globalCompositeOperation = "source-over"
  }

  private colours(): { of: (block: number) => Rgb; slack: Rgb | null } {
    const layout = this.layout!
    const value = styleOf(this.body)
    const part = (name: string) => parse(value(`${name}-part`))
    const free = [part("returnable"), part("fragmentation")]
    const segmentOf = new Int32Array(layout.state.length)
    for (let k = 0; k < layout.rows.length; k++) segmentOf.fill(k, layout.first[k], layout.first[k + 1])
    const gap = (block: number) => free[layout.uses[segmentOf[block]].count > 0 ? 1 : 0]
    if (this.colour === "site") {
      // Sites without frames are grey, so here all free memory is one lighter grey.
      return { of: (b) => (layout.state[b] === INACTIVE ? free[0] : stripColour(this.store, layout.allocation[b])), slack: null }
    }
    const used = { [ALLOCATED]: part("requested"), [PENDING]: part("pending") }
    return { of: (b) => (layout.state[b] === INACTIVE ? gap(b) : used[layout.state[b] as typeof ALLOCATED]), slack: part("slack") }
  }

  /** The block under the pointer, or -1. */
  private under(event: MouseEvent): number {
    const strip = this.strips.find(({ marks }) => marks === event.target)
    if (!strip?.flow || !this.layout) return -1
    const box = strip.marks.getBoundingClientRect()
    const [x, y] = [(event.clientX - box.left) * devicePixelRatio, event.clientY - box.top]
    const row = Math.floor(y / (BAR + GAP))
    const found = y - row * (BAR + GAP) < BAR ? hit(this.layout, strip.flow, x, row) : null
    return found ? blockAt(this.layout, found.segment, found.offset) : -1
  }

  private point(event: PointerEvent): void {
    const block = this.under(event)
    if (block < 0) return this.leave()
    const hovered = this.layout!.allocation[block]
    const { x, y } = pointOf(this.element, event)
    const { width, height } = this.element.getBoundingClientRect()
    this.tip.show(this.tipFor(block), x, y, { width, height })
    if (this.store.state.hovered !== hovered) this.store.set({ hovered })
  }

  private leave(): void {
    this.tip.hide()
    if (this.store.state.hovered >= 0) this.store.set({ hovered: -1 })
  }

  private click(event: MouseEvent): void {
    const block = this.under(event)
    if (block < 0) return
    this.onBlock(block)
    this.onPin(block)
  }

  private tipFor(block: number): HTMLElement {
    const layout = this.layout!
    const id = layout.allocation[block]
    const segment = segmentOfBlock(layout, block)
    const where = placeText(this.store, layout, block)
    if (id < 0) {
      const use = layout.uses[segment]
      const kept = this.kept.find((each) => each.segment === segment && within(layout, block, each))
      const why = kept
        ? `free, but ${keeperText(layout, kept)} it from going back`
        : use.count
          ? "free, in a segment that is in use"
          : "free, like its entire segment: empty_cache() returns it"
      return tip(formatBytes(layout.size[block]), h("div", why), where)
    }
    const about = allocationTip(this.store, id)
    if (layout.state[block] === PENDING) about.append(h("div", "awaiting free"))
    about.append(h("div.tip-life", where))
    return about
  }

  private key(event: KeyboardEvent): void {
    const { layout } = this
    if (!layout?.state.length || event.ctrlKey || event.metaKey || event.altKey) return
    const to = this.step(event.key, layout)
    if (to !== undefined) this.onBlock(to)
    else if (event.key === "Enter" && this.block >= 0) this.onPin(this.block)
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  /** Where a key leads from the chosen block. */
  private step(key: string, layout: Layout): number | undefined {
    const { block, places } = this
    const segment = block < 0 ? places[0] : segmentOfBlock(layout, block)
    const at = places.indexOf(segment)
    const [first, end] = [layout.first[segment], layout.first[segment + 1]]
    const beside = (by: number) => places[Math.min(Math.max(at + by, 0), places.length - 1)]
    const to: number | undefined = {
      ArrowUp: layout.first[beside(-1)],
      ArrowDown: layout.first[beside(1)],
      Home: first,
      End: end - 1,
      ArrowLeft: block > first ? block - 1 : at > 0 ? layout.first[beside(-1) + 1] - 1 : block,
      ArrowRight: block < end - 1 ? block + 1 : at < places.length - 1 ? layout.first[beside(1)] : block,
    }[key]
    return to !== undefined && block < 0 ? first : to
  }
}

/** Whether a block lies in a kept segment, or in a page of one. */
function within(layout: Layout, block: number, { offset, size }: Kept): boolean {
  return layout.offset[block] >= offset && layout.offset[block] + layout.size[block] <= offset + size
}

/** `one block of 8.13 MiB keeps`, `two blocks of 1.00 MiB keep`. */
function keeperText(layout: Layout, { blocks }: Kept): string {
  const held = formatBytes(blocks.reduce((all, block) => all + layout.size[block], 0))
  return blocks.length === 1 ? `one block of ${held} keeps` : `two blocks of ${held} keep`
}

/** `at 0x7f.. + 4.00 MiB of 20.00 MiB`. */
export function placeText(store: Store, layout: Layout, block: number): string {
  const segment = segmentOfBlock(layout, block)
  const { address } = store.history.device.segments
  return `${formatBytes(layout.offset[block])} into the segment at ${formatAddress(address[layout.rows[segment]])} of ${formatBytes(layout.uses[segment].reserved)}`
}

function size(canvas: HTMLCanvasElement, { width, rows }: Flow, dpr: number): void {
  const height = Math.max(rows * (BAR + GAP) - GAP, 0)
  canvas.width = width
  canvas.height = Math.max(Math.round(height * dpr), 1)
  canvas.style.width = `${width / dpr}px`
  canvas.style.height = `${height}px`
}
