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

/** A function that has something drawn in the next frame, guarded: once, however often it is called before that. */
export function inNextFrame(part: { readonly element: Element }, draw: () => void): () => void {
  let frame = 0
  const drawNow = () => {
    frame = 0
    guarded(part.element, draw)
  }
  return () => void (frame ||= requestAnimationFrame(drawNow))
}

/** A function that has something done once it has not been called for some time. */
export function atRest(ms: number, act: () => void): () => void {
  let timer = 0
  return () => {
    clearTimeout(timer)
    timer = window.setTimeout(act, ms)
  }
}

/** Reports failures inside of `box`, of what is called `what`: by `tell`, or as all that is in an element. */
export function onFailure(box: Element, what: string | (() => string), tell: Element | ((note: HTMLElement) => void)): void {
  box.addEventListener(EVENT, (event) => {
    event.preventDefault()
    event.stopPropagation()
    const name = typeof what === "string" ? what : what()
    const text = `${name} could not be drawn: ${messageOf((event as CustomEvent).detail)}. The rest of the page still works.`
    const note = h("p.note.failure", { role: "alert" }, text)
    if (tell instanceof Element) tell.replaceChildren(note)
    else tell(note)
  })
}

/** Shows a failure that no panel reports in a notice over the page; several failures share one notice. */
function showFailure(error: unknown): void {
  const box = document.querySelector<HTMLElement>(".failure-notice") ?? h("aside.failure-notice.failure", { role: "alert" })
  const count = Number(box.dataset.count ?? 0) + 1
  box.dataset.count = String(count)
  box.replaceChildren(
    h(
      "p",
      `Something on this page failed${count > 1 ? ` (${count} times)` : ""}: ${messageOf(error)}. What it shows may be out of date until it is reloaded.`,
    ),
    button("\u00d7", "Close this notice", () => box.remove()),
  )
  if (!box.isConnected) document.body.append(box)
}

/** Leaves the page as it is without its script, which can be read, and says what happened. */
export function cannotStart(error: unknown): void {
  document.documentElement.classList.remove("js", "starting")
  const text = `The interactive part of this page could not start (${error instanceof Error ? error.message : error}). What follows does without it.`
  document.querySelector("main")!.prepend(h("p.note", text))
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
