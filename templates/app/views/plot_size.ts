/** How large the timeline's plot will be, known before there is a timeline. */

import { h } from "./dom"

/** The plot's size in device pixels, or null where the page has no place for one. */
export function plotSize(): { width: number; height: number } | null {
  const slot = document.querySelector(".stage-slot")
  if (!slot) return null
  const plot = h("div", { class: "plot" })
  const probe = h("div", { class: "live" }, h("div", { class: "panes" }, plot, h("aside", { class: "side" })))
  slot.append(probe)
  const size = sizePx(plot, devicePixelRatio || 1)
  probe.remove()
  return size
}

/** An element's size in whole device pixels; null where it is not laid out. */
export function sizePx(element: HTMLElement, ratio: number): { width: number; height: number } | null {
  const { width, height } = element.getBoundingClientRect()
  return width < 1 || height < 1 ? null : { width: Math.round(width * ratio), height: Math.round(height * ratio) }
}
