/** Fragmentation over the entire recording as a small curve, which is also a slider for the cursor. */

import { Extremes } from "../../lib/data/curves"
import { formatBytes, formatEvent } from "../../lib/text/format"
import { onTheme, readTheme } from "../../lib/picture/theme"
import type { Store } from "../../store"
import { linkButton } from "../shared/controls"
import { h } from "../shared/dom"
import { later } from "../shared/failure"

const HEIGHT = 64
const TOP = 4

export class FragmentationChart {
  readonly element: HTMLElement
  private readonly canvas = h("canvas")
  private readonly slider: HTMLElement
  private readonly curve: Extremes
  private readonly most: number

  /** `values`: bytes after each event, element 0 the start, -1 where not known. */
  constructor(
    private readonly store: Store,
    private readonly values: Float64Array,
  ) {
    this.curve = new Extremes(values)
    this.most = this.curve.firstMax(0, values.length) - 1
    const peak = values[this.most + 1]
    this.slider = h(
      "div",
      {
        class: "fragmentation-plot",
        role: "slider",
        tabindex: 0,
        "aria-label": "Fragmentation over time: the cursor",
        "aria-valuemin": -1,
        "aria-valuemax": values.length - 2,
        keydown: (event: KeyboardEvent) => this.key(event),
      },
      this.canvas,
    )
    const drag = (event: PointerEvent) => {
      if (!(event.buttons & 1)) return
      const box = this.slider.getBoundingClientRect()
      store.goTo(this.scale.eventAt(this.x0 + ((event.clientX - box.left) / box.width) * (this.x1 - this.x0)))
    }
    this.slider.addEventListener("pointerdown", (event) => {
      this.slider.setPointerCapture(event.pointerId)
      drag(event)
    })
    this.slider.addEventListener("pointermove", drag)
    this.element = h(
      "figure",
      { class: "fragmentation" },
      h(
        "figcaption",
        {},
        "Fragmentation over time",
        peak > 0 &&
          h(
            "span",
            {},
            "the most is ",
            linkButton(`${formatBytes(peak)} at ${formatEvent(this.most)}`, () => store.goTo(this.most), { "data-most": this.most }),
          ),
        values.includes(-1) && h("span", {}, "not known where segment events are missing"),
      ),
      h(
        "div",
        { class: "fragmentation-frame" },
        h("span", { class: "fragmentation-most", "aria-hidden": "true" }, peak > 0 ? formatBytes(peak) : ""),
        this.slider,
        h(
          "div",
          { class: "fragmentation-ends", "aria-hidden": "true" },
          h("span", {}, "start"),
          h("span", {}, formatEvent(values.length - 2)),
        ),
      ),
    )
    new ResizeObserver(later(this.element, () => this.draw())).observe(this.slider)
    onTheme(() => this.draw())
  }

  draw(): void {
    const { store, values, canvas, scale } = this
    const { cursor } = store.state
    this.slider.setAttribute("aria-valuenow", String(cursor))
    const bytes = values[cursor + 1]
    this.slider.setAttribute("aria-valuetext", `${formatEvent(cursor)}: ${bytes < 0 ? "not known" : formatBytes(bytes)}`)
    const width = this.slider.clientWidth
    if (!width) return
    const dpr = devicePixelRatio
    const columns = Math.round(width * dpr)
    canvas.width = columns
    canvas.height = HEIGHT * dpr
    const context = canvas.getContext("2d")!
    const theme = readTheme(this.slider)
    const top = Math.max(values[this.most + 1], 1)
    const y = (value: number) => dpr * (HEIGHT - 0.5 - (Math.max(value, 0) / top) * (HEIGHT - TOP - 1))
    const perColumn = (this.x1 - this.x0) / columns
    const area = new Path2D()
    const line = new Path2D()
    area.moveTo(0, canvas.height)
    let last = 0
    for (let px = 0; px < columns; px++) {
      const [first, end] = scale.eventsIn(this.x0 + px * perColumn, this.x0 + (px + 1) * perColumn)
      const value = end > first ? values[this.curve.firstMax(first + 1, end + 1)] : last
      last = value
      area.lineTo(px, y(value))
      area.lineTo(px + 1, y(value))
      line.lineTo(px, y(value))
      line.lineTo(px + 1, y(value))
    }
    area.lineTo(columns, canvas.height)
    const colour = getComputedStyle(this.slider).color
    context.fillStyle = context.strokeStyle = colour
    context.globalAlpha = 0.22
    context.fill(area)
    context.globalAlpha = 1
    context.lineWidth = dpr
    context.stroke(line)
    const at = ((scale.xOf(cursor) + scale.endOf(cursor)) / 2 - this.x0) / (this.x1 - this.x0)
    context.fillStyle = theme.accent
    context.fillRect(Math.round(Math.min(Math.max(at, 0), 1) * (columns - 2 * dpr)), 0, 2 * dpr, canvas.height)
  }

  private get scale() {
    return this.store.scale
  }

  private get x0(): number {
    return this.scale.whole[0]
  }

  private get x1(): number {
    return this.scale.whole[1]
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const { cursor } = this.store.state
    const last = this.values.length - 2
    const page = Math.max(Math.round(last / 20), 1)
    const to = {
      ArrowRight: cursor + 1,
      ArrowUp: cursor + 1,
      ArrowLeft: cursor - 1,
      ArrowDown: cursor - 1,
      PageUp: cursor + page,
      PageDown: cursor - page,
      Home: -1,
      End: last,
    }[event.key]
    if (to === undefined) return
    event.preventDefault()
    event.stopPropagation()
    this.store.goTo(to)
  }
}
