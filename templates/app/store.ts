/** The state of the page's open device, and its listeners. */

import type { Curve } from "./lib/data/curves"
import type { History } from "./lib/data/history"
import { Observed } from "./lib/data/observed"
import type { Axis, Scale } from "./lib/data/scale"
import { groupBy, hiddenRows } from "./lib/tables/grouping"
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

export interface State {
  window: Window
  axis: Axis
  /** The curve that the strips stack up to, and that every panel counts. */
  curve: Curve
  /** The event whose state every panel shows; -1 is the start. */
  cursor: number
  /** What the strips are coloured by. */
  colouring: string
  /** Rows of the colouring's groups that are left out of the timeline, and of everything that counts. */
  filtered: ReadonlySet<number>
  /** Allocation ids, or -1. */
  hovered: number
  pinned: number
  /** Position among the failed requests, or -1; never together with a pinned allocation. */
  pinnedOom: number
  /** Rows of the colouring's groups, or -1: under the pointer in a list, and chosen. */
  hoveredGroup: number
  chosenGroup: number
  selection: Selection | null
  /** A ruler from (x0, y0) to (x1, y1), in the window's units. */
  ruler: Window | null
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
      filtered: new Set(),
      hovered: -1,
      pinned: -1,
      pinnedOom: -1,
      hoveredGroup: -1,
      chosenGroup: -1,
      selection: null,
      ruler: null,
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

  /** The highest value to draw, including the replay that is shown. */
  private get ceiling(): number {
    const { history, counted, current } = this
    if (counted.partial) return counted.ceiling
    return Math.max(history.ceiling, history.device.replays[current?.replay ?? -1]?.most ?? 0)
  }

  /** Shows on the timeline what another setting would have reserved; -1 for none. A window that showed everything still does. */
  showReplay(replay: number): void {
    const all = sameWindow(this.current.window, this.whole)
    this.set(replay < 0 ? { replay } : { replay, filtered: new Set() }) // reserved is reserved for all
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
    if (next.axis !== before.axis && !change.window) {
      next.window = this.carried(before.window, before.axis, next.axis)
      next.ruler = null
    }
    if (next.curve !== before.curve && change.cursor === undefined && before.cursor === this.opening(before.curve)) {
      next.cursor = this.opening(next.curve) // each curve has its own peak
    }
    if (next.colouring !== before.colouring)
      Object.assign(next, {
        hoveredGroup: -1,
        chosenGroup: -1,
        filtered: change.filtered ?? (before.filtered.size ? new Set() : before.filtered),
      })
    if (next.tab !== before.tab && change.search === undefined) {
      this.searches.set(before.tab, before.search) // each panel has a text of its own
      next.search = this.searches.get(next.tab) ?? ""
    }
    this.current = next
    if (next.filtered !== before.filtered) {
      const was = this.counted
      this.hidden = hiddenRows(groupBy(this.history, next.colouring), next.filtered)
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
