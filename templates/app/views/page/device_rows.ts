/** The devices as rows of small curves on one x axis: a click opens a device, at the place of its curve that was clicked. */

import type { History } from "../../lib/data/history"
import type { Store } from "../../store"
import { oneStop } from "../shared/keys"

type Moment = Pick<Store, "history" | "state">
/** A part of the width, from 0 to 1. */
type Share = [from: number, to: number]

export class DeviceRows {
  private readonly links: HTMLAnchorElement[]

  /** `nav`: made by the template; null on a page of one device. `open`: `at` is where its curve was clicked, or null. */
  constructor(
    private readonly nav: HTMLElement | null,
    open: (device: number, at: Share | null) => void,
  ) {
    this.links = [...(nav?.querySelectorAll("a") ?? [])].sort((a, b) => Number(a.dataset.device) - Number(b.dataset.device))
    if (nav) oneStop(nav)
    this.links.forEach((link, device) =>
      link.addEventListener("click", (event) => {
        event.preventDefault()
        const { left, right, width } = link.querySelector("svg")?.getBoundingClientRect() ?? new DOMRect()
        const on = event.detail > 0 && event.clientX >= left && event.clientX < right
        open(device, on ? [(event.clientX - left) / width, (event.clientX - left + 1) / width] : null)
      }),
    )
  }

  /** Marks the open device, and where its cursor is; `moment` is null where that is no place of one device. */
  show(device: number, moment: Moment | null): void {
    const { nav, links } = this
    if (!nav) return
    links.forEach((each, k) => (k === device ? each.setAttribute("aria-current", "true") : each.removeAttribute("aria-current")))
    links[device].closest("details")?.setAttribute("open", "")
    if (!moment) return nav.removeAttribute("style")
    const { history, state } = moment
    const { cursor } = state
    const { start, span } = this.axis(history)
    const { events, eventTime } = history.device
    const place = nav.dataset.firstUs ? eventTime[Math.max(cursor, 0)] - eventTime[0] : cursor + 1.5
    if (place >= 0 && events > 1) nav.style.setProperty("--at", String((place - start) / span))
    else nav.removeAttribute("style")
  }

  /** The event with the most bytes in a part of a device's row. */
  eventIn({ history, state: { curve } }: Moment, share: Share): number {
    const { start, span } = this.axis(history)
    const [from, to] = share.map((each) => start + each * span)
    const last = history.device.events - 1
    const [first, end] = this.nav!.dataset.firstUs ? history.scale("time").eventsIn(from, to) : [Math.floor(from) - 1, Math.ceil(to) - 1]
    const low = Math.min(Math.max(first, -1), last)
    return history.curves[curve].firstMax(low + 1, Math.max(Math.min(end, last + 1), low + 1) + 1) - 1
  }

  /** Where the width begins and how much it is: in microseconds after the device's first event, or in states of its events. */
  private axis({ device }: History): { start: number; span: number } {
    const { firstUs, spanUs } = this.nav!.dataset
    return firstUs
      ? { start: Number(firstUs) - device.timeOriginUs! - device.eventTime[0], span: Number(spanUs) }
      : { start: 0, span: device.events + 1 }
  }
}
