/** Starts the page of a run. */

import { unpack } from "../lib/data/payload"
import { cannotStart, showUncaught } from "../views/shared/failure"
import { h, textOf } from "../views/shared/dom"
import { themeSwitch } from "../views/page/theme_switch"
import type { Window } from "../lib/picture/window"
import { RunData } from "./data/run_data"
import { RunStore } from "./run_store"
import { CurvesChart } from "./views/curves_chart"
import { HeatMap } from "./views/heat_map"
import { HeatToolbar } from "./views/heat_toolbar"
import { RankDetails } from "./views/rank_details"
import { RankTable } from "./views/rank_table"

/** The page's interface for scripts, `window.snapreport`. */
interface RunApi {
  /** The run's figures and findings, as `snapreport summary --json` prints them, without the list of rows. */
  summary: unknown
  window(): Window
  /** The label of the selected rank, and the labels of the rows in their order. */
  looked(): string | null
  rows(): string[]
  settled(): boolean
  /** The cells as drawn, without axes. */
  pixels(): ImageData
}

async function startRun(): Promise<void> {
  const root = document.documentElement
  document.querySelector(".masthead")!.append(themeSwitch())
  const data = new RunData(await unpack(textOf("payload")))
  performance.mark("unpacked")
  const summary: unknown = JSON.parse(textOf("summary"))
  const slot = document.querySelector(".heat-slot")
  if (!data.count || !slot || !data.axes.length) {
    root.classList.remove("starting")
    root.dataset.ready = root.dataset.complete = ""
    return
  }
  const store = new RunStore(data)
  const toolbar = new HeatToolbar(store)
  const curves = new CurvesChart(store)
  const map = new HeatMap(store, (geometry) => curves.fit(geometry))
  const details = new RankDetails(store, () => map.grain)
  const table = new RankTable(store)
  slot.prepend(
    h(
      "div",
      { class: "live" },
      toolbar.element,
      h("div", { class: "panes" }, h("div", { class: "pictures" }, map.element, curves.element), details.element),
    ),
  )
  const section = document.querySelector("section.heat")!
  section.after(table.element)
  for (const still of document.querySelectorAll(".heat-still, .ranks-still")) still.classList.add("covered")
  table.element.classList.add("live")
  root.classList.remove("starting")
  map.start()
  details.show()
  table.start()
  for (const card of document.querySelectorAll<HTMLElement>(".finding[data-row]")) {
    const button = card.querySelector<HTMLElement>(".show-row")!
    button.hidden = false
    button.addEventListener("click", () => {
      store.look(Number(card.dataset.row))
      section.scrollIntoView({ block: "start" })
      map.plot.focus({ preventScroll: true })
    })
  }
  const api: RunApi = {
    summary,
    window: () => store.state.window,
    looked: () => (store.state.cursor ? data.label[store.state.cursor.row] : null),
    rows: () => [...store.state.order].map((row) => data.label[row]),
    settled: () => map.settled && curves.settled,
    pixels: () => map.pixels(),
  }
  Object.assign(globalThis, { snapreport: api })
  performance.mark("first picture")
  root.dataset.ready = root.dataset.complete = "0"
}

showUncaught()
startRun().catch(cannotStart)
