/** Pointer, wheel, touch and keys on the heat map, which become moves of its window and its cursor. */

import { panned, sameWindow, zoomed } from "../../lib/picture/window"
import type { HeatGeometry } from "../picture/heat_geometry"
import type { RunStore } from "../run_store"

/** What the heat map does for its input; points are CSS pixels of its element. */
export interface HeatTarget {
  geometry(): HeatGeometry
  hoverAt(x: number, y: number): void
  clickAt(x: number, y: number, keep: boolean): void
  leave(): void
  /** Moves the cursor by rows and by cells. */
  step(rows: number, cells: number): void
}

type Point = { x: number; y: number }

const CLICK_PX = 4
const PAN_STEP = 0.12
const ZOOM_STEP = 0.75

export function listenHeat(element: HTMLElement, store: RunStore, target: HeatTarget): void {
  const pointOf = (event: MouseEvent): Point => {
    const box = element.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const fraction = ({ x, y }: Point) => {
    const g = target.geometry()
    const clamp = (value: number) => Math.min(Math.max(value, 0), 1)
    return { x: clamp((x - g.left) / g.plotWidth), y: clamp(1 - (y - g.top) / g.plotHeight) }
  }
  const pan = (dx: number, dy: number) => store.set({ window: panned(store.state.window, dx, dy) })
  const zoom = (at: Point, factorX: number, factorY: number) =>
    store.set({ window: zoomed(store.state.window, at.x, at.y, factorX, factorY) })

  let drag: (Point & { fromX: number; fromY: number; moved: boolean }) | null = null
  let pointer: Point | null = null
  const touches = new Map<number, Point>()

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return
    const point = pointOf(event)
    touches.set(event.pointerId, point)
    element.setPointerCapture(event.pointerId)
    drag = touches.size > 1 ? null : { ...point, fromX: point.x, fromY: point.y, moved: false } // two fingers zoom
  })
  element.addEventListener("pointermove", (event) => {
    const now = pointOf(event)
    pointer = event.pointerType === "mouse" ? now : null
    const before = touches.get(event.pointerId)
    if (before) touches.set(event.pointerId, now)
    if (before && touches.size === 2) return pinch(event.pointerId, before, now)
    if (!drag) return target.hoverAt(now.x, now.y)
    if (!drag.moved && Math.hypot(now.x - drag.fromX, now.y - drag.fromY) < CLICK_PX) return
    drag.moved = true
    element.classList.add("dragging")
    target.leave()
    const g = target.geometry()
    pan((drag.x - now.x) / g.plotWidth, (now.y - drag.y) / g.plotHeight)
    drag.x = now.x
    drag.y = now.y
  })

  function pinch(id: number, before: Point, now: Point): void {
    const other = [...touches].find(([each]) => each !== id)![1]
    const far = (a: Point, b: Point) => Math.max(Math.hypot(a.x - b.x, a.y - b.y), 20)
    const factor = far(before, other) / far(now, other)
    zoom(fraction(other), factor, factor)
  }

  const drop = (event: PointerEvent) => {
    touches.delete(event.pointerId)
    element.classList.remove("dragging")
    if (drag && !drag.moved && event.type === "pointerup")
      target.clickAt(drag.fromX, drag.fromY, event.shiftKey || event.ctrlKey || event.metaKey)
    drag = null
  }
  element.addEventListener("pointerup", drop)
  element.addEventListener("pointercancel", drop)
  element.addEventListener("pointerleave", () => {
    pointer = null
    target.leave()
  })
  element.addEventListener("dblclick", () => store.set({ window: store.whole }))
  element.addEventListener(
    "wheel",
    (event) => {
      const g = target.geometry()
      const { x, y } = pointOf(event)
      const unit = event.deltaMode === 1 ? 16 : 1
      const before = store.state.window
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX * unit) / g.plotWidth, 0)
      else {
        const factor = Math.exp(Math.min(Math.max(event.deltaY * unit, -120), 120) * 0.0022)
        const overRows = x < g.left || event.altKey
        const overAxis = y > g.top + g.plotHeight || event.shiftKey
        zoom(fraction({ x, y }), overRows ? 1 : factor, overAxis ? 1 : factor)
      }
      target.hoverAt(x, y)
      // At the full view, zooming out scrolls the page on.
      if (!sameWindow(before, store.state.window)) event.preventDefault()
    },
    { passive: false },
  )

  const keys: Record<string, () => void> = {
    arrowleft: () => target.step(0, -1),
    arrowright: () => target.step(0, 1),
    arrowup: () => target.step(-1, 0),
    arrowdown: () => target.step(1, 0),
    pageup: () => target.step(-10, 0),
    pagedown: () => target.step(10, 0),
    a: () => pan(-PAN_STEP, 0),
    d: () => pan(PAN_STEP, 0),
    w: () => pan(0, PAN_STEP),
    s: () => pan(0, -PAN_STEP),
    "+": () => zoomAtPointer(ZOOM_STEP),
    "=": () => zoomAtPointer(ZOOM_STEP),
    "-": () => zoomAtPointer(1 / ZOOM_STEP),
    "0": () => store.set({ window: store.whole }),
    p: () => store.state.cursor && store.look(store.state.cursor.row),
    k: () => store.state.cursor && store.keep(store.state.cursor.row),
    escape: () => target.leave(),
  }
  const zoomAtPointer = (factor: number) => zoom(pointer ? fraction(pointer) : { x: 0.5, y: 0.5 }, factor, factor)
  element.addEventListener("keydown", (event) => {
    const act = keys[event.key.toLowerCase()]
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return
    act()
    event.preventDefault()
  })
}
