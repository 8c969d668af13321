/** The box beside the pointer. */

import { stagePath } from "../../lib/picture/bands"
import type { Device } from "../../lib/data/device"
import { formatBytes, formatSignedBytes, formatEvents, plural } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import { overlap, type Rect } from "../../lib/picture/labels"
import { type Mark, markLines } from "../../lib/picture/marks"
import type { StageSummary } from "../../lib/data/payload"
import { NOT_DRAWN, restAt } from "../../lib/data/rest"
import { lifeText, siteOf, sizeText, whenText } from "../shared/describe"
import type { Store } from "../../store"
import { h } from "../shared/dom"
import { stripSwatch } from "../shared/strip_colour"
import type { Geometry } from "./geometry"

/** Between the tooltip and what it leaves clear. */
const GAP = 4

export class Tooltip {
  readonly element = h("div", { class: "tooltip", hidden: true, "aria-hidden": "true" })

  /** Shows a text near a point of the plot, on the side with room, and not over `clear`: if there is no such place, not at all. */
  show(content: HTMLElement, x: number, y: number, g: Pick<Geometry, "width" | "height">, clear: Rect | null): void {
    this.element.replaceChildren(content)
    this.element.hidden = false
    const { offsetWidth: width, offsetHeight: height } = this.element
    const beside = [x + 16, Math.max(x - width - 12, 0)]
    if (x + 16 + width > g.width) beside.reverse()
    const tops = [y - height - 10, y + 18]
    if (clear) tops.push(clear.top - height - GAP, clear.top + clear.height + GAP)
    const places = tops.flatMap((top) =>
      beside.map((left) => ({ left, width, height, top: Math.min(Math.max(top, 0), Math.max(g.height - height, 0)) })),
    )
    const place = places.find((each) => !clear || !overlap(each, clear))
    if (!place) return this.hide()
    const { left, top } = place
    this.element.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`
  }

  hide(): void {
    this.element.hidden = true
  }
}

/** `group`: of the colouring, if that is not by call site. */
export function allocationTip(store: Store, allocation: number, group = ""): HTMLElement {
  const { history } = store
  const site = siteOf(history, allocation)
  const life = lifeText(history, allocation)
  return h(
    "div",
    {},
    h("b", {}, sizeText(history, allocation)),
    " ",
    h("div", { class: "tip-site" }, stripSwatch(store, allocation), h("code", {}, site.name), " ", h("span", {}, site.place)),
    " ",
    group && h("div", { class: "tip-life" }, group),
    h("div", { class: "tip-life" }, `${life.from} to ${life.until}`),
  )
}

/** What is not drawn one by one, after an event. */
export function restTip(store: Store, event: number): HTMLElement {
  const { history, state } = store
  const { rest } = history.device
  const { bytes, count } = restAt(rest, state.curve, event)
  return h(
    "div",
    {},
    h("b", {}, formatBytes(bytes)),
    " ",
    h("div", { class: "tip-site" }, stripSwatch(store, rest!.row), h("span", {}, `${plural(count, "allocation")} ${NOT_DRAWN}`)),
    " ",
    h("div", { class: "tip-life" }, whenText(history, event)),
  )
}

/** The events of a mark in the rug. */
export function markTip(device: Device, mark: Mark): HTMLElement {
  const [when, ...lines] = markLines(device, mark)
  return h("div", {}, ...lines.map((line) => h("div", {}, line)), h("div", { class: "tip-life" }, when))
}

export function oomTip(history: History, oom: number): HTMLElement {
  const { size, device_free, event } = history.ooms[oom]
  return h(
    "div",
    {},
    h("b", {}, `Out of memory: ${formatBytes(size)} requested`),
    " ",
    h("div", {}, `${formatBytes(device_free)} were free on the device`),
    " ",
    h("div", { class: "tip-life" }, `${whenText(history, event)}; click for the call stack`),
  )
}

export function stageTip(stages: StageSummary[], index: number): HTMLElement {
  const stage = stages[index]
  return h(
    "div",
    {},
    h("b", {}, stagePath(stages, index).join(" \u203a ")),
    stage.peak_bytes !== null &&
      h("div", {}, `peak ${formatBytes(stage.peak_bytes)}` + (stage.change === null ? "" : `, change ${formatSignedBytes(stage.change)}`)),
    h("div", { class: "tip-life" }, `events ${formatEvents(stage.start_event, stage.end_event)}; click to zoom`),
  )
}
