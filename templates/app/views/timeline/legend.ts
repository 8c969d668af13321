/** The groups that the strips are coloured by: those at the cursor, then others in view. They can be highlighted or left out. */

import { cssColour, groupColours } from "../../lib/picture/colours"
import { isDark } from "../../lib/picture/theme"
import { formatAmount, formatCount, formatExact, formatShare, plural } from "../../lib/text/format"
import { type Group, type Grouping, pluralOf, rowsAt, toggleKept } from "../../lib/tables/grouping"
import { momentTitle } from "../../lib/data/moment"
import { amountsOf } from "../../lib/data/questions"
import type { Store } from "../../store"
import { button, linkButton } from "../shared/controls"
import { h, meter, nameText, setChildren, swatch } from "../shared/dom"

const ROWS = 12
/** The most rows. */
const MOST_ROWS = 300
/** The least share of the picture: smaller areas can hardly be pointed at. */
const LEAST_AREA = 0.002

export class Legend {
  readonly element = h("div.legend")
  private grouping!: Grouping
  private areas: Float64Array | null = null
  private all = false
  /** The key of the button that the Tab key goes to; the arrows go from there to the others. */
  private stop = ""

  constructor(private readonly store: Store) {
    this.element.addEventListener("keydown", (event) => this.key(event))
    this.element.addEventListener("focusin", (event) => this.stopAt((event.target as HTMLElement).dataset.key))
    // Handled here, not by the rows: one that is replaced gets no event when the pointer leaves it.
    this.element.addEventListener("pointerover", (event) => this.hover(event.target as Element))
    this.element.addEventListener("pointerleave", () => this.hover(null))
  }

  /** Shows the groups of the present colouring, event and curve. `areas`: of each group in the picture, null while that is not known. */
  update(grouping: Grouping, areas: Float64Array | null): void {
    if (grouping !== this.grouping) this.all = false
    this.grouping = grouping
    this.areas = areas
    const focused = (document.activeElement as HTMLElement | null)?.dataset.key
    const parts = this.build()
    const buttons = parts.flatMap((part) => (part instanceof Element ? buttonsIn(part) : []))
    const stop = buttons.find((each) => each.dataset.key === this.stop) ?? buttons[0]
    for (const each of buttons) each.tabIndex = each === stop ? 0 : -1
    setChildren(this.element, parts)
    if (focused) this.element.querySelector<HTMLElement>(`[data-key="${focused}"]`)?.focus({ preventScroll: true })
  }

  private stopAt(key: string | undefined): void {
    if (key === undefined || key === this.stop) return
    this.stop = key
    for (const each of buttonsIn(this.element)) each.tabIndex = each.dataset.key === key ? 0 : -1
  }

