/** Pointer, wheel and touch over the timeline: turns them into windows, cursors and picks. */

import { inWindow, type Window } from "../../lib/picture/window"
import { type Markers, NO_MARKERS, type State, type Store } from "../../store"
import { regionAt } from "../drawing/geometry"
import type { Grip } from "../drawing/minimap"
import { type Drag, listenGestures, panWith, pointOf } from "../shared/gestures"
import type { Pointing } from "./pointing"

export type Tool = "move" | "box"

export class Tools {
  tool: Tool = "move"
  /** The box being dragged, in CSS pixels of the plot element. */
  box: Window | null = null

  /** `onChange`: the tool or the box is another one. */
  constructor(
    private readonly store: Store,
    private readonly onChange: () => void,
  ) {}

  /** Takes the box up, or puts it away. */
  toggleBox(): void {
    this.choose(this.tool === "box" ? "move" : "box")
  }

  private choose(tool: Tool): void {
    this.tool = tool
    this.onChange()
  }

  /** Shows a box while it is dragged; one that was asked for is drawn once. */
  showBox(box: Window | null): void {
    if (box === this.box) return
    this.box = box
    if (!box && this.tool === "box") this.choose("move")
    else this.onChange()
  }

  /** Lets go of everything that is picked; where nothing is, of the markers. */
  escape(): void {
    const { pinned, pinnedOom, chosenGroup, selection } = this.store.state
    const picked = pinned >= 0 || pinnedOom >= 0 || chosenGroup >= 0 || selection !== null || this.tool === "box"
    this.choose("move")
    this.store.set({ pinned: -1, pinnedOom: -1, chosenGroup: -1, hovered: -1, hoveredGroup: -1, selection: null })
    if (!picked) this.store.set({ markers: NO_MARKERS })
  }
}

type DragKind = Tool | "scrub" | "range" | "flag" | "map-left" | "map-right" | "map" | "map-range"
type Clicked = Pick<State, "cursor" | "pinned" | "pinnedOom">

/** Returns the actions of keys that move and zoom. */
export function listen(element: HTMLElement, store: Store, pointing: Pointing, tools: Tools): Record<string, () => void> {
  /** What a pixel of the map is worth on the axis. */
  const perMapPx = () => (store.scale.whole[1] - store.scale.whole[0]) / pointing.geometry.plotWidth
  const shownAt = (x: number, y: number) => inWindow(pointing.geometry, store.state.window, { x, y })
  const scrubTo = (x: number) => store.set({ cursor: pointing.eventAt(x) })
  const onMap = (x: number) => store.scale.whole[0] + (x - pointing.geometry.left) * perMapPx()
  const centreOn = (x: number) => {
    const w = store.state.window
    store.set({ window: { ...w, x0: onMap(x) - (w.x1 - w.x0) / 2, x1: onMap(x) + (w.x1 - w.x0) / 2 } })
  }
  const pinFrom = (one: number, other: number) => store.set({ markers: { a: Math.min(one, other), b: Math.max(one, other), c: null } })

  let kind: DragKind = "move"
  /** The marker that is dragged. */
  let flag: keyof Markers = "a"
  /** What the last click found, and the one before it: a double click undoes both of its own. */
  let clicks: Clicked[] = []

  const moves = listenGestures(element, store, pointing, {
    press({ x, y }, event) {
      const region = regionAt(pointing.geometry, x, y)
      const grip = region === "map" ? pointing.gripAt(x) : null
      const held = pointing.flagAt(x, y)
      kind = held
        ? "flag"
        : region === "axis"
          ? pointing.onHandle(x) || store.beside
            ? "scrub"
            : "range"
          : kindOf(grip, event.shiftKey ? "box" : tools.tool)
      if (held) flag = held
    },
    follow,
    drop({ from, now, moved }, event) {
      tools.showBox(null)
      if (!moved) {
        const { cursor, pinned, pinnedOom } = store.state
        clicks = [...clicks.slice(-1), { cursor, pinned, pinnedOom }]
        if (event.type !== "pointerup") return
        if (kind === "range" || kind === "scrub") scrubTo(from.x)
        else if (kind === "map-range") centreOn(from.x)
        else if (kind === "flag") store.set({ cursor: store.state.markers[flag]! })
        else if (!kind.startsWith("map")) pointing.clickAt(from.x, from.y)
      } else if (kind === "box" && event.type === "pointerup") {
        const a = shownAt(Math.min(from.x, now.x), Math.max(from.y, now.y))
        const b = shownAt(Math.max(from.x, now.x), Math.min(from.y, now.y))
        store.set({ window: { x0: a.x, x1: b.x, y0: a.y, y1: b.y } })
      }
    },
  })

  function follow(drag: Drag): void {
    const { from, before, now } = drag
    const w = store.state.window
    const by = (now.x - before.x) * perMapPx()
    switch (kind) {
      case "scrub":
        return scrubTo(now.x)
      case "map-left":
        return store.set({ window: { ...w, x0: Math.min(w.x0 + by, w.x1) } })
      case "map-right":
        return store.set({ window: { ...w, x1: Math.max(w.x1 + by, w.x0) } })
      case "map":
        return store.set({ window: { ...w, x0: w.x0 + by, x1: w.x1 + by } })
      case "box":
        return tools.showBox({ x0: from.x, y0: from.y, x1: now.x, y1: now.y })
      case "range":
        return pinFrom(pointing.stateAt(from.x), pointing.stateAt(now.x))
      case "map-range":
        if (store.beside) return centreOn(now.x)
        return pinFrom(...([from, now].map(({ x }) => store.scale.eventAt(onMap(x))) as [number, number]))
      case "flag":
        return store.set({ markers: { ...store.state.markers, [flag]: pointing.stateAt(now.x) } })
      case "move":
        panWith(element, store, pointing.geometry, drag)
    }
  }

  element.addEventListener("dblclick", (event) => {
    const { x, y } = pointOf(element, event)
    if (regionAt(pointing.geometry, x, y) === "axis") return // a scrub may begin with two quick clicks
    store.set({ window: store.whole, ...(clicks.length > 1 ? clicks[0] : {}) })
    clicks = []
  })
  return moves
}

function kindOf(grip: Grip | null, tool: Tool): DragKind {
  return grip ? ({ left: "map-left", right: "map-right", box: "map", outside: "map-range" } as const)[grip] : tool
}
