/** The tabs below the timeline: one panel is visible at a time, and created when first opened. That of findings holds parts of the page. */

import type { History } from "../../lib/data/history"
import { differs } from "../../lib/data/observed"
import type { State, Store } from "../../store"
import { button } from "../shared/controls"
import { h } from "../shared/dom"
import { guarded, onFailure } from "../shared/failure"

/** One view of the state after `state.cursor`. */
export interface Panel {
  readonly element: HTMLElement
  /** Called when the panel becomes visible (`before` is null), and when the state changes while it is. */
  update(state: State, before: State | null): void
  /** Selects what a link names; `key` is that of a `Selection` of this panel. */
  select?(key: string): void
}

/** What a list says that is empty. */
export const NOTHING = "No allocations."

/** What decides which allocations most panels list. */
const LISTED = ["cursor", "curve", "filters", "question", "markers"] as const

/** Whether a panel that shows one state lists other allocations in another one. */
export function listsOther(state: State, shown: State | null): boolean {
  return !shown || differs(state, shown, ...LISTED)
}

/** The same, or it has another search, or another allocation pinned. */
export function showsOther(state: State, shown: State | null): boolean {
  return listsOther(state, shown) || differs(state, shown!, "search", "pinned")
}

/** Has Escape in a list clear the selection, or else unpin the allocation; returns whether it did. */
export function letGo(event: KeyboardEvent, store: Store): boolean {
  const { selection, pinned } = store.state
  if (event.key !== "Escape" || (!selection && pinned < 0)) return false
  store.set(selection ? { selection: null } : { pinned: -1, pinnedOom: -1 })
  event.stopPropagation()
  return true
}

/** Tabs about the recording as it is, whatever is left out elsewhere. */
const OF_ALL = new Set(["allocator", "recording"])
/** Tabs that stay with the cursor, or with the recording, whatever is asked about the markers. */
const OF_CURSOR = new Set(["groups", "stages", "steps", "allocator", "events"])
/** Tabs that are made anew when what is left out changes. */
const OF_COUNTED = ["stages", "steps"]

/** The tabs of a recording, in order; without the data for it, there is no tab. */
export function tabsOf({ device, hasReserved }: History): { id: string; title: string }[] {
  const all: [id: string, title: string, there: boolean][] = [
    ["findings", "Findings", true],
    ["stacks", "Call stacks", true],
    ["lines", "Lines", true],
    ["live", "Allocations", true],
    ["groups", "Groups", device.summary.recorded],
    ["stages", "Stages", device.summary.stages.length > 0],
    ["steps", "Steps", device.steps !== null],
    ["allocator", "Allocator", hasReserved],
    ["events", "Events", device.events > 0],
    ["recording", "Recording", true],
  ]
  return all.filter(([, , there]) => there).map(([id, title]) => ({ id, title }))
}

/** Pins A and B around some events, from one to before another. */
export function compareButton(store: Store, start: number, end: number): HTMLElement {
  const pin = (event: Event) => {
    event.stopPropagation() // the row stays as it is
    store.pinBetween(start, end)
  }
  return h("button.link", { type: "button", title: "Pin A at its start and B at its end", click: pin }, "A to B")
}

/** A tab, and how its panel is made. */
export interface Tab {
  readonly id: string
  readonly title: string
  readonly make?: () => Panel
}

let made = 0

export class Panels {
  readonly element: HTMLElement
  private readonly panels = new Map<string, Panel>()
  private readonly buttons: HTMLButtonElement[]
  private readonly body: HTMLElement
  private readonly findings: HTMLElement
  /** Where the parts of the page stood that are in the tab of findings. */
  private readonly stood = new Map<Element, Comment>()
  private readonly note = h("p.counts-all", { hidden: true })
  private readonly prefix = `panel-${made++}`
  private shown = ""
  /** The state in which the visible panel could not be drawn. */
  private failed: State | null = null

  /** `beside`: what stands in the row of the tabs. */
  constructor(
    private readonly store: Store,
    private readonly tabs: Tab[],
    beside: HTMLElement,
  ) {
    this.body = h("div.panel", { role: "tabpanel", id: this.prefix, tabindex: -1 })
    this.findings = h("div.panel", { role: "tabpanel", id: `${this.prefix}-parts`, tabindex: -1, hidden: true })
    this.findings.setAttribute("aria-labelledby", `${this.prefix}-findings`)
    this.buttons = tabs.map((tab) =>
      button(tab.title, null, () => store.set({ tab: tab.id }), {
        role: "tab",
        id: `${this.prefix}-${tab.id}`,
        "aria-controls": tab.make ? this.prefix : this.findings.id,
        "data-tab": tab.id,
      }),
    )
    const list = h(
      "div.tabs",
      { role: "tablist", "aria-label": "Views of the moment", keydown: (event: KeyboardEvent) => this.key(event) },
      ...this.buttons,
    )
    this.element = h("section.panels", { "aria-label": "Details" }, h("div.tab-row", list, beside), this.note, this.findings, this.body)
    onFailure(
      this.body,
      () => `\u201c${tabs.find(({ id }) => id === this.shown)?.title}\u201d`,
      (note) => {
        this.failed = store.state
        this.panels.delete(this.shown) // whatever state it is in, another step begins with a new one
        this.body.replaceChildren(
          note,
          button("Try again", null, () => this.draw(store.state, null)),
        )
      },
    )
    store.on((state, before) => this.changed(state, before))
    this.changed(store.state, null)
  }

