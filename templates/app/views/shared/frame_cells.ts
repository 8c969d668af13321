/** Frames and shares in rows: the function, its place, and heat from blue to red. */

import { formatAmount, formatExact, formatShare } from "../../lib/text/format"
import { frameKind, type Line, frameText, treeText } from "../../lib/data/frames"
import type { History } from "../../lib/data/history"
import { h, meter } from "./dom"

/** `layer model.py:10`, with the full name and path on hover; `label` where there is no frame. */
export function frameCell(history: History, frame: number, label: string): HTMLElement {
  if (frame < 0) return h("span.frame", h("code.none", label))
  const { name, place, code } = treeText(history.stacks, frame)
  return h(
    "span.frame",
    { title: frameTitle(history, frame) },
    h("code", { class: frameKind(history.stacks, frame) }, name),
    place && h("span.place", ` ${place}`),
    code && h("span.code", ` ${code}`),
  )
}

/** The full name, and below it the full path and the text of the line. */
export function frameTitle(history: History, frame: number): string {
  const { fullName, path, code } = frameText(history.stacks, frame)
  return [fullName, path, code].filter(Boolean).join("\n")
}

/** What a selection of a frame is called. */
export function frameLabel(history: History, frame: number, label: string): string {
  if (frame < 0) return label
  const { name, place } = treeText(history.stacks, frame)
  return place ? `${name} ${place}` : name
}

/** A bar as long as its share, and as hot; `change`: see `tint`. */
export function heatMeter(part: number, whole: number, change?: number): HTMLElement {
  const bar = meter(part, whole)
  tint(bar.firstElementChild as HTMLElement, part, whole, change).classList.add("hot")
  return bar
}

/** Colours an element by its share; where there is a change, by how much of what moved grew (red) or shrank (blue). By the root of
 * the share, as most shares are small; the style sheet mixes the colour. */
export function tint<T extends HTMLElement>(element: T, moved: number, whole: number, change?: number): T {
  if (change !== undefined) element.classList.add(change > 0 ? "grew" : change < 0 ? "shrank" : "same")
  const [part, of] = change === undefined ? [moved, whole] : [Math.abs(change), moved]
  element.style.setProperty("--heat", of > 0 ? Math.sqrt(part / of).toFixed(3) : "0")
  return element
}

/** The name and the place of a call site. */
export function siteParts({ name, place }: Pick<Line, "name" | "place">): (Node | string)[] {
  return [h("code", name), " ", h("small", place)]
}

/** Bytes, with the exact number on hover; `signed` for a change. */
export function bytesCell(bytes: number, signed = false): HTMLElement {
  return h("span", { title: formatExact(bytes) }, formatAmount(bytes, signed))
}

/** `1.20 GiB, 38.2%`; where there is a change, that with its sign, and the share of what moved. */
export function amountText(moved: number, whole: number, change?: number): string {
  return `${formatAmount(change ?? moved, change !== undefined)}, ${formatShare(moved, whole)}`
}
