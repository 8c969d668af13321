/** The panel beside the timeline: its legend, or the details of what is pinned. */

import { isDark } from "../../lib/picture/theme"
import type { Grouping } from "../../lib/tables/grouping"
import type { Store } from "../../store"
import { details, oomDetails } from "../shared/details"
import { h } from "../shared/dom"
import { Legend } from "./legend"
import { allocationTip, oomTip } from "../drawing/tooltip"

export class Side {
  readonly element = h("aside.side", { "aria-label": "Selection" })
  private readonly legend: Legend

  /** `say` announces what was pinned to screen readers; `onClose`: the details were closed. */
  constructor(
    private readonly store: Store,
    private readonly say: (text: string) => void,
    private readonly onClose: () => void,
  ) {
    this.legend = new Legend(store)
  }

  /** Shows what went wrong, until the panel shows something else. */
  fail(note: HTMLElement): void {
    delete this.element.dataset.shows
    this.element.replaceChildren(note)
  }

  /** Shows what the state asks for; details that are shown already stay as they are. */
  show(grouping: Grouping, areas: Float64Array | null): void {
    const { element, store } = this
    const { history, state } = store
    const unpin = () => {
      store.pin(-1)
      this.onClose()
    }
    const key =
      state.pinnedOom >= 0 ? `oom ${state.pinnedOom}` : state.pinned >= 0 ? `${grouping.colouring} ${state.pinned} ${isDark()}` : ""
    if (key && key === element.dataset.shows) return
    const fresh = key !== element.dataset.shows
    element.dataset.shows = key
    if (state.pinnedOom >= 0) {
      element.replaceChildren(oomDetails(history, state.pinnedOom, (oom) => store.pinOom(oom), unpin))
      this.say(oomTip(history, state.pinnedOom).textContent ?? "")
    } else if (state.pinned < 0) {
      this.legend.update(grouping, areas)
      if (element.firstChild !== this.legend.element) element.replaceChildren(this.legend.element)
    } else {
      element.replaceChildren(details(store, state.pinned, unpin))
      this.say(allocationTip(store, state.pinned).textContent ?? "")
    }
    if (fresh) element.scrollTop = 0
  }
}
