/** The selected rank: its figures at the selected cell, those at its peak, and how it differs. */

import { differs } from "../../lib/data/observed"
import { medianOf } from "../../lib/data/places"
import { formatBytes, formatCount, formatExact, formatShare, formatSignedBytes } from "../../lib/text/format"
import { button } from "../../views/shared/controls"
import { coded, type Fact, factsList, h, meter, nameText, setChildren } from "../../views/shared/dom"
import { atRest, guarded, onFailure } from "../../views/shared/failure"
import type { RunHolder } from "../data/run_data"
import type { OddRank } from "../data/run_data"
import type { Grain } from "../picture/heat_raster"
import type { RunStore } from "../run_store"
import { amountText, timeOfDay, spanText, whereText } from "./run_words"

const MOST_HOLDERS = 8
const RESTS_MS = 150

export class RankDetails {
  readonly element = h("aside.side.details", { "aria-label": "The selected rank", tabindex: 0 })

  /** The level of the cells whose figures are shown. */
  private level = 0
  /** Updates the figures, which are those of a cell, once zooming has changed the cells. */
  private readonly showSoon = atRest(RESTS_MS, () => this.grain().level !== this.level && this.show())

  /** `grain`: how wide the cells are that the map shows. */
  constructor(
    private readonly store: RunStore,
    private readonly grain: () => Grain,
  ) {
    onFailure(this.element, "The rank's figures", this.element)
    store.on((state, before) => {
      if (differs(state, before, "cursor", "axis", "kept")) this.show()
      else if (state.window !== before.window && this.grain().level !== this.level) this.showSoon()
    })
  }

  show(): void {
    guarded(this.element, () => {
      this.level = this.grain().level
      const { cursor } = this.store.state
      setChildren(
        this.element,
        cursor ? this.parts(cursor.row, cursor.x) : [h("p.empty", "A click on the map shows a rank's figures here.")],
      )
    })
  }

  private parts(row: number, x: number): HTMLElement[] {
    const { data, state } = this.store
    const odd = data.odd.get(row)
    const kept = state.kept.includes(row)
    return [
      h("header", h("h3", data.label[row])),
      h("p.place", whereText(data, row)),
      h(
        "p.rank-actions",
        data.link[row] ? h("a", { href: data.link[row] }, "Open its page") : null,
        button("Keep its curve", null, () => this.store.keep(row), { "aria-pressed": String(kept), class: "tool", "data-rank": row }),
        button("Its peak", null, () => this.store.look(row), { "data-rank": row }),
      ),
      ...(odd ? [this.odd(odd)] : []),
      this.moment(row, x),
      this.whole(row),
      ...this.held(row),
    ]
  }

  private odd(odd: OddRank): HTMLElement {
    const differences = odd.differences.slice(0, 6).map(({ name, bytes, each, usual, usual_each }) => {
      const more = bytes - usual
      const small = `${amountText(bytes, each)}, usually ${amountText(usual, usual_each)}`
      return h("li", h("b", { title: formatExact(more) }, formatSignedBytes(more)), h("code", nameText(name)), h("small", small))
    })
    return h(
      "section",
      { class: `odd-said ${odd.code}` },
      h("p", h("b", `${odd.word}: `), ...coded(odd.sentence)),
      odd.parting && h("p.place", odd.parting),
      h("ul.held", ...differences),
    )
  }

