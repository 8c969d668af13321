/** The largest groups of the present colouring as small curves above one another, on the timeline's own axis and one scale. */

import { cssColour, groupColours } from "../../lib/picture/colours"
import { type GroupCurve, groupCurves } from "../../lib/picture/group_curves"
import { isDark, onTheme, styleOf } from "../../lib/picture/theme"
import { differs } from "../../lib/data/observed"
import { formatBytes, formatCount, formatExact } from "../../lib/text/format"
import { amountsLive } from "../../lib/data/questions"
import { type Grouping, groupBy, pluralOf } from "../../lib/tables/grouping"
import type { State, Store } from "../../store"
import { layOut } from "../drawing/geometry"
import { h, swatch } from "../shared/dom"
import { inNextFrame } from "../shared/failure"
import { oneStop } from "../shared/keys"
import type { Panel } from "./panels"

const MOST_ROWS = 13
/** What takes longer than a frame is drawn once the window rests, not during a drag. */
const FRAME_MS = 16
const RESTS_MS = 120

export class GroupsPanel implements Panel {
  readonly element: HTMLElement
  private readonly rows = h("div.group-rows", { role: "group" })
  private readonly hint = h("p.hint")
  private readonly resizing = new ResizeObserver(() => this.redraw())
  private readonly draw = inNextFrame(this, () => this.show())
  private waiting = 0
  /** How long the curves took last. */
  private tookMs = 0
  private curves: GroupCurve[] = []
  private others = 0
  /** The state that the curves are drawn for. */
  private drawn: State | null = null

  constructor(private readonly store: Store) {
    this.element = h("div.groups", this.hint, this.rows)
    this.rows.addEventListener("click", (event) => {
      const row = rowAt(event)
      if (row >= 0) store.set({ chosenGroup: store.state.chosenGroup === row ? -1 : row })
    })
    this.rows.addEventListener("pointerover", (event) => store.set({ hoveredGroup: rowAt(event) }))
    this.rows.addEventListener("pointerleave", () => store.set({ hoveredGroup: -1 }))
    oneStop(this.rows)
    onTheme(() => this.redraw())
    this.resizing.observe(this.rows)
  }

  update(state: State, before: State | null): void {
    if (before && !differs(state, before, "cursor", "curve", "axis", "window", "filters", "colouring", "chosenGroup")) return
    clearTimeout(this.waiting)
    if (before && this.tookMs > FRAME_MS && state.window !== before.window) this.waiting = window.setTimeout(this.draw, RESTS_MS)
    else this.draw()
  }

  private redraw(): void {
    this.drawn = null
    this.draw()
  }

  private show(): void {
    const { store } = this
    const { state, history, counted, scale } = store
    const { window: w, curve, cursor, colouring } = state
    const grouping = groupBy(history, colouring)
    const fresh = !this.drawn || differs(state, this.drawn, "curve", "axis", "window", "filters", "colouring")
    const ratio = devicePixelRatio || 1
    const g = layOut(1000, 0, 0, parseFloat(getComputedStyle(document.documentElement).fontSize), ratio)
    this.rows.style.setProperty("--left", `${g.left}px`)
    this.rows.style.setProperty("--right", `${g.width - g.left - g.plotWidth}px`)
    const width = Math.round((this.rows.querySelector("canvas") ?? this.rows).clientWidth * ratio)
    if (!width) return // not laid out
    if (fresh) {
      const begun = performance.now()
      Object.assign(this, groupCurves(counted.device, curve, grouping, scale, w, width, MOST_ROWS))
      this.tookMs = performance.now() - begun
    }
    const { bytes } = amountsLive(counted.device, curve, cursor, grouping.ofAllocation, grouping.groups.length)
    const named = new Set(this.curves.map(({ group }) => group))
    const rest = bytes.reduce((sum, each, row) => sum + (named.has(row) ? 0 : each), 0)
    this.rows.setAttribute("aria-label", `By ${colouring}`)
    this.hint.textContent = this.curves.length
      ? `${curve === "allocated" ? "Allocated" : "Requested"} bytes in the timeline's window, all on one scale: the most at the left, those at the cursor at the right. A click highlights a group in the timeline.`
      : "Nothing is live in the timeline's window."
    const held = (group: number) => (group < 0 ? rest : bytes[group])
    if (fresh) this.rows.replaceChildren(...this.curves.map((each) => this.row(grouping, each)))
    this.curves.forEach(({ group, most }, k) => {
      const row = this.rows.children[k] as HTMLElement
      row.title = `${grouping.groups[group]?.full ?? ""}\nat most ${formatExact(most)} in this window, ${formatExact(held(group))} at the cursor`
      if (group >= 0) row.setAttribute("aria-pressed", String(state.chosenGroup === group))
      row.querySelector("b")!.textContent = formatBytes(held(group))
    })
    const at = ((scale.xOf(cursor) + scale.endOf(cursor)) / 2 - w.x0) / (w.x1 - w.x0)
    this.rows.style.setProperty("--at", String(at))
    this.rows.classList.toggle("away", at < 0 || at > 1)
    if (!fresh) return
    this.drawn = state
    this.paint(grouping, ratio)
  }

  private row(grouping: Grouping, { group, most }: GroupCurve): HTMLElement {
    const { label, detail } =
      group < 0 ? { label: `${formatCount(this.others)} other`, detail: pluralOf(grouping.colouring) } : grouping.groups[group]
    return h(
      group < 0 ? "div" : "button",
      { class: "group-row", "data-group": group, type: group < 0 ? null : "button" },
      h("span.num", formatBytes(most)),
      h("span.small-curve", h("canvas", { "aria-hidden": "true" })),
      h("span.group-name", swatch(this.colourOf(grouping, group)), h("span.name", h("code", label), " ", h("small", detail)), h("b.num")),
    )
  }

  private colourOf(grouping: Grouping, group: number): string {
    return group < 0 ? styleOf(this.element)("muted") : cssColour(groupColours(grouping, isDark())[group])
  }

  private paint(grouping: Grouping, ratio: number): void {
    const top = Math.max(...this.curves.map(({ most }) => most), 1)
    this.rows.querySelectorAll("canvas").forEach((canvas, k) => {
      const { group, columns } = this.curves[k]
      const height = Math.round(canvas.clientHeight * ratio)
      Object.assign(canvas, { width: columns.length, height })
      const pen = canvas.getContext("2d")!
      pen.fillStyle = this.colourOf(grouping, group)
      columns.forEach((bytes, x) => {
        const y = bytes > 0 ? Math.max((bytes / top) * height, 0.5) : 0 // what is not nothing is seen
        pen.fillRect(x, height - y, 1, y)
      })
    })
  }
}

/** The group whose row an event is in, or -1. */
function rowAt(event: Event): number {
  return Number((event.target as Element).closest<HTMLElement>("[data-group]")?.dataset.group ?? -1)
}
