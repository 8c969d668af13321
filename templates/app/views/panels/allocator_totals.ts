/** Totals of the segments: the parts of reserved memory, pools and streams, and what is not known, at the cursor; fragmentation over time. */

import { Extremes } from "../../lib/data/curves"
import { formatBytes, formatCount, formatEvent, formatExact, formatShare, plural } from "../../lib/text/format"
import { momentText } from "../../lib/data/moment"
import { NOT_DRAWN } from "../../lib/data/rest"
import { kindText, type Layout, poolText, streamText, type Use } from "../../lib/data/segments"
import type { Store } from "../../store"
import { linkButton } from "../shared/controls"
import { cursorCurve } from "../shared/cursor_curve"
import { h } from "../shared/dom"
import GLOSSARY from "../../lib/glossary.json"

const COLUMNS: [title: string, of: keyof Use, note: string][] = [
  ["Segments", "segments", GLOSSARY.segment],
  ["Reserved", "reserved", GLOSSARY.reserved],
  ["Allocated", "allocated", GLOSSARY.allocated],
  ["Awaiting free", "pending", GLOSSARY["awaiting free"]],
  ["Slack", "slack", GLOSSARY.slack],
  ["Inactive", "inactive", GLOSSARY.inactive],
  ["Fragmentation", "fragmentation", GLOSSARY.fragmentation],
  ["Largest free", "largestFree", "No larger request fits without more memory from the driver"],
]

/** What to say if the page leaves blocks out, so that it does not know what is free. */
export function unknownBlocks({ history, state }: Store, bytes: number): string {
  const reserved = history.at("reserved", state.cursor)
  return (
    `${formatBytes(reserved)} are reserved and ${formatBytes(history.at("active", state.cursor))} in live blocks ` +
    `${momentText(history, state.curve, state.cursor)}. Of those, ${formatBytes(bytes)} are ${NOT_DRAWN} in this page, so it cannot tell which parts of the segments are free. ` +
    "A page rendered without cuts can."
  )
}

/** What is not known at this moment. */
export function missing({ history, state }: Store, { outside, total, rows }: Layout): string[] {
  const known = history.at("reserved", state.cursor)
  const notes = []
  if (outside) {
    notes.push(
      `${plural(outside, "live allocation")} ${outside === 1 ? "is" : "are"} in no recorded segment: ` +
        "segment events are missing, so reserved, inactive and fragmented bytes are not known here.",
    )
  } else if (known !== total.reserved) {
    notes.push(
      `Segments add up to ${formatBytes(total.reserved)} here, and segment events to ${formatBytes(known)}: some are missing from the recording.`,
    )
  }
  if (!rows.length && !outside) notes.push(`There was no segment ${momentText(history, state.curve, state.cursor)}.`)
  return notes
}

/** A bar of what reserved memory consists of, and its figures. */
export function partsOf(total: Use): HTMLElement[] {
  const requested = total.allocated + total.pending - total.slack - total.pendingRequested
  const parts: [string, string, number, string][] = [
    ["requested", "Requested, live", requested, GLOSSARY.requested],
    ["pending", "Requested, awaiting free", total.pendingRequested, GLOSSARY["awaiting free"]],
    ["slack", "Slack", total.slack, GLOSSARY.slack],
    ["fragmentation", "Fragmentation", total.fragmentation, GLOSSARY.fragmentation],
    ["returnable", "Returnable", total.inactive - total.fragmentation, GLOSSARY.returnable],
  ]
  const bar = h("div.parts-bar", { "aria-hidden": "true" })
  for (const [name, , bytes] of parts) {
    const part = h("i", { class: `part-${name}` })
    part.style.flexGrow = String(Math.max(bytes, 0))
    bar.append(part)
  }
  const fact = (name: string, label: string, bytes: number, note: string) =>
    h(
      "div",
      { "data-part": name, title: note },
      h("dt", { class: name === "reserved" ? null : `key part-${name}` }, label),
      h(
        "dd",
        { title: formatExact(bytes) },
        formatBytes(bytes),
        name !== "reserved" && h("small", ` ${formatShare(bytes, total.reserved)}`),
      ),
    )
  const facts = h(
    "dl",
    fact("reserved", "Reserved", total.reserved, `${GLOSSARY.reserved} The parts add up to it.`),
    ...parts.filter(([name, , bytes]) => bytes !== 0 || name !== "pending").map((part) => fact(...part)),
  )
  return [bar, facts]
}

/** The same of every pool, stream and kind of segment. */
export function poolsTable({ history: { device } }: Store, { groups, total }: Layout): HTMLElement {
  const cells = (use: Use) =>
    COLUMNS.map(([, of]) =>
      of === "segments" ? h("td.num", formatCount(use[of])) : h("td.num", { title: formatExact(use[of]) }, formatBytes(use[of])),
    )
  return h(
    "table.pools",
    h(
      "thead",
      h(
        "tr",
        h("th", { scope: "col" }, "Pool"),
        h("th", { scope: "col" }, "Stream"),
        h("th", { scope: "col" }, "Kind"),
        ...COLUMNS.map(([title, , note]) => h("th.num", { scope: "col", title: note }, title)),
      ),
    ),
    h(
      "tbody",
      ...groups.map((group) =>
        h(
          "tr",
          h("th", { scope: "row" }, poolText(device, group.pool)),
          h("td", streamText(device, group.stream)),
          h("td", kindText(group.kind)),
          ...cells(group.use),
        ),
      ),
    ),
    groups.length > 1 && h("tfoot", h("tr", h("th", { scope: "row" }, "all"), h("td"), h("td"), ...cells(total))),
  )
}

/** Fragmentation over the entire recording as a small curve, which is also a slider for the cursor.
 *
 * `values`: bytes after each event, element 0 the start, -1 where not known; `say` follows the cursor. */
export function fragmentationChart(store: Store, values: Float64Array): { element: HTMLElement; say: () => void } {
  const curve = new Extremes(values)
  const most = curve.firstMax(0, values.length) - 1
  const peak = values[most + 1]
  const slider = cursorCurve(store, "Fragmentation over time: the cursor", () => {
    const { cursor } = store.state
    const bytes = values[cursor + 1]
    return { curve, top: Math.max(peak * 1.06, 1), text: `${formatEvent(cursor)}: ${bytes < 0 ? "not known" : formatBytes(bytes)}` }
  })
  const link = () => linkButton(`${formatBytes(peak)} at ${formatEvent(most)}`, () => store.goTo(most), { "data-most": most })
  const element = h(
    "figure.fragmentation",
    h(
      "figcaption",
      "Fragmentation over time",
      peak > 0 && h("span", "the most is ", link()),
      values.includes(-1) && h("span", "not known where segment events are missing"),
    ),
    h(
      "div.fragmentation-frame",
      h("span.fragmentation-most", { "aria-hidden": "true" }, peak > 0 ? formatBytes(peak) : ""),
      slider.element,
      h("div.fragmentation-ends", { "aria-hidden": "true" }, h("span", "start"), h("span", formatEvent(values.length - 2))),
    ),
  )
  return { element, say: slider.say }
}
