/** The state of the page's open device, and its listeners. */

import type { Curve, Ints } from "./lib/data/curves"
import { type Device, withoutRows } from "./lib/data/device"
import type { History } from "./lib/data/history"
import { Observed } from "./lib/data/observed"
import { type Amounts, amountsOf, type Answer, answerOf, type Kind, marksOf, type Question } from "./lib/data/questions"
import type { Axis, Scale } from "./lib/data/scale"
import { type Filters, hiddenRows, NO_FILTERS, withFilter } from "./lib/tables/grouping"
import { type StacksView, WHOLE_TREE } from "./lib/tables/tree_model"
import { clampWindow, sameWindow, wholeWindow, type Window } from "./lib/picture/window"

/** Allocations selected in a panel; the timeline highlights them, too. */
export interface Selection {
  /** The panel, and its key of the selection: enough to select them again. */
  panel: string
  key: string
  /** Their name. */
  label: string
  /** 1 for each allocation that belongs to it. */
  rows: Uint8Array
}

/** Events that are pinned on the timeline; null for those that are not. */
export interface Markers {
  a: number | null
  b: number | null
  c: number | null
}

export const NO_MARKERS: Markers = { a: null, b: null, c: null }

export interface State {
  window: Window
  axis: Axis
  /** The curve that the strips stack up to, and that every panel counts. */
  curve: Curve
  /** The event whose state every panel shows; -1 is the start. */
  cursor: number
  /** What the strips are coloured by. */
  colouring: string
  /** What is left out of the timeline, and of everything that counts. */
  filters: Filters
  /** What the panels answer, about the cursor or about the markers. */
  question: Kind
  markers: Markers
  /** Allocation ids, or -1. */
  hovered: number
  pinned: number
  /** Position among the failed requests, or -1; never together with a pinned allocation. */
  pinnedOom: number
  /** Rows of the colouring's groups, or -1: under the pointer in a list, and chosen. */
  hoveredGroup: number
  chosenGroup: number
  selection: Selection | null
  /** Index of the replay that the timeline shows, or -1. */
  replay: number
  /** The open panel, and the text it searches for. */
  tab: string
  search: string
  /** How the panel of call stacks shows them. */
  stacks: StacksView
}

export class Store extends Observed<State> {
  protected current: State
  /** 1 for each allocation that is left out; null where none is. */
  hidden: Uint8Array | null = null
  /** The history that everything counts: without what is left out. */
  counted: History
  /** Of the timeline that is drawn on the same scale of bytes as this one. */
  beside: Store | null = null
  private lastAnswer: { key: string; of: History; answer: Answer; marks: Int8Array | null } | null = null
  private readonly searches = new Map<string, string>()

  /** `colouring`: the one that the page opens with. */
  constructor(
    readonly history: History,
    readonly colouring = "site",
  ) {
    super()
    this.counted = history
    const curve = "allocated"
    this.current = {
      window: this.opensAt("events"),
      axis: "events",
      curve,
      cursor: this.opening(curve),
      colouring,
      filters: NO_FILTERS,
      question: "live",
      markers: NO_MARKERS,
      hovered: -1,
      pinned: -1,
      pinnedOom: -1,
      hoveredGroup: -1,
      chosenGroup: -1,
      selection: null,
      replay: -1,
      tab: "stacks",
      search: "",
      stacks: WHOLE_TREE,
    }
  }

  /** The scale of the current axis. */
  get scale(): Scale {
    return this.history.scale(this.current.axis)
  }

  /** The window that shows everything, on the current axis. */
  get whole(): Window {
    return wholeWindow(this.scale.whole, this.ceiling)
  }

  /** The window that the page opens with, on the current axis: everything, or the events asked for. */
  get opens(): Window {
    return this.opensAt(this.current.axis)
  }

  /** The highest value to draw here and in the timeline beside this one. */
  private get ceiling(): number {
    return Math.max(this.highest, this.beside?.highest ?? 0)
  }

