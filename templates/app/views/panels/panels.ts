/** The tabs below the timeline: one panel is visible at a time, and created when first opened. */

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

/** What decides what most panels list. */
export type Shown = Pick<State, "cursor" | "curve" | "search" | "pinned" | "filtered">

export function showsOther(state: Shown, shown: Shown | null): boolean {
  return !shown || differs(state, shown, "cursor", "curve", "search", "pinned", "filtered")
}

/** Tabs about the recording as it is, whatever is left out elsewhere. */
const OF_ALL = new Set(["stages", "steps", "allocator", "recording"])

/** The tabs of a recording, in order; without the data for it, there is no tab. */
export function tabsOf({ device, hasReserved }: History): { id: string; title: string }[] {
  const all: [id: string, title: string, there: boolean][] = [
    ["stacks", "Call stacks", true],
    ["lines", "Lines", true],
    ["live", "Allocations", true],
    ["stages", "Stages", device.summary.stages.length > 0],
    ["steps", "Steps", device.steps !== null],
    ["allocator", "Allocator", hasReserved],
    ["events", "Events", device.events > 0],
    ["recording", "Recording", true],
  ]
  return all.filter(([, , there]) => there).map(([id, title]) => ({ id, title }))
}

/** A tab, and how its panel is made. */
export interface Tab {
  readonly id: string
  readonly title: string
  make(): Panel
}

let made = 0

export class Panels {
  readonly element: HTMLElement
  private readonly panels = new Map<string, Panel>()
  private readonly buttons: HTMLButtonElement[]
  private readonly body: HTMLElement
  private readonly note = h("p", { class: "counts-all", hidden: true }, "This tab counts all allocations, including those left out.")
  private readonly prefix = `panel-${made++}`
  private shown = ""
  /** The state in which the visible panel could not be drawn. */
  private failed: State | null = null

  constructor(
    private readonly store: Store,
    private readonly tabs: Tab[],
  ) {
    this.body = h("div", { class: "panel", role: "tabpanel", id: this.prefix, tabindex: -1 })
    this.buttons = tabs.map((tab) =>
      button(tab.title, null, () => store.set({ tab: tab.id }), {
        role: "tab",
        id: `${this.prefix}-${tab.id}`,
        "aria-controls": this.prefix,
        "data-tab": tab.id,
      }),
    )
    const list = h(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Views of the moment", keydown: (event: KeyboardEvent) => this.key(event) },
      ...this.buttons,
    )
    this.element = h("section", { class: "panels", "aria-label": "Details" }, list, this.note, this.body)
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

  /** Selects what a link names, in the panel that it names. */
  restore(panel: string, key: string): void {
    if (this.tabs.some((tab) => tab.id === panel)) guarded(this.body, () => this.panel(panel).select?.(key))
  }

  private changed(state: State, before: State | null): void {
    if (!before || differs(state, before, "filtered", "tab")) this.note.hidden = !this.store.counted.partial || !OF_ALL.has(state.tab)
    const known = this.tabs.some((tab) => tab.id === state.tab) ? state.tab : this.tabs[0].id
    if (known === this.shown) {
      const { failed } = this
      if (!failed || failed.cursor !== state.cursor || failed.curve !== state.curve) this.draw(state, failed ? null : before)
      return
    }
    this.shown = known
    this.tabs.forEach((tab, k) => {
      this.buttons[k].setAttribute("aria-selected", String(tab.id === known))
      this.buttons[k].tabIndex = tab.id === known ? 0 : -1
    })
    this.body.setAttribute("aria-labelledby", `${this.prefix}-${known}`)
    this.draw(state, null)
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
      panel = this.tabs.find((tab) => tab.id === id)!.make()
      this.panels.set(id, panel)
    }
    return panel
  }

  private key(event: KeyboardEvent): void {
    const at = this.tabs.findIndex((tab) => tab.id === this.shown)
    const last = this.tabs.length - 1
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key]
    if (to === undefined) return
    event.preventDefault()
    this.store.set({ tab: this.tabs[to].id })
    this.buttons[to].focus()
  }
}
