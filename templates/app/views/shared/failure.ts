/** Failures are shown: a part that could not be drawn says so in its place, and the rest of the page still works. */

import { button } from "./controls"
import { h } from "./dom"

const EVENT = "drawing-failed"
const MOST_CHARACTERS = 300

/** What went wrong, short enough to show. */
function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}\u2026` : text
}

/** Draws a part of the page; if that fails, the panel around `part` says so, or else the page does. */
export function guarded(part: Element, draw: () => void): void {
  try {
    draw()
  } catch (error) {
    console.error(error)
    if (part.dispatchEvent(new CustomEvent(EVENT, { bubbles: true, cancelable: true, detail: error }))) showFailure(error)
  }
}

/** `draw`, guarded, as a frame or an observer calls it. */
export function later(part: Element, draw: () => void): () => void {
  return () => guarded(part, draw)
}

/** Reports failures inside of `box`, under the name that `what` gives. */
export function onFailure(box: Element, what: () => string, tell: (note: HTMLElement) => void): void {
  box.addEventListener(EVENT, (event) => {
    event.preventDefault()
    event.stopPropagation()
    tell(
      h(
        "p",
        { class: "note failure", role: "alert" },
        `${what()} could not be drawn: ${messageOf((event as CustomEvent).detail)}. The rest of the page still works.`,
      ),
    )
  })
}

/** Shows a failure that no panel reports in a notice over the page; several failures share one notice. */
function showFailure(error: unknown): void {
  const box = document.querySelector<HTMLElement>(".failure-notice") ?? h("aside", { class: "failure-notice failure", role: "alert" })
  const count = Number(box.dataset.count ?? 0) + 1
  box.dataset.count = String(count)
  box.replaceChildren(
    h(
      "p",
      {},
      `Something on this page failed${count > 1 ? ` (${count} times)` : ""}: ${messageOf(error)}. What it shows may be out of date until it is reloaded.`,
    ),
    button("\u00d7", "Close this notice", () => box.remove()),
  )
  if (!box.isConnected) document.body.append(box)
}

/** Leaves the page as it is without its script, which can be read, and says what happened. */
export function cannotStart(error: unknown): void {
  document.documentElement.classList.remove("js", "starting")
  const text = `The interactive part of this page could not start (${error instanceof Error ? error.message : error}); the figures and tables are complete.`
  document.querySelector("main")!.prepend(h("p", { class: "note" }, text))
  console.error(error)
}

/** Shows every uncaught error from now on. */
export function showUncaught(): void {
  addEventListener("error", (event) => {
    // Browsers report this when observers of a frame continue in the next one: nothing failed.
    if (!event.message.startsWith("ResizeObserver loop")) showFailure(event.error ?? event.message)
  })
  addEventListener("unhandledrejection", (event) => showFailure(event.reason))
}
