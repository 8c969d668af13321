/** The steps of the program's loop: their curves on one chart, and a row for each. */

import type { Bytes } from "../../lib/data/curves"
import { columnPlaces, envelope, stepName, type Steps } from "../../lib/data/steps"
import { stepsOf } from "../../lib/tables/stage_groups"
import { byteTickLabels, byteTicks } from "../../lib/picture/ticks"
import { onTheme, readTheme } from "../../lib/picture/theme"
import { formatBytes, formatCount, formatEvent, formatEvents } from "../../lib/text/format"
import type { State, Store } from "../../store"
import { h } from "../shared/dom"
import { later } from "../shared/failure"
import { bytesCell } from "../shared/frame_cells"
import { VirtualList } from "../shared/virtual_list"
import { compareButton, type Panel } from "./panels"

const HEIGHT = 220
const LEFT = 66
const TOP = 10
const BOTTOM = 6
/** Up to this many steps have a line each; of more, steps that are alike share a band. */
const MOST_LINES = 60
/** Columns of each step; fewer for thousands of steps, down to the minimum. */
const COLUMNS = 480
const LEAST_COLUMNS = 60
const MOST_VALUES = 1e6
/** If the lowest value is above this part of the highest, the chart does not begin at 0. */
const FLAT = 0.5
/** The first step's line. */
const DASHED = [6, 3]

export class StepsPanel implements Panel {
  readonly element: HTMLElement
  private readonly steps: Steps
  private readonly list: VirtualList
  private readonly chart: StepsChart

  /** `zoomTo`: shows the events from one to before another in the timeline, if there is one. */
  constructor(
    private readonly store: Store,
    private readonly zoomTo: ((start: number, end: number) => void) | null,
  ) {
    const steps = (this.steps = stepsOf(store.counted))
    const curve = store.counted.curves.allocated
    this.chart = new StepsChart(steps, curve, (step, event) => this.goTo(step, event))
    const { bounds } = steps
    this.list = new VirtualList({
      label: "Steps",
      class: "steps-list",
      columns: [
        { title: "Step", class: "stage" },
        { title: "Events", class: "num events" },
        { title: "Compare", quiet: true, class: "compare" },
        ...["Start", "Peak inside", "End", "Stayed", "Allocations", "Allocated inside"].map((title) => ({ title, class: "num" })),
      ],
      count: () => steps.kind.length,
      row: (k) => [
        this.name(k),
        formatEvents(bounds[k], bounds[k + 1]),
        compareButton(store, bounds[k], bounds[k + 1]),
        bytesCell(curve.at(bounds[k])),
        bytesCell(curve.at(this.peakPlace(k))),
        bytesCell(curve.at(bounds[k + 1])),
        bytesCell(steps.kept[k]),
        formatCount(steps.allocations[k]),
        bytesCell(steps.allocated[k]),
      ],
      rowClass: (k) => (bounds[k] <= store.state.cursor && store.state.cursor < bounds[k + 1] ? "now" : null),
      onSelect: (k) => {
        this.chart.mark(k)
        this.goTo(k, this.peakPlace(k) - 1)
      },
    })
    this.element = h(
      "div.steps",
      h(
        "p.hint",
        `${steps.told} Bytes are allocated bytes; what stayed was made in a step and is alive at its end. A step chosen here is shown in the timeline.`,
      ),
      this.chart.element,
      this.list.element,
    )
  }

  update(state: State, before: State | null): void {
    if (!before || state.cursor !== before.cursor) this.list.refresh()
  }

  private peakPlace(step: number): number {
    const { bounds } = this.steps
    return this.store.counted.curves.allocated.firstMax(bounds[step], bounds[step + 1] + 1)
  }

  private goTo(step: number, event: number): void {
    this.zoomTo?.(this.steps.bounds[step], this.steps.bounds[step + 1])
    this.store.set({ cursor: event })
  }

  private name(step: number): HTMLElement {
    const text = stepName(this.steps, step)
    const notes = [step === this.steps.peak ? "peak" : "", kindWord(this.steps, step)].filter(Boolean).join(", ")
    return h("span.stage-name", h("span", { title: text }, text), notes && h("small", ` ${notes}`))
  }
}

