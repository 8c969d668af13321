/** The timeline's keys: they work while it has the focus, and while nothing else that uses keys has it. */

import { keepSetting, keptSetting } from "./settings"

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

/** `signal` ends it. */
export function listenKeys(element: HTMLElement, keys: Record<string, () => void>, signal: AbortSignal): void {
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