  private moment(row: number, x: number): HTMLElement {
    const { data, origin, state } = this.store
    const { axis } = state
    const level = this.grain().level
    const cell = Math.floor((x + origin) / 2 ** level)
    const [from, to] = [cell * 2 ** level, (cell + 1) * 2 ** level]
    const at = (curve: "allocated" | "reserved") => data.cells(axis, curve)?.mostIn(row, level, cell) ?? -1
    const [allocated, reserved] = [at("allocated"), at("reserved")]
    const rows = data.members[data.group[row]] ?? []
    const others = rows.map((each) => data.cells(axis, "allocated")!.mostIn(each, level, cell)).filter((value) => value >= 0)
    const usual = others.length > 2 && allocated >= 0 ? medianOf(others.sort((a, b) => a - b)) : null
    const left = axis === "step" ? data.leftAfter(row, from) : null
    const span = spanText(axis, from, to, origin)
    const title = span.startsWith("at ") ? `A${span.slice(1)}` : `${axis === "time" ? "From" : "In"} ${span}`
    return facts(title, [
      allocated < 0 ? ["Allocated", "nothing recorded"] : bytesFact("Allocated", allocated),
      usual !== null && ["Group\u2019s median", `${formatBytes(usual)} (${formatSignedBytes(allocated - usual)})`, formatExact(usual)],
      reserved >= 0 && bytesFact("Reserved", reserved),
      reserved >= 0 && data.capacity[row] > 0 && ["Of the card", formatShare(reserved, data.capacity[row])],
      left !== null && bytesFact("Left at its end", left),
      axis === "time" && ["Clock", timeOfDay(from)],
    ])
  }

  private whole(row: number): HTMLElement {
    const { data, above } = this.store
    const [allocated, width] = [data.allocated[row], data.allocatedWidth[row]]
    const event = data.peakEvent[row] < 0 ? "start" : `event ${formatCount(data.peakEvent[row])}`
    const failures = data.failures(row)
    return facts("At its peak", [
      ["Allocated", `${width ? "\u2265 " : ""}${formatBytes(allocated)}`, formatExact(allocated)],
      ["vs. group", Math.abs(above[row]) < 1 ? "equal to the median" : formatSignedBytes(above[row])],
      ["Where", data.recorded[row] ? `${event} of ${formatCount(data.events[row])}` : "when the snapshot was written"],
      data.peakTime[row] >= 0 && ["Clock", timeOfDay(data.peakTime[row])],
      data.reserved[row] >= 0 && bytesFact("Reserved", data.reserved[row]),
      data.capacity[row] > 0 && bytesFact("Card", data.capacity[row]),
      Math.abs(data.growth[row]) > 0 && ["Grows by", `${formatBytes(data.growth[row])} per step`],
      ...failures
        .slice(0, 3)
        .map(({ size, site, timeUs, event }): Fact => [
          "Out of memory",
          `${formatBytes(size)} refused${site && ` at ${site}`}, ${timeUs === null ? `event ${formatCount(event)}` : timeOfDay(timeUs)}`,
        ]),
      failures.length > 3 && ["", `${failures.length - 3} more failed requests`],
    ])
  }

  private held(row: number): HTMLElement[] {
    const { data } = this.store
    const holders = data.holders(row)
    const part = (kind: string, title: string) => {
      const those = holders.filter((holder) => holder.kind === kind)
      return those.length ? [holderList(title, those, data.allocated[row])] : []
    }
    const said = data.findings(row)
    return [
      ...part("site", "Call sites at its peak"),
      ...part("role", "Roles at its peak"),
      ...part("stage", "Highest while a stage was open"),
      ...(said.length ? [h("section", h("h4", "Its report says"), h("ul", ...said.map(([, title]) => h("li", title))))] : []),
    ]
  }
}

function facts(title: string, rows: (Fact | false)[]): HTMLElement {
  return h("section", h("h4", title), factsList(rows.filter((row) => row !== false)))
}

function bytesFact(label: string, bytes: number): Fact {
  return [label, formatBytes(bytes), formatExact(bytes)]
}

function holderList(title: string, holders: RunHolder[], whole: number): HTMLElement {
  const items = holders.slice(0, MOST_HOLDERS).map(({ key, bytes, count, size, ofSize, kind }) => {
    const made = size ? `${formatCount(ofSize)} \u00d7 ${formatBytes(size)}` : kind === "stage" ? "" : `${formatCount(count)} allocations`
    const name = h("code", key ? nameText(key) : `all other ${kind}s`)
    return h("li", h("b", { title: formatExact(bytes) }, formatBytes(bytes)), name, meter(bytes, whole), h("small", made))
  })
  const more = holders.length - MOST_HOLDERS
  return h("section", h("h4", title), h("ul.held", ...items), more > 0 && h("p.more", `${more} more.`))
}
