/** Pointer, wheel, touch and keys on the heat map, which become moves of its window and its cursor. */

import { listenGestures, panWith, type PointerTarget } from "../../views/shared/gestures"
import type { RunStore } from "../run_store"

/** What the heat map does for its input; points are CSS pixels of its element. */
interface HeatTarget extends PointerTarget {
  clickAt(x: number, y: number, keep: boolean): void
  /** Moves the cursor by rows and by cells. */
  step(rows: number, cells: number): void
}

export function listenHeat(element: HTMLElement, store: RunStore, target: HeatTarget): void {
  const moves = listenGestures(element, store, target, {
    follow(drag) {
      target.leave()
      panWith(element, store, target.geometry, drag)
    },
    drop({ from, moved }, { type, shiftKey, ctrlKey, metaKey }) {
      if (!moved && type === "pointerup") target.clickAt(from.x, from.y, shiftKey || ctrlKey || metaKey)
    },
    wheeled: ({ x, y }) => target.hoverAt(x, y),
  })
  element.addEventListener("dblclick", () => store.set({ window: store.whole }))
  const keys: Record<string, () => void> = {
    ...moves,
    arrowleft: () => target.step(0, -1),
    arrowright: () => target.step(0, 1),
    arrowup: () => target.step(-1, 0),
    arrowdown: () => target.step(1, 0),
    pageup: () => target.step(-10, 0),
    pagedown: () => target.step(10, 0),
    p: () => store.state.cursor && store.look(store.state.cursor.row),
    k: () => store.state.cursor && store.keep(store.state.cursor.row),
    escape: () => target.leave(),
  }
  element.addEventListener("keydown", (event) => {
    const act = keys[event.key.toLowerCase()]
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return
    act()
    event.preventDefault()
  })
}
