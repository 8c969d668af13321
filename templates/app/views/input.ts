/** Pointer, wheel and keys over the timeline: turns them into windows and picks. */

import type { Store } from "../store"
import { panned, sameWindow, zoomed, clampWindow } from "../lib/window"
import type { Geometry } from "./geometry"
import type { Box } from "./overlay"

/** What the timeline does for its input; points are CSS pixels of the plot element. */
export interface InputTarget {
  geometry(): Geometry
  hoverAt(x: number, y: number): void
  clickAt(x: number, y: number): void
  leave(): void
  showBox(box: Box | null): void
  showPeak(): void
  toggleHelp(): void
}

const CLICK_PX = 4
const PAN_STEP = 0.12
const ZOOM_STEP = 0.75

export function listen(element: HTMLElement, store: Store, target: InputTarget): void {
  const point = (event: MouseEvent) => {
    const box = element.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const fraction = ({ x, y }: { x: number; y: number }) => {
    const g = target.geometry()
    const clamp = (value: number) => Math.min(Math.max(value, 0), 1)
    return { x: clamp((x - g.left) / g.plotWidth), y: clamp(1 - (y - g.top) / g.plotHeight) }
  }
  const zoom = (at: { x: number; y: number }, factorX: number, factorY: number) =>
    store.set({ window: zoomed(store.state.window, at.x, at.y, factorX, factorY) })
  const reset = () => store.set({ window: store.whole })

  let drag: { x: number; y: number; fromX: number; fromY: number; box: boolean; moved: boolean } | null = null

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return
    const { x, y } = point(event)
    drag = { x, y, fromX: x, fromY: y, box: event.shiftKey, moved: false }
    element.setPointerCapture(event.pointerId)
  })
  element.addEventListener("pointermove", (event) => {
    const { x, y } = point(event)
    if (!drag) return target.hoverAt(x, y)
    if (!drag.moved && Math.hypot(x - drag.fromX, y - drag.fromY) < CLICK_PX) return
    drag.moved = true
    if (drag.box) target.showBox({ x0: drag.fromX, y0: drag.fromY, x1: x, y1: y })
    else {
      const g = target.geometry()
      element.classList.add("dragging")
      store.set({ window: panned(store.state.window, (drag.x - x) / g.plotWidth, (y - drag.y) / g.plotHeight) })
    }
    drag.x = x
    drag.y = y
  })
  const drop = (event: PointerEvent) => {
    if (!drag) return
    const ended = drag
    drag = null
    element.classList.remove("dragging")
    target.showBox(null)
    if (!ended.moved) {
      if (event.type === "pointerup") target.clickAt(ended.x, ended.y)
    } else if (ended.box) {
      const a = fraction({ x: Math.min(ended.fromX, ended.x), y: Math.max(ended.fromY, ended.y) })
      const b = fraction({ x: Math.max(ended.fromX, ended.x), y: Math.min(ended.fromY, ended.y) })
      const w = store.state.window
      const [spanX, spanY] = [w.x1 - w.x0, w.y1 - w.y0]
      store.set({ window: { x0: w.x0 + a.x * spanX, x1: w.x0 + b.x * spanX, y0: w.y0 + a.y * spanY, y1: w.y0 + b.y * spanY } })
    }
  }
  element.addEventListener("pointerup", drop)
  element.addEventListener("pointercancel", drop)
  element.addEventListener("pointerleave", () => target.leave())
  element.addEventListener("dblclick", reset)

  element.addEventListener("wheel", (event) => {
    const g = target.geometry()
    const { x, y } = point(event)
    const unit = event.deltaMode === 1 ? 16 : 1
    const before = store.state.window
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      store.set({ window: panned(before, (event.deltaX * unit) / g.plotWidth, 0) })
    } else {
      const factor = Math.exp(Math.min(Math.max(event.deltaY * unit, -120), 120) * 0.0022)
      const overBytes = x < g.left || event.altKey
      const overSteps = y > g.top + g.plotHeight || event.shiftKey
      zoom(fraction({ x, y }), overBytes ? 1 : factor, overSteps ? 1 : factor)
    }
    // At the full view, zooming out scrolls the page on.
    if (!sameWindow(clampWindow(before, store.whole), store.state.window)) event.preventDefault()
  }, { passive: false })

  const middle = { x: 0.5, y: 0.5 }
  const keys: Record<string, () => void> = {
    a: () => store.set({ window: panned(store.state.window, -PAN_STEP, 0) }),
    d: () => store.set({ window: panned(store.state.window, PAN_STEP, 0) }),
    w: () => store.set({ window: panned(store.state.window, 0, PAN_STEP) }),
    s: () => store.set({ window: panned(store.state.window, 0, -PAN_STEP) }),
    "+": () => zoom(middle, ZOOM_STEP, ZOOM_STEP),
    "-": () => zoom(middle, 1 / ZOOM_STEP, 1 / ZOOM_STEP),
    "0": reset,
    p: () => target.showPeak(),
    escape: () => store.set({ pinned: -1, pinnedOom: -1, chosenGroup: -1, hovered: -1, hoveredGroup: -1 }),
    "?": () => target.toggleHelp(),
  }
  Object.assign(keys, { arrowleft: keys.a, arrowright: keys.d, arrowup: keys.w, arrowdown: keys.s, "=": keys["+"] })
  element.addEventListener("keydown", (event) => {
    const action = keys[event.key.toLowerCase()]
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return
    action()
    event.preventDefault()
  })
}
