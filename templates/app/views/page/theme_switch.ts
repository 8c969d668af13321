/** The switch between light and dark. */

import { chooseTheme, isDark, onTheme } from "../../lib/picture/theme"
import { h } from "../shared/dom"
import { keepSetting, keptSetting } from "../shared/settings"

const KEY = "snapreport-theme"

export function themeSwitch(): HTMLElement {
  const kept = keptSetting(KEY)
  if (kept === "light" || kept === "dark") chooseTheme(kept) // else the system's setting
  const button = h("button.theme", {
    type: "button",
    click: () => {
      const theme = isDark() ? "light" : "dark"
      chooseTheme(theme)
      keepSetting(KEY, theme)
    },
  })
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