  /** The highest value to draw, including the replay that is shown. */
  private get highest(): number {
    const { history, counted, current } = this
    if (counted.partial) return counted.ceiling
    return Math.max(history.ceiling, history.device.replays[current?.replay ?? -1]?.most ?? 0)
  }

  /** What the panels answer. Where only one of A and B is set, the cursor stands for the other. */
  get asked(): Question {
    const { question: kind, markers, curve, cursor } = this.current
    const { a, b, c } = markers
    const [from, to] = [a ?? cursor, b ?? cursor].sort((x, y) => x - y)
    return { kind: a === null && b === null ? "live" : kind, curve, at: cursor, from, to, alive: c ?? to }
  }

  /** What the panels answer, added up by row: `rowOf` has the row of each allocation. */
  amounts(rowOf: Ints, rows: number): Amounts {
    return amountsOf(this.counted.device, this.asked, rowOf, rows, this.answer)
  }

  /** The device without what filters leave out, but for the one of a colouring, which can leave out less again. */
  besides(colouring: string): Device {
    const { filters } = this.current
    const others = withFilter(this.history, filters, colouring, [])
    const hidden = hiddenRows(this.history, others)
    return hidden ? withoutRows(this.history.device, hidden) : this.history.device
  }

  /** What the panels list: found once for each question. */
  get answer(): Answer {
    return this.known().answer
  }

  /** For each allocation whether it answers a question about the markers: 1, or -1 for one that went; null where that is not asked. */
  get answering(): Int8Array | null {
    if (this.asked.kind === "live") return null
    const known = this.known()
    return (known.marks ??= marksOf(this.counted.device, known.answer))
  }

  private known(): NonNullable<Store["lastAnswer"]> {
    const { asked, counted, lastAnswer } = this
    const key = Object.values(asked).join()
    if (lastAnswer?.key === key && lastAnswer.of === counted) return lastAnswer
    return (this.lastAnswer = { key, of: counted, answer: answerOf(counted.device, asked), marks: null })
  }

  /** Sets A and B to the states before and after some events, from one to before another. */
  pinBetween(start: number, end: number, question: Kind = "change"): void {
    const a = Math.max(start - 1, -1)
    this.set({ markers: { a, b: Math.max(end - 1, a), c: null }, question })
  }

  /** Sets a marker at the cursor, or takes it away from there. */
  pinMarker(name: keyof Markers): void {
    const { markers, cursor } = this.current
    this.set({ markers: { ...markers, [name]: markers[name] === cursor ? null : cursor } })
  }

  /** Shows on the timeline what another setting would have reserved; -1 for none. A window that showed everything still does. */
  showReplay(replay: number): void {
    const all = sameWindow(this.current.window, this.whole)
    this.set(replay < 0 ? { replay } : { replay, filters: NO_FILTERS }) // reserved is reserved for all
    if (all) this.set({ window: this.whole })
  }

  private opensAt(axis: Axis): Window {
    const { history } = this
    const scale = history.scale(axis)
    const whole = wholeWindow(scale.whole, this.ceiling)
    const drawn = history.device.rest?.window
    if (!drawn || drawn[1] < drawn[0]) return whole
    return clampWindow({ ...whole, x0: scale.xOf(drawn[0]), x1: scale.endOf(drawn[1]) }, whole)
  }

