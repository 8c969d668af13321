/** The state of the page's one open device, and who wants to know when it changes. */

import type { Curve } from "./lib/curves"
import type { History } from "./lib/history"
import { clampWindow, wholeWindow, type Window } from "./lib/window"

export interface State {
  window: Window
  /** Which curve the strips stack up to. */
  curve: Curve
  /** Allocation ids, or -1. */
  hovered: number
  pinned: number
  /** Position among the failed requests, or -1; never together with a pinned allocation. */
  pinnedOom: number
  /** Call site rows, or -1: under the pointer in a list, and chosen. */
  hoveredSite: number
  chosenSite: number
}

export class Store {
  readonly whole: Window
  private current: State
  private readonly listeners: ((state: State, before: State) => void)[] = []

  constructor(readonly history: History) {
    this.whole = wholeWindow(history.device.events, history.highest)
    this.current = {
      window: this.whole, curve: "allocated",
      hovered: -1, pinned: -1, pinnedOom: -1, hoveredSite: -1, chosenSite: -1,
    }
  }

  get state(): State {
    return this.current
  }

  /** Changes part of the state; listeners mark what to draw and one animation frame draws it. */
  set(change: Partial<State>): void {
    const before = this.current
    const next = { ...before, ...change }
    if (change.window) next.window = clampWindow(change.window, this.whole)
    this.current = next
    for (const listener of this.listeners) listener(next, before)
  }

  /** Shows the details of an allocation, or of none. */
  pin(allocation: number): void {
    this.set({ pinned: allocation, pinnedOom: -1 })
  }

  /** Shows the details of a failed request, and its step if that is out of sight. */
  pinOom(oom: number): void {
    const { window: w } = this.current
    const { step } = this.history.ooms[oom]
    const seen = step >= w.x0 && step + 1 <= w.x1
    const half = (w.x1 - w.x0) / 2
    const window = seen ? w : { ...w, x0: step + 0.5 - half, x1: step + 0.5 + half }
    this.set({ pinned: -1, pinnedOom: oom, window })
  }

  on(listener: (state: State, before: State) => void): void {
    this.listeners.push(listener)
  }
}
