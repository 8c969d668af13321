/** The colours of the drawn parts, read from the style sheet so that they are said once. */

export interface Theme {
  dark: boolean
  text: string
  muted: string
  grid: string
  surface: string
  accent: string
  reserved: string
  other: string
  danger: string
  band: string[]
  font: string
  /** The plot's background as RGB bytes. */
  background: [number, number, number]
}

export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element)
  const value = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const hex = value("plot")
  return {
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    text: value("text"),
    muted: value("muted"),
    grid: value("grid"),
    surface: value("surface"),
    accent: value("accent"),
    reserved: value("reserved"),
    other: value("other-curve"),
    danger: value("danger"),
    band: ["band-a", "band-b", "band-c"].map(value),
    font: style.fontFamily,
    background: [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as [number, number, number],
  }
}
