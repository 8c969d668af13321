/** Starts the page of a run. */

import { unpack } from "../lib/data/payload"
import { cannotStart, showUncaught } from "../views/shared/failure"
import { addLiveStyle, h, textOf } from "../views/shared/dom"
import { themeSwitch } from "../views/page/theme_switch"
import { RunData } from "./data/run_data"
import { RunStore } from "./run_store"
import { CurvesChart } from "./views/curves_chart"
import { HeatMap } from "./views/heat_map"
import { HeatToolbar } from "./views/heat_toolbar"
import { RankDetails } from "./views/rank_details"
import { RankTable } from "./views/rank_table"

async function startRun(): Promise<void> {
  const root = document.documentElement
  addLiveStyle()
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
  slot.prepend(h("div.live", toolbar.element, h("div.panes", h("div.pictures", map.element, curves.element), details.element)))
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
  /** The page's interface for scripts. */
  const snapreport = {
    /** The run's figures and findings, as `snapreport summary --json` prints them, without the list of rows. */
    summary,
    window: () => store.state.window,
    /** The label of the selected rank, and the labels of the rows in their order. */
    looked: () => (store.state.cursor ? data.label[store.state.cursor.row] : null),
    rows: () => [...store.state.order].map((row) => data.label[row]),
    settled: () => map.settled && curves.settled,
    /** The cells as drawn, without axes. */
    pixels: () => map.pixels(),
  }
  Object.assign(globalThis, { snapreport })
  performance.mark("first picture")
  root.dataset.ready = root.dataset.complete = "0"
}

showUncaught()
startRun().catch(cannotStart)