/** The allocated curves of all steps on one chart: where in a step memory is held, and which step differs. */
class StepsChart {
  readonly element: HTMLElement
  private readonly canvas = h("canvas", { "aria-hidden": "true" })
  private readonly plot: HTMLElement
  private readonly says = h("p.steps-says", { role: "status" })
  private readonly keys: HTMLElement
  private readonly places: Int32Array[]
  private readonly values: Float64Array[]
  private readonly columns: number
  /** The steps without a line in a colour of its own; if they are many, they share a band. */
  private readonly faint: number[]
  private readonly band: ReturnType<typeof envelope> | null
  private readonly low: number
  private readonly high: number
  /** What is pointed at, by pointer or keys. */
  private step: number
  private column: number
  private chosen = -1

  /** `choose`: a step was picked here, at an event of it. */
  constructor(
    private readonly steps: Steps,
    curve: Bytes,
    private readonly choose: (step: number, event: number) => void,
  ) {
    const count = steps.kind.length
    this.columns = Math.min(Math.max(Math.floor(MOST_VALUES / count), LEAST_COLUMNS), COLUMNS)
    this.places = Array.from({ length: count }, (_, k) => columnPlaces(curve, steps.bounds, k, this.columns))
    this.values = this.places.map((places) => Float64Array.from(places, (place) => curve.at(place)))
    const extremes = envelope(this.values)
    this.high = Math.max(1, ...extremes.most)
    const lowest = Math.min(...extremes.least)
    this.low = lowest > FLAT * this.high && lowest < this.high ? lowest : 0
    this.faint = steps.kind.map((_, k) => k).filter((k) => k > 0 && k !== steps.peak)
    this.band = this.faint.length > MOST_LINES ? envelope(this.faint.map((k) => this.values[k])) : null
    this.step = steps.peak >= 0 ? steps.peak : 0
    this.column = this.highest(this.step)
    this.plot = h(
      "div.steps-plot",
      {
        role: "slider",
        tabindex: 0,
        "aria-label": "The steps' curves over one another: left and right move within a step, up and down to another, Enter goes there",
        "aria-orientation": "horizontal",
        "aria-valuemin": 0,
        "aria-valuemax": this.columns - 1,
        keydown: (event: KeyboardEvent) => this.key(event),
        pointermove: (event: PointerEvent) => this.point(event),
        pointerleave: () => this.pick(this.chosen >= 0 ? this.chosen : this.step, this.column),
        click: () => this.choose(this.step, this.places[this.step][this.column] - 1),
      },
      this.canvas,
    )
    this.keys = h("ul.steps-keys", ...this.legend())
    this.element = h(
      "figure.steps-chart",
      h("figcaption", "Allocated bytes in each step, from its first event to its last"),
      this.plot,
      h("div.steps-ends", { "aria-hidden": "true" }, h("span", "start of a step"), h("span", "end")),
      this.says,
      this.keys,
    )
    new ResizeObserver(later(this.element, () => this.draw())).observe(this.plot)
    onTheme(() => this.draw())
  }

  /** Highlights one step; -1 for none. */
  mark(step: number): void {
    this.chosen = step
    if (step >= 0) this.pick(step, this.highest(step))
  }

  private highest(step: number): number {
    const values = this.values[step]
    return values.reduce((best, value, c) => (value > values[best] ? c : best), 0)
  }

  private pick(step: number, column: number): void {
    this.step = step
    this.column = column
    this.draw()
  }

  private draw(): void {
    const { canvas, plot, steps } = this
    this.tell()
    const width = plot.clientWidth
    if (!width) return
    const dpr = devicePixelRatio
    canvas.width = Math.round(width * dpr)
    canvas.height = HEIGHT * dpr
    const context = canvas.getContext("2d")!
    context.scale(dpr, dpr)
    const theme = readTheme(plot)
    const x = (column: number) => LEFT + (column / this.columns) * (width - LEFT)
    const y = (value: number) => HEIGHT - BOTTOM - ((value - this.low) / (this.high - this.low)) * (HEIGHT - TOP - BOTTOM)
    const ticks = byteTicks(this.low, this.high, 4)
    context.font = `11px ${theme.font}`
    context.textAlign = "right"
    context.textBaseline = "middle"
    byteTickLabels(ticks).forEach((label, k) => {
      context.fillStyle = theme.grid
      context.fillRect(LEFT, Math.round(y(ticks[k])), width - LEFT, 1)
      context.fillStyle = theme.muted
      context.fillText(label, LEFT - 6, y(ticks[k]))
    })
    const trace = (values: Float64Array) =>
      values.forEach((value, c) => {
        context.lineTo(x(c), y(value))
        context.lineTo(x(c + 1), y(value))
      })
    const line = (step: number, colour: string, thickness: number, alpha = 1) => {
      context.globalAlpha = alpha
      context.strokeStyle = colour
      context.setLineDash(step === 0 ? DASHED : [])
      context.lineWidth = thickness
      context.beginPath()
      trace(this.values[step])
      context.stroke()
      context.globalAlpha = 1
    }
    const kinds = steps.kind
    if (this.band) {
      const { least, most } = this.band
      context.beginPath()
      trace(most)
      for (let c = least.length - 1; c >= 0; c--) {
        context.lineTo(x(c + 1), y(least[c]))
        context.lineTo(x(c), y(least[c]))
      }
      context.globalAlpha = 0.3
      context.fillStyle = theme.muted
      context.fill()
      context.globalAlpha = 1
    } else for (const k of this.faint) line(k, theme.muted, 1, kinds[k] === "steady" ? 0.45 : 0.9)
    line(0, steps.peak === 0 ? theme.accent : theme.text, 1.5)
    if (steps.peak > 0) line(steps.peak, theme.accent, 1.5)
    const colour = this.step === steps.peak ? theme.accent : theme.text
    line(this.step, colour, 2.5)
    context.fillStyle = colour
    context.beginPath()
    context.arc(x(this.column + 0.5), y(this.values[this.step][this.column]), 3.5, 0, 2 * Math.PI)
    context.fill()
  }

