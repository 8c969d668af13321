/** The timeline's keys: while it has the focus, and while nothing has that needs them itself. */

import { panned, zoomed } from "../../lib/picture/window"
import type { Store } from "../../store"
import { keepSetting, keptSetting } from "./settings"

/** What the timeline does for its keys. */
export interface KeyTarget {
  toggleBox(): void
  stepBy(events: number): void
  /** Sets the cursor to where the pinned allocation is born, or ends. */
  toEnd(which: "birth" | "death"): void
  showPeak(): void
  toggleRuler(): void
  escape(): void
  toggleHelp(): void
}

const PAN_STEP = 0.12
const ZOOM_STEP = 0.75
/** These scroll the page while the timeline has no focus. */
const SCROLLING = new Set(["arrowup", "arrowdown"])
const SETTING = "snapreport-keys"

/** Single keys without a focus hinder those who speak to their computer, so they can be turned off. */
let everywhere = keptSetting(SETTING) !== "focus"

export function keysEverywhere(): boolean {
  return everywhere
}

export function setKeysEverywhere(on: boolean): void {
  everywhere = on
  keepSetting(SETTING, on ? "everywhere" : "focus")
}

/** `pointed`: where keys zoom, in parts of the window. `signal` ends it. */
export function listenKeys(
  element: HTMLElement,
  store: Store,
  target: KeyTarget,
  pointed: () => { x: number; y: number },
  signal: AbortSignal,
): void {
  const pan = (dx: number, dy: number) => () => store.set({ window: panned(store.state.window, dx * PAN_STEP, dy * PAN_STEP) })
  const zoom = (factor: number) => () => {
    const { x, y } = pointed()
    store.set({ window: zoomed(store.state.window, x, y, factor, factor) })
  }
  const [left, right, up, down, closer] = [pan(-1, 0), pan(1, 0), pan(0, 1), pan(0, -1), zoom(ZOOM_STEP)]
  const keys: Record<string, () => void> = {
    a: left,
    d: right,
    w: up,
    s: down,
    arrowleft: left,
    arrowright: right,
    arrowup: up,
    arrowdown: down,
    "+": closer,
    "=": closer,
    "-": zoom(1 / ZOOM_STEP),
    "0": () => store.set({ window: store.whole }),
    "[": () => target.stepBy(-1),
    "]": () => target.stepBy(1),
    "{": () => target.toEnd("birth"),
    "}": () => target.toEnd("death"),
    p: () => target.showPeak(),
    b: () => target.toggleBox(),
    r: () => target.toggleRuler(),
    escape: () => target.escape(),
    "?": () => target.toggleHelp(),
  }
  const act = (event: KeyboardEvent) => {
    const action = keys[event.key.toLowerCase()]
    if (!action || event.ctrlKey || event.metaKey || (event.altKey && !/[[\]{}?+-]/.test(event.key))) return
    action()
    event.preventDefault()
  }
  element.addEventListener("keydown", act, { signal })
  document.addEventListener(
    "keydown",
    (event) => {
      if (!everywhere || event.defaultPrevented || document.querySelector("dialog[open]")) return
      // The list of keys is for the panels, too.
      if (event.key === "?" ? !isField(document.activeElement) : !isTaken(event.key.toLowerCase())) act(event)
    },
    { signal },
  )
}

/** Whether a key means something where the focus is. A click leaves it on a button, or on `main`, which take none of ours. */
function isTaken(key: string): boolean {
  const at = document.activeElement
  if (!at || at === document.body || at.tagName === "MAIN") return SCROLLING.has(key)
  if (isField(at) || at.closest("[role=tree], [role=treegrid], [role=grid], [role=application], [role=slider]")) return true
  return key.startsWith("arrow") && (SCROLLING.has(key) || at.matches("input, [role=tab], [tabindex='0']"))
}

function isField(element: Element | null): boolean {
  return element instanceof HTMLSelectElement || (element instanceof HTMLInputElement && !/^(checkbox|radio)$/.test(element.type))
}
