/** What every panel shows: a moment, with its totals and ways to others, or a question about the markers. */

import { formatBytes, formatCount, formatDuration, formatEvent, formatExact, plural } from "../../lib/text/format"
import { liveAt } from "../../lib/data/lives"
import { momentText, totalsAt } from "../../lib/data/moment"
import { differs } from "../../lib/data/observed"
import { sentence } from "../../lib/data/questions"
import { restAt } from "../../lib/data/rest"
import type { Store } from "../../store"
import { button } from "../shared/controls"
import { h } from "../shared/dom"
import { inNextFrame, onFailure } from "../shared/failure"

/** The totals beside what is allocated: of all allocations, and of some. */
const OF_ALL = ["requested", "reserved", "slack", "inactive"] as const,
  OF_SOME = ["requested", "slack"] as const

export function momentBar(store: Store): HTMLElement {
  const { history } = store
  const { device } = history
  const title = h("h2.moment-title")
  const where = h("p.moment-where", { role: "status" })
  const totals = h("dl.totals")
  // What someone is typing stays, whatever moves meanwhile.
  let typing = false
  const event = h("input", {
    type: "number",
    min: -1,
    max: device.events - 1,
    "aria-label": "Event",
    input: () => (typing = true),
    change: () => {
      if (event.value !== "") store.goTo(Number(event.value))
      settle()
    },
    blur: () => settle(),
  })
  const settle = () => {
    typing = false
    event.value = String(store.state.cursor)
  }
  const going = (label: string, name: string, to: () => number) => button(label, name, () => store.goTo(to()))
  const element = h(
    "div.moment",
    h(
      "div.moment-head",
      title,
      device.summary.recorded &&
        h(
          "div.moment-go",
          going("\u2039", "The event before ([)", () => store.state.cursor - 1),
          event,
          going("\u203a", "The next event (])", () => store.state.cursor + 1),
          going("Start", "Before the first event", () => -1),
          going("Peak", "The peak of this curve", () => store.counted.peakEvent[store.state.curve]),
          going("End", "After the last event", () => device.events - 1),
        ),
    ),
    where,
    totals,
  )
  onFailure(element, "This moment's figures", where)
  const say = () => {
    const { cursor, curve, markers } = store.state
    const { counted, asked } = store
    if (!typing) event.value = String(cursor)
    totals.hidden = asked.kind !== "live"
    if (asked.kind !== "live") {
      title.textContent = sentence(asked.kind, markers.c !== null)
      where.textContent = apart(store)
      return
    }
    const now = totalsAt(counted, cursor)
    const live = liveAt(counted.device, curve, cursor).length + restAt(counted.device.rest, curve, cursor).count
    title.textContent = `Live ${momentText(counted, curve, cursor)}`
    const time = history.timeOf(cursor)
    const stages = device.summary.stages
      .filter((stage) => stage.start_event <= cursor && cursor < stage.end_event)
      .map((stage) => stage.name)
    // At the peak, as at some other events, even a band of few columns is exact.
    const error = cursor === history.peakEvent[curve] ? 0 : (device.summary.cut?.error_bytes ?? 0)
    where.textContent = [
      plural(live, "allocation"),
      time === null || !device.summary.recorded ? "" : `${formatDuration(time)} after the first event`,
      stages.length ? `in ${stages.join(" \u203a ")}` : "",
      error > 0 ? `totals within ${formatBytes(error)}, as this page is thinned` : "",
    ]
      .filter(Boolean)
      .join(" \u00b7 ")
    const peak = history.at("allocated", history.peakEvent.allocated)
    const ofPeak = peak > 0 && device.summary.recorded ? `${formatCount(Math.round((100 * now.allocated) / peak))}% of the peak` : ""
    const rows = [total("Allocated", now.allocated, ofPeak)]
    // Without an allocator the others are this one, or unknown; what is reserved does not belong to single allocations.
    if (history.hasReserved)
      for (const name of counted.partial ? OF_SOME : OF_ALL) rows.push(total(name[0].toUpperCase() + name.slice(1), now[name]))
    if (now.active > now.allocated) rows.push(total("Awaiting free", now.active - now.allocated))
    totals.replaceChildren(...rows)
  }
  const saySoon = inNextFrame({ element }, say)
  store.on((state, before) => differs(state, before, "cursor", "curve", "filters", "question", "markers") && saySoon())
  say()
  return element
}

function total(label: string, bytes: number | null, note = ""): HTMLElement {
  const [title, text] = bytes === null ? [null, "not known"] : [formatExact(bytes), formatBytes(bytes)]
  return h("div", { "data-total": label.toLowerCase() }, h("dt", label), h("dd", { title }, text, note && h("small", ` ${note}`)))
}

/** How far A and B are apart. */
function apart({ asked, history, state }: Store): string {
  const [start, end] = [history.timeOf(Math.max(asked.from, 0)), history.timeOf(asked.to)]
  const { a, b } = state.markers
  return [
    a === null || b === null ? `${a === null ? "A" : "B"} is the cursor, ${formatEvent(state.cursor)}` : "",
    `${plural(asked.to - asked.from, "event")} between them`,
    start === null || end === null ? "" : formatDuration(end - start),
    history.device.rest && asked.kind !== "change" ? "what is not drawn one by one is not counted" : "",
  ]
    .filter(Boolean)
    .join(" \u00b7 ")
}
