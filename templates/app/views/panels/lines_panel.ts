/** The moment by source line, as a line-by-line memory tracer prints it. */

import { formatAmount, formatBytes, formatCount, formatExact, formatShare, plural } from "../../lib/text/format"
import { frameKind } from "../../lib/data/frames"
import { differs } from "../../lib/data/observed"
import { cumulative, type LineColumn, type LineMap, type LineRow, linesAt, mapLines, rowsOfLine, sortLines } from "../../lib/tables/lines"
import { type Origins, originsOf } from "../../lib/data/origins"
import { refusal } from "../../lib/text/pattern"
import { filterTest } from "../../lib/tables/search"
import type { State, Store } from "../../store"
import { searchField } from "../shared/controls"
import { h } from "../shared/dom"
import { inNextFrame } from "../shared/failure"
import { bytesCell, frameLabel, frameTitle, heatMeter } from "../shared/frame_cells"
import { letGo, listsOther, NOTHING, type Panel, showsOther } from "./panels"
import { VirtualList } from "../shared/virtual_list"

const COLUMNS: [column: LineColumn | null, title: string, class_: string][] = [
  ["bytes", "Bytes", "num"],
  [null, "Share", "num"],
  [null, "Bar", "bar"],
  [null, "Cumulative", "num cumulative"],
  ["median", "Median", "num median"],
  ["count", "Count", "num count"],
  ["ever", "Ever allocated", "num ever"],
  ["location", "Location", "location"],
]

export class LinesPanel implements Panel {
  readonly element: HTMLElement
  private readonly list: VirtualList
  private readonly input: HTMLInputElement
  private readonly totals = h("p.totals-line", { role: "status" })
  private readonly origins: Origins
  private map: LineMap
  private rows: LineRow[] = []
  private sums: Float64Array = new Float64Array(0)
  /** What shares are of. */
  private whole = 0
  private by: LineColumn = "bytes"
  private reversed = false
  private chosen = -1
  private refused = ""
  private readonly refreshSoon = inNextFrame(this, () => this.refresh())
  private shown: State | null = null

  constructor(private readonly store: Store) {
    const { device, stacks } = store.history
    this.origins = originsOf(device, stacks)
    this.map = mapLines(device, stacks, this.origins, null)
    this.input = searchField("Files that lines are taken from", (search) => store.set({ search }), {
      placeholder: "Files: model.py, *.cu, -torch",
      title:
        "Each stack counts for its innermost frame whose file matches. Separate parts of a path, globs (*.py) or /regular expressions/ by commas; put a minus before those to leave out.",
    })
    this.list = new VirtualList({
      label: "Source lines",
      class: "lines-list",
      empty: NOTHING,
      columns: COLUMNS.map(([column, title, class_]) => ({
        title,
        quiet: class_ === "bar",
        class: class_,
        ...(column && {
          sort: () => this.sort(column),
          sorted: () =>
            column !== this.by ? null : (column === "location") === this.reversed ? ("descending" as const) : ("ascending" as const),
        }),
      })),
      count: () => this.rows.length,
      row: (k) => this.cells(k),
      rowAttributes: (k) => ({ "data-line": this.keyOf(this.rows[k].line) }),
      rowClass: (k) => (this.rows[k].line === this.pinnedLine() ? "now" : null),
      onSelect: (k) => this.choose(this.rows[k].line),
      onKey: (event) => letGo(event, store),
    })
    this.element = h(
      "div.lines",
      h("div.toolbar", h("span.searching", this.input), this.totals),
      stacks.linesNote && h("p.note", stacks.linesNote),
      this.list.element,
    )
  }

  update(state: State, before: State | null): void {
    if (!before) return this.refresh()
    const unselected = before.selection && !state.selection
    if (unselected || showsOther(state, this.shown)) this.refreshSoon()
  }

  /** `key`: of a selection made here. */
  select(key: string): void {
    this.filter(this.store.state.search)
    const line = this.map.lines.findIndex((_, k) => this.keyOf(k) === key)
    if (line < 0) return
    this.choose(line)
    this.shown = null
    this.refresh()
  }

