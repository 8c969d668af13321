/** The colours of the drawn parts, read from the style sheet so that they are defined once. */

import { parse } from "./colours"

const systemDark = () => matchMedia("(prefers-color-scheme: dark)")
const listeners = new Set<() => void>()

/** Whether the page is dark: by its own switch, else by the system's setting. */
export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme
  return chosen ? chosen === "dark" : systemDark().matches
}

/** Sets the page's own switch. */
export function chooseTheme(theme: "light" | "dark"): void {
  document.documentElement.dataset.theme = theme
  for (const listener of listeners) listener()
}

/** Does something while the page is light, as paper is; nobody sees it. */
export function inLight<T>(act: () => T): T {
  const { dataset } = document.documentElement
  const chosen = dataset.theme
  dataset.theme = "light"
  try {
    return act()
  } finally {
    if (chosen) dataset.theme = chosen
    else delete dataset.theme
  }
}

/** Calls back whenever the page turns light or dark, until `signal` ends it. */
export function onTheme(listener: () => void, signal?: AbortSignal): void {
  systemDark().addEventListener("change", listener, { signal })
  listeners.add(listener)
  signal?.addEventListener("abort", () => listeners.delete(listener))
}

/** Returns a function that reads a custom property of an element. */
export function styleOf(element: Element): (name: string) => string {
  const style = getComputedStyle(element)
  return (name) => style.getPropertyValue(`--${name}`).trim()
}

export type Theme = ReturnType<typeof readTheme>

export function readTheme(element: Element) {
  const value = styleOf(element)
  return {
    dark: isDark(),
    text: value("text"),
    muted: value("muted"),
    grid: value("grid"),
    surface: value("surface"),
    accent: value("accent"),
    reserved: value("reserved"),
    other: value("other-curve"),
    replay: value("replay-curve"),
    pool: value("pool-curve"),
    danger: value("danger"),
    caution: value("slack-part"),
    meter: value("meter"),
    band: ["band-a", "band-b", "band-c"].map(value),
    font: getComputedStyle(element).fontFamily,
    /** The plot's background, and that of the page around it, as RGB bytes. */
    background: parse(value("plot")),
    page: parse(value("page")),
  }
}
