/** Pointer, wheel, touch and keys over the timeline: turns them into windows, cursors and picks. */

import type { State, Store } from "../../store"
import { clampWindow, panned, sameWindow, zoomed } from "../../lib/picture/window"
import { type Geometry, type Region, regionAt } from "../drawing/geometry"
import { type KeyTarget, listenKeys } from "../shared/keys"
import type { Grip } from "../drawing/minimap"
import type { Box } from "../drawing/scene"

/** What dragging the plot does. */
export type Tool = "move" | "box" | "ruler"

/** What the timeline does for its input; points are CSS pixels of the plot element. */
export interface InputTarget extends KeyTarget {
  geometry(): Geometry
  tool(): Tool
  gripAt(x: number): Grip
  hoverAt(x: number, y: number): void
  clickAt(x: number, y: number): void
  leave(): void
  showBox(box: Box | null): void
  /** Sets the cursor to the event drawn at a place. */
  scrubTo(x: number): void
}

type DragKind = Tool | "scrub" | "map-left" | "map-right" | "map"
type Point = { x: number; y: number }
type Clicked = Pick<State, "cursor" | "pinned" | "pinnedOom">
type Drag = { kind: DragKind; fromX: number; fromY: number; x: number; y: number; moved: boolean }

const CLICK_PX = 4

