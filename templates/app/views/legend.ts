/** The largest call sites at the peak with their colours; one may be brought out in the timeline. */

import { cssColour } from "../lib/colours"
import { formatBytes, formatCount, formatExact, formatShare } from "../lib/format"
import type { Site } from "../lib/sites"
import type { Store } from "../store"
import { h, meter, nameText, swatch } from "./dom"

const ROWS = 12

export function legend(store: Store, colours: Uint8Array): HTMLElement {
  const { rows } = store.history.sites
  const live = rows.filter((site) => site.bytes > 0)
  const total = live.reduce((sum, site) => sum + site.bytes, 0)
  const rest = live.slice(ROWS)
  const items = live.slice(0, ROWS).map((site, row) => {
    const button = h("button", {
      type: "button",
      "aria-pressed": String(store.state.chosenGroup === row),
      title: `${site.fullName}\n${site.file}${site.line === null ? "" : `:${site.line}`}\n${formatExact(site.bytes)}`,
      pointerenter: () => store.set({ hoveredGroup: row }),
      pointerleave: () => store.set({ hoveredGroup: -1 }),
      click: () => store.set({ chosenGroup: store.state.chosenGroup === row ? -1 : row }),
    },
      swatch(cssColour(colours, row)),
      h("code", { class: site.place ? null : "alone" }, nameText(site.name)), site.place && place(site),
      h("b", {}, formatBytes(site.bytes)), h("span", { class: "share" }, formatShare(site.bytes, total)),
      meter(site.bytes, total),
    )
    return h("li", {}, button)
  })
  return h("div", { class: "legend" },
    h("h3", {}, "Held the peak"),
    live.length ? h("ul", {}, ...items) : h("p", { class: "empty" }, "Nothing was live."),
    rest.length > 0 && h("p", { class: "more" },
      `${formatCount(rest.length)} more call sites: ${formatBytes(rest.reduce((sum, site) => sum + site.bytes, 0))}`),
  )
}

/** File and line, of which a lack of room cuts the file. */
function place({ place, line }: Site): HTMLElement {
  const end = line === null ? "" : `:${line}`
  return h("span", { class: "place" }, h("span", {}, place.slice(0, place.length - end.length)), end)
}
