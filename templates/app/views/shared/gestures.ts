/** Pointer, wheel, touch and keys on a drawing that shows a window of something larger. */

import { fraction, panned, type Plot, type Point, sameWindow, type Window, zoomed } from "../../lib/picture/window"
import { button } from "./controls"

/** Whose window it is. */
export interface Windowed {
  readonly state: { readonly window: Window }
  readonly whole: Window
  set(change: { window: Window }): void
}

/** A pointer held down: where it was pressed, where it was before, and where it is. */
export interface Drag {
  from: Point
  before: Point
  now: Point
  /** Whether it moved too far to be a click. */
  moved: boolean
}

/** What a drawing does under the pointer; points are CSS pixels of its element. */
export interface PointerTarget {
  readonly geometry: Plot
  hoverAt(x: number, y: number): void
  leave(): void
}

/** What a drawing does on gestures. */
export interface GestureTarget {
  press?(at: Point, event: PointerEvent): void
  follow(drag: Drag): void
  /** The pointer was let go, or taken away (`pointercancel`). */
  drop(drag: Drag, event: PointerEvent): void
  wheeled?(at: Point): void
}

const CLICK_PX = 4
const PAN_STEP = 0.12
const ZOOM_STEP = 0.75
const BUTTON_STEP = 0.7

/** The place of an event. */
export function pointOf(element: Element, event: MouseEvent): Point {
  const box = element.getBoundingClientRect()
  return { x: event.clientX - box.left, y: event.clientY - box.top }
}

/** Moves what is shown with the pointer. */
export function panWith(element: Element, store: Windowed, g: Plot, { before, now }: Drag): void {
  element.classList.add("dragging")
  store.set({ window: panned(store.state.window, (before.x - now.x) / g.plotWidth, (now.y - before.y) / g.plotHeight) })
}

/** Buttons that zoom, and that show everything. */
export function zoomButtons(store: Windowed): HTMLElement[] {
  const zoom = (factor: number) => () => store.set({ window: zoomed(store.state.window, 0.5, 0.5, factor, factor) })
  return [
    button("\u2212", "Zoom out (\u2212)", zoom(1 / BUTTON_STEP)),
    button("+", "Zoom in (+)", zoom(BUTTON_STEP)),
    button("Reset zoom", "Show everything (0)", () => store.set({ window: store.whole })),
  ]
}

/** Listens to gestures; returns the actions of keys that move and zoom, at the pointer or else at the middle. */
export function listenGestures(
  element: HTMLElement,
  store: Windowed,
  pointing: PointerTarget,
  target: GestureTarget,
): Record<string, () => void> {
  const pan = (dx: number, dy: number) => store.set({ window: panned(store.state.window, dx, dy) })
  const zoom = (at: Point, factorX: number, factorY: number) =>
    store.set({ window: zoomed(store.state.window, at.x, at.y, factorX, factorY) })

  let drag: Drag | null = null
  let pointer: Point | null = null
  const touches = new Map<number, Point>()

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return
    const now = pointOf(element, event)
    touches.set(event.pointerId, now)
    element.setPointerCapture(event.pointerId)
    drag = touches.size > 1 ? null : { from: now, before: now, now, moved: false } // two fingers zoom
    if (drag) target.press?.(now, event)
  })

  element.addEventListener("pointermove", (event) => {
    const now = pointOf(element, event)
    pointer = event.pointerType === "mouse" ? now : null
    const before = touches.get(event.pointerId)
    if (before) touches.set(event.pointerId, now)
    if (before && touches.size === 2) return pinch(event.pointerId, before, now)
    if (!drag) return pointing.hoverAt(now.x, now.y)
    if (!drag.moved && Math.hypot(now.x - drag.from.x, now.y - drag.from.y) < CLICK_PX) return
    drag = { from: drag.from, before: drag.now, now, moved: true }
    target.follow(drag)
  })

  /** Keeps under both fingers what was there, as far as one factor can. */
  function pinch(id: number, before: Point, now: Point): void {
    const other = [...touches].find(([each]) => each !== id)![1]
    const far = (a: Point, b: Point) => Math.max(Math.hypot(a.x - b.x, a.y - b.y), 20)
    const factor = far(before, other) / far(now, other)
    zoom(fraction(pointing.geometry, other), factor, factor)
  }

  const drop = (event: PointerEvent) => {
    touches.delete(event.pointerId)
    element.classList.remove("dragging")
    const ended = drag
    drag = null
    if (ended) target.drop(ended, event)
  }
  element.addEventListener("pointerup", drop)
  element.addEventListener("pointercancel", drop)
  element.addEventListener("pointerleave", () => {
    pointer = null
    pointing.leave()
  })

  element.addEventListener(
    "wheel",
    (event) => {
      const g = pointing.geometry
      const at = pointOf(element, event)
      const unit = event.deltaMode === 1 ? 16 : 1
      const before = store.state.window
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX * unit) / g.plotWidth, 0)
      else {
        const factor = Math.exp(Math.min(Math.max(event.deltaY * unit, -120), 120) * 0.0022)
        const overY = at.x < g.left || event.altKey
        const overX = at.y > g.top + g.plotHeight || event.shiftKey
        zoom(fraction(g, at), overY ? 1 : factor, overX ? 1 : factor)
      }
      target.wheeled?.(at)
      // At the full view, zooming out scrolls the page on.
      if (!sameWindow(before, store.state.window)) event.preventDefault()
    },
    { passive: false },
  )

  const panBy = (dx: number, dy: number) => () => pan(dx * PAN_STEP, dy * PAN_STEP)
  const zoomBy = (factor: number) => () => zoom(pointer ? fraction(pointing.geometry, pointer) : { x: 0.5, y: 0.5 }, factor, factor)
  return {
    a: panBy(-1, 0),
    d: panBy(1, 0),
    w: panBy(0, 1),
    s: panBy(0, -1),
    "+": zoomBy(ZOOM_STEP),
    "=": zoomBy(ZOOM_STEP),
    "-": zoomBy(1 / ZOOM_STEP),
    "0": () => store.set({ window: store.whole }),
  }
}