/** `signal` ends it. */
export function listen(element: HTMLElement, store: Store, target: InputTarget, signal: AbortSignal): void {
  const pointOf = (event: MouseEvent): Point => {
    const box = element.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const fraction = ({ x, y }: Point) => {
    const g = target.geometry()
    const clamp = (value: number) => Math.min(Math.max(value, 0), 1)
    return { x: clamp((x - g.left) / g.plotWidth), y: clamp(1 - (y - g.top) / g.plotHeight) }
  }
  const inWindow = (point: Point) => {
    const { x, y } = fraction(point)
    const w = store.state.window
    return { x: w.x0 + x * (w.x1 - w.x0), y: w.y0 + y * (w.y1 - w.y0) }
  }
  const zoom = (at: Point, factorX: number, factorY: number) =>
    store.set({ window: zoomed(store.state.window, at.x, at.y, factorX, factorY) })
  /** What a pixel of the map is worth on the axis. */
  const perMapPx = () => (store.scale.whole[1] - store.scale.whole[0]) / target.geometry().plotWidth

  let drag: Drag | null = null
  let pointer: Point | null = null
  /** What the last click found, and the one before it: a double click undoes both of its own. */
  let clicks: Clicked[] = []
  const touches = new Map<number, Point>()

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return
    const { x, y } = pointOf(event)
    touches.set(event.pointerId, { x, y })
    element.setPointerCapture(event.pointerId)
    if (touches.size > 1) {
      drag = null // two fingers zoom
      return
    }
    const region = regionAt(target.geometry(), x, y)
    const grip = region === "map" ? target.gripAt(x) : null
    drag = { kind: kindOf(region, grip, event.shiftKey ? "box" : target.tool()), fromX: x, fromY: y, x, y, moved: false }
    if (drag.kind === "scrub") target.scrubTo(x)
    if (grip === "outside") {
      const w = store.state.window
      const at = store.scale.whole[0] + (x - target.geometry().left) * perMapPx()
      store.set({ window: { ...w, x0: at - (w.x1 - w.x0) / 2, x1: at + (w.x1 - w.x0) / 2 } })
    }
  })

  element.addEventListener("pointermove", (event) => {
    const { x, y } = pointOf(event)
    pointer = event.pointerType === "mouse" ? { x, y } : null
    const before = touches.get(event.pointerId)
    if (before && touches.size === 2) return pinch(event.pointerId, before, { x, y })
    if (before) touches.set(event.pointerId, { x, y })
    if (!drag) return target.hoverAt(x, y)
    if (!drag.moved && Math.hypot(x - drag.fromX, y - drag.fromY) < CLICK_PX) return
    drag.moved = true
    follow(drag, x, y)
    drag.x = x
    drag.y = y
  })

  function follow(drag: Drag, x: number, y: number): void {
    const g = target.geometry()
    const w = store.state.window
    switch (drag.kind) {
      case "scrub":
        return target.scrubTo(x)
      case "map-left":
        return store.set({ window: { ...w, x0: Math.min(w.x0 + (x - drag.x) * perMapPx(), w.x1) } })
      case "map-right":
        return store.set({ window: { ...w, x1: Math.max(w.x1 + (x - drag.x) * perMapPx(), w.x0) } })
      case "map": {
        const by = (x - drag.x) * perMapPx()
        return store.set({ window: { ...w, x0: w.x0 + by, x1: w.x1 + by } })
      }
      case "box":
        return target.showBox({ x0: drag.fromX, y0: drag.fromY, x1: x, y1: y })
      case "ruler": {
        const [a, b] = [inWindow({ x: drag.fromX, y: drag.fromY }), inWindow({ x, y })]
        return store.set({ ruler: { x0: a.x, y0: a.y, x1: b.x, y1: b.y } })
      }
      case "move":
        element.classList.add("dragging")
        store.set({ window: panned(w, (drag.x - x) / g.plotWidth, (y - drag.y) / g.plotHeight) })
    }
  }

  /** Keeps under both fingers what was there, as far as one factor can. */
  function pinch(id: number, before: Point, now: Point): void {
    const [otherId] = [...touches.keys()].filter((each) => each !== id)
    const other = touches.get(otherId)!
    const far = (a: Point, b: Point) => Math.max(Math.hypot(a.x - b.x, a.y - b.y), 20)
    const factor = far(before, other) / far(now, other)
    touches.set(id, now)
    zoom(fraction(other), factor, factor)
  }

  const drop = (event: PointerEvent) => {
    touches.delete(event.pointerId)
    if (!drag) return
    const ended = drag
    drag = null
    element.classList.remove("dragging")
    target.showBox(null)
    if (!ended.moved) {
      const { cursor, pinned, pinnedOom } = store.state
      clicks = [...clicks.slice(-1), { cursor, pinned, pinnedOom }]
      if (event.type === "pointerup" && !/^(scrub|map)/.test(ended.kind)) target.clickAt(ended.x, ended.y)
    } else if (ended.kind === "box" && event.type === "pointerup") {
      const a = inWindow({ x: Math.min(ended.fromX, ended.x), y: Math.max(ended.fromY, ended.y) })
      const b = inWindow({ x: Math.max(ended.fromX, ended.x), y: Math.min(ended.fromY, ended.y) })
      store.set({ window: { x0: a.x, x1: b.x, y0: a.y, y1: b.y } })
    }
  }
  element.addEventListener("pointerup", drop)
  element.addEventListener("pointercancel", drop)
  element.addEventListener("pointerleave", () => {
    pointer = null
    target.leave()
  })
  element.addEventListener("dblclick", (event) => {
    const { x, y } = pointOf(event)
    if (regionAt(target.geometry(), x, y) === "axis") return // a scrub may begin with two quick clicks
    store.set({ window: store.whole, ...(clicks.length > 1 ? clicks[0] : {}) })
    clicks = []
  })

  element.addEventListener(
    "wheel",
    (event) => {
      const g = target.geometry()
      const { x, y } = pointOf(event)
      const unit = event.deltaMode === 1 ? 16 : 1
      const before = store.state.window
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        store.set({ window: panned(before, (event.deltaX * unit) / g.plotWidth, 0) })
      } else {
        const factor = Math.exp(Math.min(Math.max(event.deltaY * unit, -120), 120) * 0.0022)
        const overBytes = x < g.left || event.altKey
        const overEvents = y > g.top + g.plotHeight || event.shiftKey
        zoom(fraction({ x, y }), overBytes ? 1 : factor, overEvents ? 1 : factor)
      }
      // At the full view, zooming out scrolls the page on.
      if (!sameWindow(clampWindow(before, store.whole), store.state.window)) event.preventDefault()
    },
    { passive: false },
  )

  /** Keys zoom at the pointer, too; where there is none, at the middle. */
  const pointed = () => (pointer ? fraction(pointer) : { x: 0.5, y: 0.5 })
  listenKeys(element, store, target, pointed, signal)
}

function kindOf(region: Region, grip: Grip | null, tool: Tool): DragKind {
  if (grip) return grip === "left" ? "map-left" : grip === "right" ? "map-right" : "map"
  return region === "axis" ? "scrub" : tool
}
