/** The timeline's keys: they work while it has the focus, and while nothing else that uses keys has it. */

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

/** These scroll the page while the timeline has no focus. */
const SCROLLING = new Set(["arrowup", "arrowdown"])
const SETTING = "snapreport-keys"

/** Single keys without focus get in the way of speech input, so they can be turned off. */
let everywhere = keptSetting(SETTING) !== "focus"

export function keysEverywhere(): boolean {
  return everywhere
}

export function setKeysEverywhere(on: boolean): void {
  everywhere = on
  keepSetting(SETTING, on ? "everywhere" : "focus")
}

/** `moves`: the keys that move and zoom. `signal` ends it. */
export function listenKeys(element: HTMLElement, moves: Record<string, () => void>, target: KeyTarget, signal: AbortSignal): void {
  const { a, d, w, s } = moves
  const keys: Record<string, () => void> = {
    ...moves,
    arrowleft: a,
    arrowright: d,
    arrowup: w,
    arrowdown: s,
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

/** Whether the focused element uses a key. A click leaves the focus on a button, or on `main`, which use none of ours. */
function isTaken(key: string): boolean {
  const at = document.activeElement
  if (!at || at === document.body || at.tagName === "MAIN") return SCROLLING.has(key)
  if (isField(at) || at.closest("[role=tree], [role=treegrid], [role=grid], [role=application], [role=slider]")) return true
  return key.startsWith("arrow") && (SCROLLING.has(key) || at.matches("input, [role=tab], [tabindex='0']"))
}

function isField(element: Element | null): boolean {
  return element instanceof HTMLSelectElement || (element instanceof HTMLInputElement && !/^(checkbox|radio)$/.test(element.type))
}