  private refresh(): void {
    const { state } = this.store
    const { search, pinned, selection } = state
    const { device } = this.store.counted
    const { shown } = this
    if (!shown || differs(state, shown, "search", "filters")) this.filter(search) // which forgets what lines ever allocated
    if (listsOther(state, shown) || shown!.search !== search) {
      this.rows = sortLines(linesAt(device, this.origins, this.map, this.store.asked, this.store.answer), this.map, this.by, this.reversed)
      this.whole = this.rows.reduce((sum, { moved }) => sum + moved, 0)
      this.sums = cumulative(this.rows)
    }
    if (!selection) this.chosen = -1
    this.list.refresh()
    this.list.selected = this.rows.findIndex((row) => row.line === this.chosen)
    if (pinned >= 0 && shown?.pinned !== pinned) this.list.reveal(this.rows.findIndex((row) => row.line === this.pinnedLine()))
    this.shown = state
    this.say()
  }

  private filter(typed: string): void {
    const { device, stacks } = this.store.history
    if (this.input.value !== typed) this.input.value = typed
    const key = this.chosen < 0 ? "" : this.keyOf(this.chosen)
    this.refused = ""
    try {
      this.map = mapLines(device, stacks, this.origins, filterTest(typed))
    } catch (error) {
      this.refused = refusal(error)
      this.map = mapLines(device, stacks, this.origins, null)
    }
    this.input.setAttribute("aria-invalid", String(this.refused !== ""))
    this.chosen = this.map.lines.findIndex((_, line) => this.keyOf(line) === key)
  }

  private get signed(): boolean {
    return this.store.asked.kind === "change"
  }

  private say(): void {
    const total = this.sums.at(-1) ?? 0
    const { curve, search } = this.store.state
    this.totals.replaceChildren(
      h("b", plural(this.rows.length, "line")),
      h("span", { title: formatExact(total) }, `${formatAmount(total, this.signed)} ${curve}`),
      h(
        "span.of",
        this.refused
          ? `${this.refused}; nothing is filtered.`
          : search.trim()
            ? "The innermost frame in these files."
            : "The call site of each stack.",
      ),
    )
  }

  private cells(k: number): (Node | string)[] {
    const row = this.rows[k]
    return [
      bytesCell(row.bytes, this.signed),
      formatShare(row.moved, this.whole),
      heatMeter(row.moved, this.whole, this.signed ? row.bytes : undefined),
      bytesCell(this.sums[k], this.signed),
      medianCell(row),
      formatCount(row.count),
      h(
        "span",
        { title: `${formatExact(row.ever)} in ${plural(row.everCount, "allocation")} over the entire recording` },
        formatBytes(row.ever),
      ),
      this.location(row.line),
    ]
  }

  /** `model.py:10 layer`; only the name for a frame without a file, only the words for a reason. */
  private location(line: number): HTMLElement {
    const { history } = this.store
    const { frame, name, place, code } = this.map.lines[line]
    if (frame < 0) return h("span.muted", name)
    return h(
      "span.frame",
      { title: frameTitle(history, frame) },
      place && h("b", place),
      place && " ",
      h("code", { class: place ? "muted" : frameKind(history.stacks, frame) }, name),
      code && h("span.code", ` ${code}`),
    )
  }

  /** The key of a line in a link: its frame, or its words. */
  private keyOf(line: number): string {
    const { frame, name } = this.map.lines[line]
    return frame >= 0 ? String(frame) : name
  }

  private pinnedLine(): number {
    const { pinned } = this.store.state
    return pinned < 0 ? -1 : this.map.ofOrigin[this.origins.ofAllocation[pinned]]
  }

  private choose(line: number): void {
    this.chosen = line
    const { frame, name } = this.map.lines[line]
    this.store.set({
      selection: {
        panel: "lines",
        key: this.keyOf(line),
        label: frameLabel(this.store.history, frame, name),
        rows: rowsOfLine(this.origins, this.map, line),
      },
    })
  }

  private sort(column: LineColumn): void {
    this.reversed = column === this.by && !this.reversed
    this.by = column
    this.shown = null
    this.refresh()
  }
}

/** The median of the sizes; of two, both. */
function medianCell({ median, least, count, moved }: LineRow): HTMLElement | string {
  if (Number.isNaN(median)) return "-"
  const most = moved - least
  if (count !== 2 || least === most) return bytesCell(median)
  return h("span.both", { title: `${formatExact(least)} and ${formatExact(most)}` }, formatBytes(least), h("br"), formatBytes(most))
}