  /** Up and down go to the next row, left and right to the next button of a row. */
  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return
    const all = buttonsIn(this.element)
    const at = all.indexOf(document.activeElement as HTMLButtonElement)
    if (at < 0) return
    const isFirst = (each: HTMLElement) => !each.closest(".filters")
    const firsts = all.filter(isFirst)
    const row = firsts.indexOf(isFirst(all[at]) ? all[at] : all[at - 1])
    const beside = all[event.key === "ArrowRight" ? at + 1 : at - 1]
    const to = {
      ArrowDown: firsts[Math.min(row + 1, firsts.length - 1)],
      ArrowUp: firsts[Math.max(row - 1, 0)],
      ArrowRight: beside && !isFirst(beside) ? beside : all[at],
      ArrowLeft: isFirst(all[at]) ? all[at] : beside,
      Home: firsts[0],
      End: firsts.at(-1),
    }[event.key]
    if (!to) return
    event.preventDefault()
    event.stopPropagation()
    to.focus()
  }

  private build(): Node[] {
    const { counted, asked } = this.store
    const { grouping } = this
    const { groups, ordered, colouring } = grouping
    const amounts = this.store.state.filters.has(colouring)
      ? amountsOf(this.store.besides(colouring), asked, grouping.ofAllocation, groups.length)
      : this.store.amounts(grouping.ofAllocation, groups.length)
    const { bytes, count, moved } = amounts
    const signed = asked.kind === "change"
    const amount = (value: number) => formatAmount(value, signed)
    const total = moved.reduce((sum, each) => sum + each, 0)
    const shown = rowsAt(grouping, amounts)
    const limit = this.all || ordered ? MOST_ROWS : ROWS
    const rest = shown.slice(limit)
    const rows = shown.slice(0, limit).map((row) => {
      const about = `${formatExact(bytes[row])} in ${plural(count[row], "allocation")}`
      return this.row(groups[row], row, amount(bytes[row]), about, moved[row], total)
    })
    const list = rows.length ? h("ul", { "aria-label": `By ${colouring}` }, ...rows) : h("p.empty", "Nothing.")
    const parts: Node[] = [h("h3", momentTitle(counted, asked)), list]
    if (rest.length) {
      const more = `${formatCount(rest.length)} more ${pluralOf(colouring)}: ${amount(rest.reduce((sum, row) => sum + bytes[row], 0))}`
      const showAll = () => {
        this.all = true
        this.update(this.grouping, this.areas)
      }
      parts.push(h("p.more", this.all ? more : linkButton(more, showAll, { "data-key": "more" })))
    }
    return [...parts, ...this.also(new Set(shown))]
  }

  /** Groups in view that are not live at the cursor, the largest area first. */
  private also(shown: ReadonlySet<number>): HTMLElement[] {
    const { areas } = this
    const { groups, colouring } = this.grouping
    if (!areas || areas.length !== groups.length) return []
    const total = areas.reduce((sum, each) => sum + each, 0)
    const rows = [...areas.keys()]
      .filter((row) => !shown.has(row) && areas[row] > total * LEAST_AREA)
      .sort((a, b) => areas[b] - areas[a] || a - b)
    if (!rows.length) return []
    const about = "Not live at the cursor; the share is of the area in view"
    const list = rows.slice(0, ROWS).map((row) => this.row(groups[row], row, "", about, areas[row], total))
    const more = rows.length - list.length
    return [
      h("h3", "Also in view"),
      h("ul.also", { "aria-label": `Also in view, by ${colouring}` }, ...list),
      ...(more ? [h("p.more", `${formatCount(more)} more ${pluralOf(colouring)} in view`)] : []),
    ]
  }

  /** Highlights the group whose button the pointer is over, and no other. */
  private hover(over: Element | null): void {
    const row = over?.closest(".group")?.closest<HTMLElement>("[data-group]")?.dataset.group
    const hoveredGroup = row === undefined ? -1 : Number(row)
    if (hoveredGroup !== this.store.state.hoveredGroup) this.store.set({ hoveredGroup })
  }

  /** `size`: its text, `about`: its tooltip, `part` of `whole`: its share. */
  private row(group: Group, row: number, size: string, about: string, part: number, whole: number): HTMLElement {
    const { store } = this
    const { filters, chosenGroup } = store.state
    const { colouring } = this.grouping
    const out = filters.get(colouring)
    const hidden = out?.has(row) ?? false
    const toggle = () => store.set({ filters: toggleKept(store.history, store.state.filters, colouring, row), chosenGroup: -1 })
    const choose = () => store.set({ chosenGroup: store.state.chosenGroup === row ? -1 : row })
    const word = hidden ? "show" : out ? "hide" : "only"
    return h(
      "li",
      { class: hidden ? "left-out" : null, "data-group": row },
      h(
        "button.group",
        {
          type: "button",
          "data-key": `group-${row}`,
          "aria-pressed": String(chosenGroup === row),
          title: `${group.full}\n${about}`,
          click: choose,
        },
        swatch(cssColour(groupColours(this.grouping, isDark())[row])),
        h("code", { class: group.detail ? null : "alone" }, nameText(group.label)),
        group.detail && place(group.detail),
        h("b", size),
        h("span.share", formatShare(part, whole)),
        meter(part, whole),
      ),
      h(
        "span.filters",
        button(word, `${word} ${group.label}`, toggle, { "data-key": `filter-${row}`, "aria-label": `${word} ${group.label}` }),
      ),
    )
  }
}

function buttonsIn(element: Element): HTMLButtonElement[] {
  return [...element.querySelectorAll<HTMLButtonElement>("button:not(:disabled)")]
}

/** File and line; the file is cut if there is no room. */
function place(text: string): HTMLElement {
  const line = /:\d+$/.exec(text)?.[0] ?? ""
  return h("span.place", h("span", text.slice(0, text.length - line.length)), line)
}
