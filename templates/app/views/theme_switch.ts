/** The switch between light and dark. */

import { chooseTheme, isDark, onTheme } from "../lib/theme"
import { h } from "./dom"

const KEY = "snapreport-theme"

/** The reader's choice is kept where the browser lets a file keep one. */
export function themeSwitch(): HTMLElement {
  try {
    const kept = localStorage.getItem(KEY)
    if (kept === "light" || kept === "dark") chooseTheme(kept)
  } catch {
    // no storage: the system's setting it is
  }
  const button = h("button", { type: "button", class: "theme", click: () => {
    const theme = isDark() ? "light" : "dark"
    chooseTheme(theme)
    try {
      localStorage.setItem(KEY, theme)
    } catch {
      // as above
    }
  } })
  const say = () => {
    button.textContent = isDark() ? "\u2600" : "\u263e"
    const label = isDark() ? "Light colours" : "Dark colours"
    button.title = label
    button.setAttribute("aria-label", label)
  }
  onTheme(say)
  say()
  return button
}
