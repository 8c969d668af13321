/** Frames and shares in rows: the function, its place, and heat from blue to red. */

import { formatBytes, formatExact, formatShare } from "../../lib/text/format"
import { frameKind, type FrameText, frameText, treeText } from "../../lib/data/frames"
import type { History } from "../../lib/data/history"
import { h, meter } from "./dom"

/** `layer model.py:10`, with the full name and path on hover; `label` where there is no frame. */
export function frameCell(history: History, frame: number, label: string): HTMLElement {
  if (frame < 0) return h("span", { class: "frame" }, h("code", { class: "none" }, label))
  const { name, place, code } = treeText(history.stacks, frame)
  return h(
    "span",
    { class: "frame", title: frameTitle(history, frame) },
    h("code", { class: frameKind(history.stacks, frame) }, name),
    place && h("span", { class: "place" }, ` ${place}`),
    code && h("span", { class: "code" }, ` ${code}`),
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

/** Sets how hot an element is; the style sheet mixes the colour. By the root of the share: most shares are small. */
export function heat<T extends HTMLElement>(element: T, part: number, whole: number): T {
  element.style.setProperty("--heat", whole > 0 ? Math.sqrt(part / whole).toFixed(3) : "0")
  return element
}

/** A bar as long as its share, and as hot. */
export function heatMeter(part: number, whole: number): HTMLElement {
  const bar = meter(part, whole)
  heat(bar.firstElementChild as HTMLElement, part, whole).className = "hot"
  return bar
}

/** The name and the place of a call site. */
export function siteParts({ name, place }: Pick<FrameText, "name" | "place">): (Node | string)[] {
  return [h("code", {}, name), " ", h("small", {}, place)]
}

/** Bytes, with the exact number on hover. */
export function bytesCell(bytes: number): HTMLElement {
  return h("span", { title: formatExact(bytes) }, formatBytes(bytes))
}

/** `1.20 GiB, 38.2%` */
export function amountText(bytes: number, whole: number): string {
  return `${formatBytes(bytes)}, ${formatShare(bytes, whole)}`
}
