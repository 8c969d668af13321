/** Making elements: strangers' text only ever becomes text nodes and attribute values. */

type Child = Node | string | null | false | undefined
export type Attributes = Record<string, string | number | boolean | ((event: never) => void) | null | undefined>

type Tags = HTMLElementTagNameMap
type Made<S extends string> = S extends `${infer T extends keyof Tags}.${string}` ? Tags[T] : S extends keyof Tags ? Tags[S] : never

/** `h("td.num", { title: "12 bytes" }, "12")`: a tag with its classes, attributes if it has any, and children. A function is a
 * listener, `true` an empty attribute. */
export function h<S extends string>(selector: S, ...more: [Attributes, ...Child[]] | Child[]): Made<S> {
  const [tag, ...classes] = selector.split(".")
  const element = document.createElement(tag)
  if (classes.length) element.className = classes.join(" ")
  for (const part of more) {
    if (!part) continue
    if (part instanceof Node || typeof part === "string") element.append(part)
    else for (const [name, value] of Object.entries(part)) setAttribute(element, name, value)
  }
  return element as Made<S>
}

function setAttribute(element: HTMLElement, name: string, value: Attributes[string]): void {
  if (typeof value === "function") element.addEventListener(name, value as EventListener)
  else if (value === true) element.setAttribute(name, "")
  else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value))
}

/**
 * Makes `children` the children of `parent`; what is there already and is the same stays, at every depth. An element that
 * is replaced between press and release gets no click. One that stays keeps its old listeners: they must read what they
 * need when they are called, or depend only on what its attributes show.
 */
export function setChildren(parent: Element, children: readonly Node[]): void {
  const before = [...parent.childNodes]
  children.forEach((child, k) => {
    const old = before[k]
    if (!old) parent.append(child)
    else if (old.isEqualNode(child)) return
    else if (old instanceof Element && child instanceof Element && sameTag(old, child)) setChildren(old, [...child.childNodes])
    else {
      const focused = old === document.activeElement
      old.replaceWith(child)
      if (focused && child instanceof HTMLElement) child.focus({ preventScroll: true })
    }
  })
  before.slice(children.length).forEach((old) => old.remove())
}

function sameTag(one: Element, other: Element): boolean {
  const [these, those] = [one.attributes, other.attributes]
  return (
    one.nodeName === other.nodeName &&
    these.length === those.length &&
    [...those].every(({ name, value }) => one.getAttribute(name) === value)
  )
}

/** A text in which what stands between backticks is code. */
export function coded(text: string): (Node | string)[] {
  const parts = text.split("`")
  if (parts.length % 2 === 0) parts.push(parts.splice(-2).join("`")) // a backtick without a partner is part of the text
  return parts.map((part, k) => (k % 2 ? h("code", part) : part))
}

/** The text of an element of the page, by its id. */
export function textOf(id: string): string {
  return document.getElementById(id)!.textContent!
}

/** A bar that fills a share of its cell. */
export function meter(part: number, whole: number): HTMLElement {
  const fill = h("i")
  fill.style.width = `${whole > 0 ? ((100 * part) / whole).toFixed(2) : 0}%`
  return h("span.meter", { "aria-hidden": "true" }, fill)
}

/** A label, its value, and the value's exact form. */
export type Fact = [label: string, text: string, exact?: string]

export function factsList(facts: Fact[]): HTMLElement {
  return h("dl.facts-list", ...facts.map(([label, text, exact]) => h("div", h("dt", label), h("dd", { title: exact }, text))))
}

/** A call site's colour. */
export function swatch(colour: string): HTMLElement {
  const element = h("i.swatch", { "aria-hidden": "true" })
  element.style.background = colour
  return element
}

/** A C++ name that may break after `::`, and nowhere else if it fits. */
export function nameText(name: string): DocumentFragment {
  return breakable(name, /(?<=::)/)
}

/** A path that may break after its separators, and nowhere else if it fits. */
export function pathText(path: string): DocumentFragment {
  return breakable(path, /(?<=[\\/])/)
}

const MOST_BREAKABLE = 4000

function breakable(text: string, after: RegExp): DocumentFragment {
  const parts = document.createDocumentFragment()
  if (text.length > MOST_BREAKABLE) parts.append(text) // a name of separators would be as many elements
  else for (const part of text.split(after)) parts.append(part, h("wbr"))
  return parts
}

/** How long a browser may take to tell that something is on the screen, before it is taken for granted. */
const UNTOLD_MS = 250

/** The attribute of a text whose first frame `onScreen` waits for. */
export const TELLS = { elementtiming: "shown" }

/** Resolves when a frame with a text that tells is on the screen; where that cannot be known, when it was drawn.
 *
 * What a page does before that takes the processor from those that raster the frame. */
export function onScreen(): Promise<void> {
  return new Promise((done) => {
    if (!PerformanceObserver.supportedEntryTypes.includes("element")) return void requestAnimationFrame(() => setTimeout(done))
    const observer = new PerformanceObserver(() => finish())
    const finish = () => (observer.disconnect(), done())
    observer.observe({ type: "element" })
    setTimeout(finish, UNTOLD_MS)
  })
}

/** The text of live.css, put in its place by build.mjs. */
declare const LIVE_STYLE: string

/** Styles what the script makes; what the page is without it is styled by the page. */
export function addLiveStyle(): void {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(LIVE_STYLE)
  document.adoptedStyleSheets = [sheet]
}
