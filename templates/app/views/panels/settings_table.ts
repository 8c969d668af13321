/** The table of the allocator's other settings: one of them is drawn on the timeline. */

import type { Store } from "../../store"
import { h } from "../shared/dom"

let made = 0

/** Lets the reader choose rows of a table that is in the page's HTML. */
export class SettingsTable {
  private readonly inputs: HTMLInputElement[] = []

  /** `section`: taken out of the page. `show`: scrolls to the timeline, if there is one. */
  constructor(
    readonly section: HTMLElement,
    private readonly store: Store,
    show: (() => void) | null,
  ) {
    if (!show || !store.history.device.replays.length) return
    const name = `replay-${made++}`
    for (const row of section.querySelectorAll<HTMLTableRowElement>("tr[data-curve]")) {
      const replay = Number(row.dataset.curve)
      const input = h("input", { type: "radio", name, checked: replay === store.state.replay, change: () => this.choose(replay, show) })
      this.inputs.push(input)
      const cell = row.cells[0]
      cell.replaceChildren(h("label", {}, input, " ", ...cell.childNodes))
    }
    section
      .querySelector(".scroll")!
      .before(h("p", {}, "Choose one to see on the timeline what it would have reserved without a limit, over what was reserved."))
  }

  update(): void {
    for (const input of this.inputs) {
      const row = input.closest<HTMLElement>("tr")!
      input.checked = Number(row.dataset.curve) === this.store.state.replay
      row.classList.toggle("chosen", input.checked)
    }
  }

  private choose(replay: number, show: () => void): void {
    this.store.showReplay(replay)
    show()
  }
}