  /** Describes what is pointed at, on the screen and for screen readers. */
  private tell(): void {
    const { steps, step, column } = this
    const text = `Step ${stepName(steps, step)}${kindText(steps, step)}: ${formatBytes(this.values[step][column])} at ${formatEvent(this.places[step][column] - 1)}`
    this.says.textContent = text
    this.plot.setAttribute("aria-valuenow", String(column))
    this.plot.setAttribute("aria-valuetext", text)
  }

  private legend(): HTMLElement[] {
    const { steps } = this
    const key = (name: string, text: string) => h("li", { class: `steps-key ${name}` }, text)
    const rest = this.faint.map((k) => steps.kind[k])
    const alike = rest.filter((kind) => kind === "steady").length
    const found: HTMLElement[] = []
    found.push(key(`first${steps.peak === 0 ? " peak" : ""}`, steps.peak === 0 ? "the first, with the peak" : "the first"))
    if (steps.peak > 0) found.push(key("peak", `${formatCount(steps.peak + 1)}, with the peak`))
    if (alike) found.push(key("steady", `${formatCount(alike)} alike`))
    if (rest.length > alike) found.push(key("other", `${formatCount(rest.length - alike)} ${alike ? "others" : "more"}`))
    return found
  }

  /** The step and column under the pointer: of the curves there, the nearest. */
  private point(event: PointerEvent): void {
    const box = this.plot.getBoundingClientRect()
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT)
    const column = this.within(Math.floor(share * this.columns))
    const part = (HEIGHT - BOTTOM - (event.clientY - box.top)) / (HEIGHT - TOP - BOTTOM)
    const value = this.low + part * (this.high - this.low)
    let best = this.step // of equals that which is picked already
    const off = (k: number) => Math.abs(this.values[k][column] - value)
    for (let k = 0; k < this.values.length; k++) if (off(k) < off(best)) best = k
    this.pick(best, column)
  }

  private within(column: number): number {
    return Math.min(Math.max(Math.floor(column), 0), this.columns - 1)
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const { step, column } = this
    const moves: Record<string, [step: number, column: number]> = {
      ArrowRight: [step, column + 1],
      ArrowLeft: [step, column - 1],
      PageDown: [step, column + this.columns / 20],
      PageUp: [step, column - this.columns / 20],
      ArrowUp: [step - 1, column],
      ArrowDown: [step + 1, column],
      Home: [step, 0],
      End: [step, this.columns],
    }
    const to = moves[event.key]
    if (event.key === "Enter") this.choose(step, this.places[step][column] - 1)
    else if (to) this.pick(Math.min(Math.max(to[0], 0), this.values.length - 1), this.within(to[1]))
    else return
    event.preventDefault()
    event.stopPropagation()
  }
}

/** Remarks on a step, in brackets. */
function kindText(steps: Steps, step: number): string {
  const words = [step === steps.peak ? "the peak" : "", kindWord(steps, step)].filter(Boolean)
  return words.length ? ` (${words.join(", ")})` : ""
}

function kindWord(steps: Steps, step: number): string {
  return { unknown: "", "warm-up": "warm-up", steady: "alike", other: "differs" }[steps.kind[step]]
}
