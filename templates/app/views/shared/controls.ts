/** Buttons, and choices of one option. */

import type { Observed } from "../../lib/data/observed"
import { type Attributes, h } from "./dom"

/** `title` names the button where its label is a sign. */
export function button(label: string, title: string | null, click: () => void, more: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", title, "aria-label": /\w/.test(label) ? null : title, ...more, click }, label)
}

/** A button that reads as a link. */
export function linkButton(label: string, click: () => void, more: Attributes = {}): HTMLButtonElement {
  return button(label, null, click, { class: "link", ...more })
}

/** An option; `why` returns why it cannot be chosen now, or nothing. */
export type Option<T extends string> = [value: T, label: string, title?: string, why?: () => string]

let made = 0

/** A row of options of which one is chosen; `say` marks the current one. */
export function segmented<T extends string>(
  legend: string,
  options: Option<T>[],
  now: () => T,
  choose: (value: T) => void,
): { element: HTMLElement; say: () => void } {
  const name = `choice-${made++}`
  const inputs = options.map(([value]) => h("input", { type: "radio", name, value, change: () => choose(value) }))
  const labels = options.map(([, label], k) => h("label", inputs[k], h("span", label)))
  const say = () =>
    options.forEach(([value, , title = "", why], k) => {
      const reason = why?.() ?? ""
      inputs[k].checked = now() === value
      inputs[k].disabled = reason !== ""
      labels[k].className = reason ? "off" : ""
      labels[k].title = reason || title
    })
  say()
  return { element: h("fieldset.segmented", { "aria-label": legend }, ...labels), say }
}

/** A row of options for one part of a state; `on`: the parts that decide which one is chosen, and which can be. */
export function choiceOf<S, K extends keyof S>(
  store: Observed<S> & { set(change: Partial<S>): void },
  part: K,
  legend: string,
  options: Option<S[K] & string>[],
  signal?: AbortSignal,
  on: (keyof S)[] = [part],
): HTMLElement {
  const choose = (value: S[K]) => store.set({ [part]: value } as unknown as Partial<S>)
  const { element, say } = segmented(legend, options, () => store.state[part] as S[K] & string, choose)
  store.watch(on, say, signal)
  return element
}

/** A list to choose from, by name. */
export function selection<T extends string>(
  label: string,
  options: readonly [value: T, text: string, more?: Attributes][],
  choose: (value: T) => void,
): HTMLSelectElement {
  const select: HTMLSelectElement = h(
    "select",
    { "aria-label": label, change: () => choose(select.value as T) },
    ...options.map(([value, text, more]) => h("option", { value, ...more }, text)),
  )
  return select
}

/** A search field, without spelling checks: what is typed is not prose. */
export function searchField(label: string, typed: (text: string) => void, more: Attributes = {}): HTMLInputElement {
  const input: HTMLInputElement = h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    spellcheck: "false",
    ...more,
    input: () => typed(input.value),
  })
  return input
}
