/** A table of any length of which only the visible rows exist. */

import { RowScroll } from "../../lib/tables/rows"
import { h, setChildren } from "./dom"
import { guarded, inNextFrame } from "./failure"

export interface Column {
  title: string
  /** The title is only for screen readers. */
  quiet?: boolean
  /** `num` for numbers; anything else is the panel's own. */
  class?: string
  /** Makes the heading a button that sorts. */
  sort?: () => void
  /** Whether the rows are in this column's order now. */
  sorted?: () => "ascending" | "descending" | null
}

export interface ListOptions {
  label: string
  /** The element's class beside `list`; its style sheet sets --columns (grid-template-columns). */
  class?: string
  /** `treegrid` for rows that open and close; then `rowAttributes` gives aria-level and aria-expanded. */
  role?: "grid" | "treegrid"
  columns: Column[]
  count(): number
  /** One cell's content per column. */
  row(index: number): (Node | string)[]
  rowClass?(index: number): string | null
  /** Tells two rows apart that may follow one another in the same place: a click must not act on the second. */
  rowAttributes?(index: number): Record<string, string>
  /** A row became the selected one: by key or by click. */
  onSelect?(index: number): void
  /** Enter, Space or a double click. */
  onOpen?(index: number): void
  /** The arrow keys that open and close a row. */
  onToggle?(index: number, open: boolean): void
  /** Other keys; true when the key was taken. */
  onKey?(event: KeyboardEvent, index: number): boolean
  /** The text shown if there are no rows. */
  empty?: string
}

let made = 0

export class VirtualList {
  readonly element: HTMLElement
  private readonly heads: HTMLElement[]
  private readonly view: HTMLElement
  private readonly spacer = h("div.spacer", { role: "presentation" })
  private readonly body = h("div.rows", { role: "presentation" })
  private readonly nothing = h("p.empty")
  private readonly id = `list-${made++}`
  private readonly resizing = new ResizeObserver(
    () => this.view.clientHeight !== this.scroll.viewPx && guarded(this.element, () => this.refresh()),
  )
  private scroll = new RowScroll(0, 24, 0)
  private top = 0
  /** The row to scroll to once there is room for one, or -1. */
  private awaited = -1
  private readonly drawSoon = inNextFrame(this, () => this.draw())
  private chosen = -1
  private clicked = { row: -1, at: 0 }

  constructor(private readonly options: ListOptions) {
    this.heads = options.columns.map((column) =>
      h(
        "div",
        { role: "columnheader", class: column.class },
        column.sort
          ? h("button", { type: "button", click: column.sort }, column.title)
          : column.quiet
            ? h("span.hidden", column.title)
            : column.title,
      ),
    )
    this.view = h("div.view", { role: "rowgroup", tabindex: -1 }, this.spacer, this.body)
    this.element = h(
      "div",
      {
        class: `list ${options.class ?? ""}`,
        role: options.role ?? "grid",
        tabindex: 0,
        "aria-label": options.label,
        "aria-colcount": options.columns.length,
        keydown: (event: KeyboardEvent) => this.key(event),
      },
      h("div.rows", { role: "rowgroup" }, h("div.row.head", { role: "row" }, ...this.heads)),
      this.view,
      this.nothing,
    )
    this.nothing.textContent = options.empty ?? "Nothing to show."
    this.view.addEventListener("scroll", () => this.scrolled())
    this.view.addEventListener("wheel", (event) => this.wheel(event), { passive: false })
    this.body.addEventListener("click", (event) => this.click(event))
    this.resizing.observe(this.view)
  }

  /** The selected row, or -1. */
  get selected(): number {
    return this.chosen
  }

  /** Marks a row as selected without telling `onSelect`; -1 for none. */
  set selected(row: number) {
    this.chosen = row
    for (const element of this.body.children)
      element.setAttribute("aria-selected", String(Number((element as HTMLElement).dataset.row) === row))
    this.tellActive()
  }

  /** Scrolls to a row. */
  reveal(row: number): void {
    if (row < 0) return
    this.awaited = row // without a height, as before it is in the page, no row is visible
    this.refresh()
  }

  /** Draws again after the rows changed; keeps the scroll position if it can. */
  refresh(): void {
    const count = this.options.count()
    const style = getComputedStyle(this.element)
    const rowPx = Math.max(Math.round(parseFloat(style.getPropertyValue("--row")) * parseFloat(style.fontSize)) || 24, 1)
    this.element.setAttribute("aria-rowcount", String(count + 1))
    this.nothing.hidden = count > 0
    this.view.hidden = count === 0
    this.element.style.setProperty("--row-px", `${rowPx}px`)
    // As tall as its rows, up to what the style sheet allows.
    this.view.style.height = `${Math.min(count * rowPx, MOST_VIEW_PX)}px`
    const { clientHeight } = this.view
    if (clientHeight < this.scroll.viewPx && this.awaited < 0) {
      const [first, end] = this.scroll.rowsAt(this.top)
      if (this.chosen >= first && this.chosen < end) this.awaited = this.chosen // what was in sight stays there
    }
    this.scroll = new RowScroll(count, rowPx, clientHeight)
    this.spacer.style.height = `${this.scroll.heightPx}px`
    if (this.chosen >= count) this.chosen = -1
    this.options.columns.forEach(({ sort, sorted }, k) => sort && this.heads[k].setAttribute("aria-sort", sorted?.() ?? "none"))
    if (this.scroll.viewPx > 0 && this.awaited >= 0) {
      this.top = this.scroll.reveal(this.awaited, this.top)
      this.awaited = -1
    }
    this.moveTo(this.top)
  }

