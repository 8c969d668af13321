/** Completes the tables that the HTML holds: all rows, colours, and links into the timeline. */

import { cssColour } from "../lib/colours"
import { formatBytes, formatCount, formatExact, formatShare, formatSignedBytes, formatSteps } from "../lib/format"
import { placeOf } from "../lib/frames"
import type { SiteSummary, StageSummary } from "../lib/payload"
import type { Store } from "../store"
import { h, meter } from "./dom"

/** Adds the rows that the HTML left out, behind a button. */
function offerMore(section: Element, shown: number, all: number, row: (index: number) => HTMLElement, added = () => {}): void {
  const body = section.querySelector("tbody")
  const note = section.querySelector(".more")
  if (!body || !note || all <= shown) return
  note.append(" ", h("button", { type: "button", click: () => {
    const rows = document.createDocumentFragment()
    for (let k = shown; k < all; k++) rows.append(row(k))
    body.append(rows)
    note.remove()
    added()
  } }, `Show all ${formatCount(all)}`))
}

/** Adds the rows left out; with `colours`, those of the timeline. */
export function completeSites(section: Element, store: Store, colours: Uint8Array | null): void {
  const { sites, peaks } = store.history.device.summary
  const shown = section.querySelectorAll("tbody tr").length
  offerMore(section, shown, sites.length, (k) => siteRow(sites[k], peaks.allocated.bytes), () => colours && colourSites(section, colours))
  if (colours) colourSites(section, colours)
}

function siteRow(site: SiteSummary, peak: number): HTMLElement {
  return h("tr", {},
    h("td", { class: "num", title: formatExact(site.bytes) }, formatBytes(site.bytes)),
    h("td", { class: "num" }, formatShare(site.bytes, peak)),
    h("td", { class: "bar" }, meter(site.bytes, peak)),
    h("td", { class: "num", title: formatExact(site.requested) }, formatBytes(site.requested)),
    h("td", { class: "num" }, formatCount(site.count)),
    h("td", { class: "where" }, h("code", {}, site.name), " ", h("span", { title: site.filename }, placeOf(site.filename, site.line))))
}

/** Puts the timeline's colours before the sites; both lists have the same order. */
function colourSites(section: Element, colours: Uint8Array): void {
  section.classList.add("coloured")
  section.querySelectorAll<HTMLElement>("td.where").forEach((where, row) => where.style.setProperty("--swatch", cssColour(colours, row)))
}

/** Adds the rows left out, and links into the timeline where there is one. */
export function completeStages(section: Element, store: Store, zoomTo: ((stage: number) => void) | null): void {
  const { stages } = store.history.device.summary
  const shown = section.querySelectorAll("tbody tr").length
  const link = (cell: Element, index: number) => {
    if (!zoomTo) return
    const button = h("button", { type: "button", class: "link", title: "Show in the timeline", click: () => zoomTo(index) })
    button.append(...cell.childNodes)
    cell.append(button)
  }
  section.querySelectorAll<HTMLElement>("tbody tr").forEach((row) => link(row.firstElementChild!, Number(row.dataset.stage)))
  offerMore(section, shown, stages.length, (k) => {
    const row = stageRow(stages[k])
    link(row.firstElementChild!, k)
    return row
  })
}

/** As in reporters/figures.py. */
const CUT_WORDS: Record<string, string> = {
  start: "began before the first event",
  end: "still open at the end",
  both: "longer than the recording",
}

function stageRow(stage: StageSummary): HTMLElement {
  const cell = (value: number | null, format: (value: number) => string) =>
    value === null ? h("td", { class: "num" }, "-") : h("td", { class: "num", title: formatExact(value) }, format(value))
  return h("tr", {},
    h("td", { class: "stage", "data-depth": Math.min(stage.depth, 9) }, stage.name, stage.cut !== "" && h("em", {}, ` ${CUT_WORDS[stage.cut]}`)),
    h("td", { class: "num" }, formatSteps(stage.start_step, stage.end_step)),
    cell(stage.start_bytes, formatBytes), cell(stage.peak_bytes, formatBytes), cell(stage.end_bytes, formatBytes),
    cell(stage.change, formatSignedBytes),
    h("td", { class: "num" }, stage.allocations === null ? "-" : formatCount(stage.allocations)),
    cell(stage.allocated_bytes, formatBytes))
}
