/** The stages: their memory at start, peak and end; repeated ones in one row, with median and range. */

import { formatBytes, formatCount, formatExact, formatSignedBytes, formatEvents } from "../../lib/text/format"
import type { StageSummary } from "../../lib/data/payload"
import { groupStages, type Spread, type StageFigure, type StageGroup, stagesOf } from "../../lib/tables/stage_groups"
import type { State, Store } from "../../store"
import { h } from "../shared/dom"
import { compareButton, type Panel } from "./panels"
import { VirtualList } from "../shared/virtual_list"

/** As in reporters/words.py. */
const CUT_WORDS: Record<string, string> = {
  start: "began before the first event",
  end: "still open at the end",
  both: "longer than the recording",
}

type Format = (value: number) => string
const COLUMNS: [title: string, figure: StageFigure, format: Format][] = [
  ["Start", "start_bytes", formatBytes],
  ["Peak inside", "peak_bytes", formatBytes],
  ["End", "end_bytes", formatBytes],
  ["Change", "change", formatSignedBytes],
  ["Allocations", "allocations", formatCount],
  ["Allocated inside", "allocated_bytes", formatBytes],
]

type Row = { group: StageGroup; stage: number }

export class StagesPanel implements Panel {
  readonly element: HTMLElement
  private readonly list: VirtualList
  private readonly stages: StageSummary[]
  private readonly groups: StageGroup[]
  private readonly open = new Set<StageGroup>()
  private rows: Row[] = []

  /** `zoomTo`: shows the events from one to before another in the timeline, if there is one. */
  constructor(
    private readonly store: Store,
    private readonly zoomTo: ((start: number, end: number) => void) | null,
  ) {
    this.stages = stagesOf(store.counted)
    this.groups = groupStages(this.stages)
    this.list = new VirtualList({
      label: "Stages",
      class: "stages-list",
      role: "treegrid",
      empty: "No stage was annotated in this recording.",
      columns: [
        { title: "Stage", class: "stage" },
        { title: "Events", class: "num events" },
        { title: "Compare", quiet: true, class: "compare" },
        ...COLUMNS.map(([title]) => ({ title, class: "num" })),
      ],
      count: () => this.rows.length,
      row: (k) => [
        this.name(this.rows[k]),
        this.events(this.rows[k]),
        this.compare(this.rows[k]),
        ...COLUMNS.map(([, figure, format]) => this.figure(this.rows[k], figure, format)),
      ],
      rowAttributes: (k) => this.attributes(this.rows[k]),
      rowClass: (k) => (this.holds(this.rows[k], this.store.state.cursor) ? "now" : null),
      onSelect: (k) => this.choose(this.rows[k]),
      onOpen: (k) => this.toggle(this.rows[k]),
      onToggle: (k, open) => this.toggle(this.rows[k], open),
    })
    const repeated = this.groups.some(function several(group: StageGroup): boolean {
      return isRepeated(group) || group.children.some(several)
    })
    this.element = h(
      "div",
      h(
        "p.hint",
        "Bytes are allocated bytes. A stage chosen here is shown in the timeline, with the cursor at its peak.",
        repeated && " Repeated stages share a row, with their median and range; a click opens them.",
      ),
      this.list.element,
    )
    this.build()
  }

  update(state: State, before: State | null): void {
    if (!before || state.cursor !== before.cursor) this.list.refresh()
  }

  private build(): void {
    this.rows = []
    const add = (group: StageGroup) => {
      const single = !isRepeated(group)
      this.rows.push({ group, stage: single ? group.stages[0] : -1 })
      if (!single && this.open.has(group)) for (const stage of group.stages) this.rows.push({ group, stage })
      group.children.forEach(add)
    }
    this.groups.forEach(add)
    this.list.refresh()
  }

  private name({ group, stage }: Row): HTMLElement {
    const several = stage < 0
    const inner = !several && isRepeated(group)
    const summary = several ? null : this.stages[stage]
    const element = h(
      "span.stage-name",
      h("span", { class: several ? "twist" : "leaf", "aria-hidden": "true" }),
      h("span", { title: summary ? summary.name : group.name }, summary ? summary.name : group.name),
      several && h("small", ` \u00d7 ${formatCount(group.stages.length)}`),
      summary !== null && summary.cut !== "" && h("small", ` ${CUT_WORDS[summary.cut]}`),
    )
    element.style.setProperty("--depth", String(Math.min(group.depth + (inner ? 1 : 0), 20)))
    return element
  }

  private figure({ group, stage }: Row, name: StageFigure, format: Format): HTMLElement | string {
    return stage >= 0 ? figure(this.stages[stage][name], format) : range(group.spread[name], format)
  }

  private events({ group, stage }: Row): string {
    if (stage >= 0) return formatEvents(this.stages[stage].start_event, this.stages[stage].end_event)
    const [first, last] = [this.stages[group.stages[0]], this.stages[group.stages[group.stages.length - 1]]]
    return formatEvents(first.start_event, last.end_event)
  }

  private compare({ stage }: Row): HTMLElement | string {
    return stage < 0 ? "" : compareButton(this.store, this.stages[stage].start_event, this.stages[stage].end_event)
  }

  private attributes({ group, stage }: Row): Record<string, string> {
    const inner = stage >= 0 && isRepeated(group)
    const level = { "aria-level": String(group.depth + (inner ? 2 : 1)) }
    return stage >= 0
      ? { ...level, "data-stage": String(stage) }
      : { ...level, "data-stages": String(group.stages[0]), "aria-expanded": String(this.open.has(group)) }
  }

  private holds({ group, stage }: Row, cursor: number): boolean {
    const inside = (k: number) => this.stages[k].start_event <= cursor && cursor < this.stages[k].end_event
    return stage >= 0 ? inside(stage) : group.stages.some(inside)
  }

  private choose({ group, stage }: Row): void {
    if (stage < 0) return this.toggle({ group, stage })
    const { start_event, end_event, peak_event } = this.stages[stage]
    this.zoomTo?.(start_event, end_event)
    if (peak_event !== null) this.store.set({ cursor: peak_event })
  }

  private toggle({ group, stage }: Row, open = !this.open.has(group)): void {
    if (stage >= 0) return
    if (open) this.open.add(group)
    else this.open.delete(group)
    this.build()
  }
}

function isRepeated({ stages }: StageGroup): boolean {
  return stages.length > 1
}

function figure(value: number | null, format: Format): HTMLElement | string {
  return value === null ? "-" : h("span", { title: format === formatCount ? null : formatExact(value) }, format(value))
}

function range(spread: Spread | null, format: Format): HTMLElement | string {
  if (!spread) return "-"
  const { count, min, median, max } = spread
  if (min === max) return figure(median, format)
  if (format(min) === format(max)) return format(median)
  if (count === 2) return h("span", { title: `${formatExact(min)} and ${formatExact(max)}` }, `${format(min)} and ${format(max)}`)
  return h(
    "span.spread",
    { title: `least ${format(min)}, median ${format(median)}, most ${format(max)}` },
    h("span", h("small", "median "), format(median)),
    h("small", `${format(min)} to ${format(max)}`),
  )
}
