/** Pointer, wheel and touch over the timeline: turns them into windows, cursors and picks. */

import { inWindow } from "../../lib/picture/window"
import type { State, Store } from "../../store"
import { type Region, regionAt } from "../drawing/geometry"
import type { Grip } from "../drawing/minimap"
import { type Drag, listenGestures, panWith, pointOf } from "../shared/gestures"
import type { Pointing } from "./pointing"
import type { Tool, Tools } from "./tools"

type DragKind = Tool | "scrub" | "map-left" | "map-right" | "map"
type Clicked = Pick<State, "cursor" | "pinned" | "pinnedOom">

/** Returns the actions of keys that move and zoom. */
export function listen(element: HTMLElement, store: Store, pointing: Pointing, tools: Tools): Record<string, () => void> {
  /** What a pixel of the map is worth on the axis. */
  const perMapPx = () => (store.scale.whole[1] - store.scale.whole[0]) / pointing.geometry.plotWidth
  const shownAt = (x: number, y: number) => inWindow(pointing.geometry, store.state.window, { x, y })
  const scrubTo = (x: number) => store.set({ cursor: pointing.eventAt(x) })

  let kind: DragKind = "move"
  /** Whether a ruler measures between any two points, not along the curve. */
  let free = false
  /** What the last click found, and the one before it: a double click undoes both of its own. */
  let clicks: Clicked[] = []

  const moves = listenGestures(element, store, pointing, {
    press({ x, y }, event) {
      const g = pointing.geometry
      const region = regionAt(g, x, y)
      const grip = region === "map" ? pointing.gripAt(x) : null
      kind = kindOf(region, grip, event.shiftKey ? "box" : tools.tool)
      free = event.altKey
      if (kind === "scrub") scrubTo(x)
      if (grip === "outside") {
        const w = store.state.window
        const at = store.scale.whole[0] + (x - g.left) * perMapPx()
        store.set({ window: { ...w, x0: at - (w.x1 - w.x0) / 2, x1: at + (w.x1 - w.x0) / 2 } })
      }
    },
    follow,
    drop({ from, now, moved }, event) {
      tools.showBox(null)
      if (!moved) {
        const { cursor, pinned, pinnedOom } = store.state
        clicks = [...clicks.slice(-1), { cursor, pinned, pinnedOom }]
        if (event.type === "pointerup" && !/^(scrub|map)/.test(kind)) pointing.clickAt(from.x, from.y)
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
      case "ruler": {
        const [a, b] = [from, now].map((at) => (free ? shownAt(at.x, at.y) : tools.onCurve(pointing.eventAt(at.x))))
        return store.set({ ruler: { x0: a.x, y0: a.y, x1: b.x, y1: b.y } })
      }
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

function kindOf(region: Region, grip: Grip | null, tool: Tool): DragKind {
  if (grip) return grip === "left" ? "map-left" : grip === "right" ? "map-right" : "map"
  return region === "axis" ? "scrub" : tool
}