  /** Makes some parts of the page the tab of findings, once those that it had are back where they stood. Without parts there is no such tab. */
  gather(parts: string): void {
    this.stood.forEach((place, part) => place.replaceWith(part))
    this.stood.clear()
    for (const part of parts ? document.querySelectorAll(parts) : []) {
      const place = new Comment()
      part.replaceWith(place)
      this.stood.set(part, place)
      this.findings.append(part)
    }
    const { state } = this.store
    this.changed(state, state)
  }

  /** Opens a finding in the tab of findings. */
  openFinding(id: string): void {
    this.store.set({ tab: "findings" })
    const finding = this.findings.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`)
    for (let at = finding?.querySelector("details"); at; at = at.parentElement!.closest("details")) at.open = true
    finding?.scrollIntoView({ block: "nearest" })
    finding?.querySelector("summary")!.focus()
  }

  /** The tabs that there are now. */
  private get there(): Tab[] {
    return this.tabs.filter(({ make }) => make || this.stood.size)
  }

  /** Selects what a link names, in the panel that it names: `stacks:12`. */
  restore(selection = ""): void {
    const [panel, key] = selection.split(/:(.*)/s)
    if (key && this.tabs.some((tab) => tab.make && tab.id === panel)) guarded(this.body, () => this.panel(panel).select?.(key))
  }

  /** Goes to the search of the open tab, or to that of call stacks where it has none. */
  search(): void {
    const field = () => this.element.querySelector<HTMLInputElement>("input[type=search]")
    if (!field()) this.store.set({ tab: "stacks" })
    field()?.focus()
  }

  private changed(state: State, before: State | null): void {
    if (!before || differs(state, before, "filters", "tab", "question", "markers")) this.tellTab(state.tab)
    const anew = before?.filters !== state.filters && OF_COUNTED.includes(this.shown)
    if (before?.filters !== state.filters) for (const id of OF_COUNTED) this.panels.delete(id)
    const { there } = this
    const known = there.some(({ id }) => id === state.tab) ? state.tab : "stacks"
    this.buttons[0].hidden = there.length < this.tabs.length
    if (known === this.shown) {
      if (known === "findings") return
      const { failed } = this
      if (!failed || failed.cursor !== state.cursor || failed.curve !== state.curve) this.draw(state, failed || anew ? null : before)
      return
    }
    this.shown = known
    this.tabs.forEach((tab, k) => {
      this.buttons[k].setAttribute("aria-selected", String(tab.id === known))
      this.buttons[k].tabIndex = tab.id === known ? 0 : -1
    })
    const gathered = known === "findings"
    this.findings.hidden = !gathered
    this.body.hidden = gathered
    if (gathered) return
    this.body.setAttribute("aria-labelledby", `${this.prefix}-${known}`)
    this.draw(state, null)
  }

  /** Says which of the reader's choices a tab does not follow. */
  private tellTab(tab: string): void {
    const { counted, asked } = this.store
    const notes = [
      counted.partial && OF_ALL.has(tab) && "This tab counts all allocations, including those left out.",
      asked.kind !== "live" && OF_CURSOR.has(tab) && "This tab does not answer the question about A and B.",
    ].filter(Boolean)
    this.note.hidden = !notes.length
    this.note.textContent = notes.join(" ")
  }

  /** Draws the visible panel; `before` is null if it has just become visible. */
  private draw(state: State, before: State | null): void {
    guarded(this.body, () => {
      const panel = this.panel(this.shown)
      this.failed = null
      if (!before) this.body.replaceChildren(panel.element)
      panel.update(state, before)
    })
  }

  private panel(id: string): Panel {
    let panel = this.panels.get(id)
    if (!panel) {
      panel = this.tabs.find((tab) => tab.id === id)!.make!()
      this.panels.set(id, panel)
    }
    return panel
  }

  private key(event: KeyboardEvent): void {
    const { there } = this
    const at = there.findIndex((tab) => tab.id === this.shown)
    const last = there.length - 1
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key]
    if (to === undefined) return
    event.preventDefault()
    this.store.set({ tab: there[to].id })
    this.buttons.find((each) => each.tabIndex === 0)!.focus()
  }
}