  private moveTo(top: number): void {
    this.top = Math.min(Math.max(top, 0), this.scroll.lastTop)
    this.view.scrollTop = this.scroll.scrollAt(this.top)
    this.draw()
  }

  private scrolled(): void {
    // Our own scrolling also fires an event, with a rounded position, which must not move the rows again.
    if (Math.abs(this.view.scrollTop - this.scroll.scrollAt(this.top)) < 1) return
    this.top = this.scroll.topAt(this.view.scrollTop)
    this.drawSoon()
  }

  /** In a scaled list one pixel of the scroll bar is many rows, so the wheel moves rows itself. */
  private wheel(event: WheelEvent): void {
    if (!this.scroll.scaled || event.ctrlKey) return
    const rows = (event.deltaY * (event.deltaMode === 1 ? this.scroll.rowPx : 1)) / this.scroll.rowPx
    const before = this.top
    this.moveTo(this.top + rows)
    if (this.top !== before) event.preventDefault()
  }

  private draw(): void {
    const { scrollTop } = this.view // read before anything changes: after it, reading makes a layout
    const [first, end] = this.scroll.rowsAt(this.top)
    const rows: HTMLElement[] = []
    for (let k = first; k < end; k++) rows.push(this.makeRow(k))
    setChildren(this.body, rows)
    this.body.style.transform = `translateY(${scrollTop - (this.top - first) * this.scroll.rowPx}px)`
    this.tellActive()
  }

  private tellActive(): void {
    const [first, end] = this.scroll.rowsAt(this.top)
    const active = this.chosen >= first && this.chosen < end
    if (active) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.chosen}`)
    else this.element.removeAttribute("aria-activedescendant")
  }

  private makeRow(index: number): HTMLElement {
    const { columns, row, rowClass, rowAttributes } = this.options
    const cells = row(index).map((content, k) => h("div", { role: "gridcell", class: columns[k].class }, content))
    return h(
      "div",
      {
        class: `row ${rowClass?.(index) ?? ""}`,
        role: "row",
        id: `${this.id}-${index}`,
        "data-row": index,
        // Not by Tab, but focusable: what scrolls has to hold something that is.
        tabindex: -1,
        "aria-rowindex": index + 2,
        "aria-selected": String(index === this.chosen),
        ...rowAttributes?.(index),
      },
      ...cells,
    )
  }

  /** A second click on the same row opens it. Browsers count clicks per element, and the first click may replace the row. */
  private click(event: MouseEvent): void {
    const element = (event.target as Element).closest<HTMLElement>("[data-row]")
    if (!element) return
    this.element.focus({ preventScroll: true }) // not the part that scrolls, which takes no keys
    const row = Number(element.dataset.row)
    const twice = row === this.clicked.row && event.timeStamp - this.clicked.at < TWICE_MS
    this.clicked = { row: twice ? -1 : row, at: event.timeStamp }
    if (twice) this.options.onOpen?.(row)
    else this.select(row)
  }

  private select(row: number): void {
    this.chosen = row
    this.draw()
    this.options.onSelect?.(row)
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return
    const { onKey, onOpen, onToggle, count } = this.options
    if (onToggle && this.chosen >= 0 && /^Arrow(Right|Left)$/.test(event.key)) {
      onToggle(this.chosen, event.key === "ArrowRight")
      return event.preventDefault()
    }
    if (onKey?.(event, this.chosen)) return event.preventDefault()
    const last = count() - 1
    const page = Math.max(Math.floor(this.scroll.viewPx / this.scroll.rowPx) - 1, 1)
    const to = {
      ArrowDown: this.chosen + 1,
      ArrowUp: this.chosen - 1,
      PageDown: this.chosen + page,
      PageUp: this.chosen - page,
      Home: 0,
      End: last,
    }[event.key]
    if (to !== undefined && last >= 0) {
      const row = Math.min(Math.max(to, 0), last)
      this.reveal(row)
      this.select(row)
    } else if ((event.key === "Enter" || event.key === " ") && this.chosen >= 0 && onOpen) onOpen(this.chosen)
    else return
    event.preventDefault()
  }
}

/** The longest time between the two clicks of a double click. */
const TWICE_MS = 500
/** The style sheet says less (max-height) where the screen is low. */
const MOST_VIEW_PX = 2000
