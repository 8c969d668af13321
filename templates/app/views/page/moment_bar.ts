/** The moment that every panel shows: its name, its totals, and ways to other moments; and what is left out of all. */

import { formatBytes, formatCount, formatDuration, formatExact, formatShare, plural } from "../../lib/text/format"
import { liveAt } from "../../lib/data/lives"
import { momentText, totalsAt } from "../../lib/data/moment"
import { differs } from "../../lib/data/observed"
import { restAt } from "../../lib/data/rest"
import { filterText, groupBy } from "../../lib/tables/grouping"
import type { Store } from "../../store"
import { button } from "../shared/controls"
import { h } from "../shared/dom"
import { later, onFailure } from "../shared/failure"

/** The totals beside what is allocated: of all allocations, and of some. */
const OF_ALL = ["requested", "reserved", "slack", "inactive"] as const,
  OF_SOME = ["requested", "slack"] as const

export function momentBar(store: Store): HTMLElement {
  const { history } = store
  const { device } = history
  const title = h("h2", { class: "moment-title" })
  const where = h("p", { class: "moment-where" })
  const totals = h("dl", { class: "totals" })
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
    "div",
    { class: "moment" },
    h(
      "div",
      { class: "moment-head" },
      title,
      device.summary.recorded &&
        h(
          "div",
          { class: "moment-go" },
          going("\u2039", "The event before ([)", () => store.state.cursor - 1),
          event,
          going("\u203a", "The next event (])", () => store.state.cursor + 1),
          going("Start", "Before the first event", () => -1),
          going("Peak", "The peak of this curve", () => store.counted.peakEvent[store.state.curve]),
          going("End", "After the last event", () => device.events - 1),
          history.ooms.length > 0 &&
            button("Out of memory", "What was live when a request failed, and the next time", () => store.pinOom(nextOom(store)), {
              class: "danger",
            }),
        ),
    ),
    where,
    totals,
  )
  onFailure(
    element,
    () => "This moment's figures",
    (note) => where.replaceChildren(note),
  )
  let pending = 0
  const say = () => {
    pending = 0
    const { cursor, curve } = store.state
    const { counted } = store
    const now = totalsAt(counted, cursor)
    const live = liveAt(counted.device, curve, cursor).length + restAt(counted.device.rest, curve, cursor).count
    title.textContent = `Live ${momentText(counted, curve, cursor)}`
    if (!typing) event.value = String(cursor)
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
    const rows: [string, number | null, string][] = [
      [
        "Allocated",
        now.allocated,
        peak > 0 && device.summary.recorded ? `${formatCount(Math.round((100 * now.allocated) / peak))}% of the peak` : "",
      ],
    ]
    // Without an allocator the others are this one, or unknown; what is reserved does not belong to single allocations.
    if (history.hasReserved)
      for (const name of counted.partial ? OF_SOME : OF_ALL) rows.push([name[0].toUpperCase() + name.slice(1), now[name], ""])
    if (now.active > now.allocated) rows.push(["Awaiting free", now.active - now.allocated, ""])
    totals.replaceChildren(
      ...rows.map(([label, bytes, note]) =>
        h(
          "div",
          { "data-total": label.toLowerCase() },
          h("dt", {}, label),
          h(
            "dd",
            { title: bytes === null ? null : formatExact(bytes) },
            bytes === null ? "not known" : formatBytes(bytes),
            note && h("small", {}, ` ${note}`),
          ),
        ),
      ),
    )
  }
  store.on(
    (state, before) => differs(state, before, "cursor", "curve", "filtered") && (pending ||= requestAnimationFrame(later(element, say))),
  )
  say()
  return element
}

/** Says over everything that counts what is left out of it. */
export function filterChip(store: Store): HTMLElement {
  const what = h("b")
  const much = h("span")
  const element = h(
    "div",
    { class: "filter-chip", role: "status" },
    what,
    much,
    button("Show all", "Show and count all allocations again", () => store.set({ filtered: new Set() })),
  )
  store.watch(["filtered", "cursor", "curve"], () => {
    const { history, counted, state } = store
    element.hidden = !counted.partial
    if (!counted.partial) return
    const [part, all] = [counted, history].map((of) => of.at(state.curve, state.cursor))
    what.textContent = filterText(groupBy(history, state.colouring), state.filtered)
    much.textContent = `${formatBytes(part)} of ${formatBytes(all)}, ${formatShare(part, all)}`
    much.title = `${formatExact(part)} of ${formatExact(all)} ${state.curve} ${momentText(counted, state.curve, state.cursor)}`
  })
  return element
}

/** The failed request after the one shown; after the last one, the first. */
function nextOom(store: Store): number {
  const { ooms } = store.history
  return store.state.pinnedOom < 0 ? ooms.length - 1 : (store.state.pinnedOom + 1) % ooms.length
}
