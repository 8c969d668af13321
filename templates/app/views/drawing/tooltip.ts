/** The box beside the pointer. */

import { stagePath } from "../../lib/picture/bands"
import type { Device } from "../../lib/data/device"
import { formatBytes, formatSignedBytes, formatEvents, plural } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import { type Mark, markLines } from "../../lib/picture/marks"
import type { StageSummary } from "../../lib/data/payload"
import { NOT_DRAWN, restAt } from "../../lib/data/rest"
import { lifeText, siteOf, sizeText, stageText, whenText, stripSwatch } from "../shared/describe"
import type { Store } from "../../store"
import { h } from "../shared/dom"
import type { Geometry } from "./geometry"

export class Tooltip {
  readonly element = h("div.tooltip", { hidden: true, "aria-hidden": "true" })

  /** Shows a text near a point of the plot, on the side with room. */
  show(content: HTMLElement, x: number, y: number, g: Pick<Geometry, "width" | "height">): void {
    this.element.replaceChildren(content)
    this.element.hidden = false
    const { offsetWidth: width, offsetHeight: height } = this.element
    const left = x + 16 + width > g.width ? Math.max(x - width - 12, 0) : x + 16
    const top = Math.min(Math.max(y - height - 10, 0), Math.max(g.height - height, 0))
    this.element.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`
  }

  hide(): void {
    this.element.hidden = true
  }
}

/** What a tooltip says: a figure or a name, and lines below it, of which texts are pale. */
export function tip(title: string, ...lines: (Node | string | null | false)[]): HTMLElement {
  const below = (line: Node | string) => (typeof line === "string" ? h("div.tip-life", line) : line)
  return h("div", h("b", title), ...lines.flatMap((line) => (line ? [" ", below(line)] : [])))
}

/** `group`: of the colouring, if that is not by call site or stage. */
export function allocationTip(store: Store, allocation: number, group = ""): HTMLElement {
  const { history } = store
  const site = siteOf(history, allocation)
  const life = lifeText(history, allocation)
  const stage = stageText(history, allocation)
  const made = h("div.tip-site", stripSwatch(store, allocation), h("code", site.name), " ", h("span", site.place))
  return tip(sizeText(history, allocation), made, group, stage && `made in ${stage}`, `${life.from} to ${life.until}`)
}

/** What a private pool reserves, after an event. */
export function poolTip(history: History, pool: string, bytes: number, event: number): HTMLElement {
  return h(
    "div",
    h("b", formatBytes(bytes)),
    ` reserved by private pool ${pool}, `,
    h("div.tip-life", `of ${formatBytes(history.at("reserved", event))}, ${whenText(history, event)}; it serves nothing else`),
  )
}

/** What is not drawn one by one, after an event. */
export function restTip(store: Store, event: number): HTMLElement {
  const { history, state } = store
  const { rest } = history.device
  const { bytes, count } = restAt(rest, state.curve, event)
  const what = h("div.tip-site", stripSwatch(store, rest!.row), h("span", `${plural(count, "allocation")} ${NOT_DRAWN}`))
  return tip(formatBytes(bytes), what, whenText(history, event))
}

/** The events of a mark in the rug. */
export function markTip(device: Device, mark: Mark): HTMLElement {
  const [when, ...lines] = markLines(device, mark)
  return h("div", ...lines.map((line) => h("div", line)), h("div.tip-life", when))
}

export function oomTip(history: History, oom: number): HTMLElement {
  const { size, device_free, event } = history.ooms[oom]
  const free = h("div", `${formatBytes(device_free)} were free on the device`)
  return tip(`Out of memory: ${formatBytes(size)} requested`, free, `${whenText(history, event)}; click for the call stack`)
}

export function stageTip(stages: StageSummary[], index: number): HTMLElement {
  const { peak_bytes, change, start_event, end_event } = stages[index]
  const changed = change === null ? "" : `, change ${formatSignedBytes(change)}`
  return tip(
    stagePath(stages, index).join(" \u203a "),
    peak_bytes !== null && h("div", `peak ${formatBytes(peak_bytes)}${changed}`),
    `events ${formatEvents(start_event, end_event)}; click to zoom`,
  )
}
