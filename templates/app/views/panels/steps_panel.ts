/** The steps of the program's loop: their curves on one chart, and a row for each. */

import { stepName, type Steps } from "../../lib/data/steps"
import { formatCount, formatEvents } from "../../lib/text/format"
import type { State, Store } from "../../store"
import { h } from "../shared/dom"
import { bytesCell } from "../shared/frame_cells"
import { VirtualList } from "../shared/virtual_list"
import type { Panel } from "./panels"
import { kindWord, StepsChart } from "./steps_chart"

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
    const { history } = store
    const steps = (this.steps = history.device.steps!)
    const curve = history.curves.allocated
    this.chart = new StepsChart(steps, curve, (step, event) => this.goTo(step, event))
    const { bounds } = steps
    this.list = new VirtualList({
      label: "Steps",
      class: "steps-list",
      columns: [
        { title: "Step", class: "stage" },
        { title: "Events", class: "num events" },
        ...["Start", "Peak inside", "End", "Made here, still live at its end", "Allocations", "Allocated inside"].map((title) => ({
          title,
          class: "num",
        })),
      ],
      count: () => steps.kind.length,
      row: (k) => [
        this.name(k),
        formatEvents(bounds[k], bounds[k + 1]),
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
      "div",
      { class: "steps" },
      h(
        "p",
        { class: "hint" },
        `${steps.told} Bytes are allocated bytes; kept is what a step allocated that outlives it. A step chosen here is shown in the timeline.`,
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
    return this.store.history.curves.allocated.firstMax(bounds[step], bounds[step + 1] + 1)
  }

  private goTo(step: number, event: number): void {
    this.zoomTo?.(this.steps.bounds[step], this.steps.bounds[step + 1])
    this.store.set({ cursor: event })
  }

  private name(step: number): HTMLElement {
    const text = stepName(this.steps, step)
    const notes = [step === this.steps.peak ? "peak" : "", kindWord(this.steps, step)].filter(Boolean).join(", ")
    return h("span", { class: "stage-name" }, h("span", { title: text }, text), notes && h("small", {}, ` ${notes}`))
  }
}