  /** Changes part of the state; listeners mark what to draw and one animation frame draws it. */
  set(change: Partial<State>): void {
    const before = this.current
    const next = { ...before, ...change }
    if (next.axis !== before.axis && !change.window) next.window = this.carried(before.window, before.axis, next.axis)
    if (next.curve !== before.curve && change.cursor === undefined && before.cursor === this.opening(before.curve)) {
      next.cursor = this.opening(next.curve) // each curve has its own peak
    }
    if (next.colouring !== before.colouring) Object.assign(next, { hoveredGroup: -1, chosenGroup: -1 })
    if (next.markers !== before.markers && change.question === undefined) {
      const set = next.markers.a !== null || next.markers.b !== null
      if (set !== (next.question !== "live")) next.question = set ? "change" : "live"
    }
    if (next.tab !== before.tab && change.search === undefined) {
      this.searches.set(before.tab, before.search) // each panel has a text of its own
      next.search = this.searches.get(next.tab) ?? ""
    }
    this.current = next
    if (next.filters !== before.filters) {
      const was = this.counted
      this.hidden = hiddenRows(this.history, next.filters)
      this.counted = this.hidden ? this.history.without(this.hidden) : this.history
      const { y0, y1 } = this.whole // the axis fits what counts
      if (this.counted !== was && !change.window) next.window = { ...next.window, y0, y1 }
    }
    if (next.window !== before.window) next.window = clampWindow(next.window, this.whole)
    if (sameWindow(next.window, before.window)) next.window = before.window
    this.tell(before)
  }

  /** Shows the state after an event everywhere, and scrolls the timeline to that event. */
  goTo(event: number, change: Partial<State> = {}): void {
    const cursor = Math.min(Math.max(event, -1), this.history.device.events - 1)
    const { window: w } = this.current
    const [from, to] = [this.scale.xOf(cursor), this.scale.endOf(cursor)]
    const half = (w.x1 - w.x0) / 2
    const middle = (from + to) / 2
    const window = from >= w.x0 && to <= w.x1 ? w : { ...w, x0: middle - half, x1: middle + half }
    this.set({ cursor, window, ...change })
  }

  /** Shows the events from one to before another with a little on each side. */
  zoomTo(start: number, end: number): void {
    const [from, to] = [this.scale.xOf(start), this.scale.xOf(Math.max(end, start))]
    const margin = Math.max((to - from) * 0.04, 2)
    this.set({ window: { ...this.whole, x0: from - margin, x1: to + margin } })
  }

  /** Brings the cursor to the peak, and the peak to the middle, at a tenth of the recording or closer. */
  showPeak(): void {
    const { whole, counted, scale } = this
    const { curve, window: w } = this.current
    const cursor = counted.peakEvent[curve]
    const half = Math.min(w.x1 - w.x0, (whole.x1 - whole.x0) / 10) / 2
    const middle = (scale.xOf(cursor) + scale.endOf(cursor)) / 2
    const peak = counted.at(curve, cursor)
    const { y0, y1 } = peak > w.y0 && peak < w.y1 ? w : whole
    this.set({ cursor, window: { y0, y1, x0: middle - half, x1: middle + half } })
  }

  /** Shows the details of an allocation, or of none. */
  pin(allocation: number): void {
    this.set({ pinned: allocation, pinnedOom: -1 })
  }

  /** Shows the details of a failed request, and scrolls to its event if need be. */
  pinOom(oom: number): void {
    this.goTo(this.history.ooms[oom].event, { pinned: -1, pinnedOom: oom })
  }

  /** The event that a page opens at: the peak (of the events asked for), or the end if no history was recorded. */
  opening(curve: Curve): number {
    const { history } = this
    const drawn = history.device.rest?.window
    if (drawn && drawn[1] >= drawn[0]) return history.curves[curve].firstMax(drawn[0] + 1, drawn[1] + 2) - 1
    return history.device.summary.recorded ? history.peakEvent[curve] : history.device.events - 1
  }

  /** The same events on another axis. */
  private carried(w: Window, from: Axis, to: Axis): Window {
    const [before, after] = [this.history.scale(from), this.history.scale(to)]
    if (w.x0 <= before.whole[0] && w.x1 >= before.whole[1]) return { ...w, x0: after.whole[0], x1: after.whole[1] }
    const [first, end] = before.eventsIn(w.x0, w.x1)
    return { ...w, x0: after.xOf(first), x1: after.endOf(Math.max(end - 1, first)) }
  }
}
