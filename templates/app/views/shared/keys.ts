/** The timeline's keys: they work while it has the focus, and while nothing else that uses keys has it; the page's own keys;
 * and parts of the page that are one stop of the Tab key. */

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

/** Keys that work wherever no text is typed; without the setting, in the timeline and the panels. */
export function listenPageKeys(keys: Record<string, () => void>): void {
  document.addEventListener("keydown", (event) => {
    const at = document.activeElement
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isField(at)) return
    if (document.querySelector("dialog[open]") || (!everywhere && !at?.closest(".plot, .panels"))) return
    const action = keys[event.key.toLowerCase()]
    if (!action) return
    action()
    event.preventDefault()
  })
}

const STOPS = "a[href], button, input, select, summary, [tabindex]"

/** Makes the controls in a box one stop of the Tab key: arrows, Home and End go from one to the next.
 *
 * `across`: left and right, for a row of controls of which some use up and down; else up and down. */
export function oneStop(box: HTMLElement, across = false): void {
  let stop: HTMLElement | null = null
  const controls = () => [...box.querySelectorAll<HTMLElement>(STOPS)].filter((each) => !each.matches(":disabled, .term"))
  const inSight = () => controls().filter((each) => each.checkVisibility())
  const settle = (at: HTMLElement | null) => {
    const all = controls()
    // Tab reaches only the checked one of several radio buttons, and which one that is may change meanwhile.
    const first = () => all.find((each) => !isRadio(each)) ?? all[0] ?? null
    stop = at ?? (stop?.isConnected && stop.checkVisibility() && !isRadio(stop) ? stop : first())
    for (const each of all) {
      const index = each === stop ? 0 : -1
      if (each.tabIndex !== index) each.tabIndex = index
    }
  }
  const [next, before] = across ? ["ArrowRight", "ArrowLeft"] : ["ArrowDown", "ArrowUp"]
  box.addEventListener("focusin", (event) => {
    const at = (event.target as Element).closest<HTMLElement>(STOPS)
    if (at && box.contains(at) && !at.matches(".term")) settle(at)
  })
  box.addEventListener("focusout", () => setTimeout(() => box.contains(document.activeElement) || settle(null)))
  box.addEventListener("toggle", () => settle(null), true)
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return
    const all = inSight()
    const at = all.indexOf(document.activeElement as HTMLElement)
    const to = { [next]: at + 1, [before]: at - 1, Home: 0, End: all.length - 1 }[event.key]
    if (to === undefined || at < 0) return
    event.preventDefault()
    event.stopPropagation()
    all[Math.min(Math.max(to, 0), all.length - 1)].focus()
  })
  // Controls that come later are no stops of their own.
  new MutationObserver(() => settle(null)).observe(box, { childList: true, subtree: true })
  settle(null)
}

/** Whether the focused element uses a key. A click leaves the focus on a button, or on `main`, which use none of ours. */
function isTaken(key: string): boolean {
  const at = document.activeElement
  if (!at || at === document.body || at.tagName === "MAIN") return SCROLLING.has(key)
  if (isField(at) || at.closest("[role=tree], [role=treegrid], [role=grid], [role=application], [role=slider]")) return true
  return key.startsWith("arrow") && (SCROLLING.has(key) || at.matches("input, [role=tab], [tabindex='0']"))
}

function isRadio(element: HTMLElement): boolean {
  return element instanceof HTMLInputElement && element.type === "radio"
}

function isField(element: Element | null): boolean {
  return element instanceof HTMLSelectElement || (element instanceof HTMLInputElement && !/^(checkbox|radio)$/.test(element.type))
}
