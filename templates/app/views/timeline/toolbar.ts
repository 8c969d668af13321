/** The row of controls above the timeline. */

import type { Envelope } from "../../lib/data/replays"
import { colouringsOf, whyPlain } from "../../lib/tables/grouping"
import { formatBytes } from "../../lib/text/format"
import type { Store } from "../../store"
import { button, choiceOf, selection } from "../shared/controls"
import { type Attributes, h, TELLS } from "../shared/dom"
import { zoomButtons } from "../shared/gestures"
import { oneStop } from "../shared/keys"
import type { Tool } from "./input"

export class Toolbar {
  readonly element: HTMLElement
  private readonly box: HTMLButtonElement

  constructor(
    private readonly store: Store,
    actions: { showHelp(): void; toggleBox(): void; save(kind: "png" | "svg"): void },
    private readonly signal: AbortSignal,
  ) {
    const { history, beside } = store
    const shown = beside ? [history, beside.history] : [history]
    this.box = button("Box", "Drag a box to zoom into it (B, or hold Shift)", actions.toggleBox, { class: "tool", "data-tool": "box" })
    this.element = h(
      "div.toolbar",
      { role: "toolbar", "aria-label": "Timeline", "aria-orientation": "horizontal" },
      choiceOf(
        store,
        "curve",
        "Height of a strip",
        [
          ["allocated", "Allocated", "Heights are block bytes, until free_requested: torch.cuda.memory_allocated()"],
          ["requested", "Requested", "Heights are requested bytes, until free_completed"],
        ],
        signal,
      ),
      choiceOf(
        store,
        "axis",
        "Horizontal axis",
        [
          ["events", "Events", "Each event has the same width"],
          ["time", "Time", "Wall-clock time after the first event", () => (history.hasTimes ? "" : "This recording has no times")],
        ],
        signal,
      ),
      this.colours(),
      h(
        "ul.keys",
        { "aria-label": "Lines" },
        shown.some(({ hasReserved }) => hasReserved) && this.ofAll("key-reserved", "reserved"),
        this.pools(shown.flatMap(({ device }) => device.envelopes)),
        this.other(),
        this.replay(),
      ),
      h(
        "div.buttons",
        this.box,
        ...zoomButtons(store),
        button("PNG", "Save the timeline as a PNG picture", () => actions.save("png")),
        button("SVG", "Save the timeline as an SVG drawing", () => actions.save("svg")),
        button("?", "Keys (?)", actions.showHelp),
      ),
    )
    oneStop(this.element, true)
  }

  setTool(tool: Tool): void {
    this.box.setAttribute("aria-pressed", String(tool === "box"))
  }

  /** The choice of colouring; one that would show only one colour is disabled, and says why. */
  private colours(): HTMLElement {
    const { store } = this
    const options = colouringsOf(store.history.device).map(([value, label]): [string, string, Attributes] => {
      const why = whyPlain(store.history, value)
      return [value, label, { disabled: why !== "", title: why || null }]
    })
    const select = selection("Colour by", options, (colouring) => store.set({ colouring }))
    store.watch(["colouring"], () => (select.value = store.state.colouring), this.signal)
    return h("label.colour-by", h("span", TELLS, "Colour"), " ", select)
  }

  /** A line that is drawn with all allocations only. */
  private ofAll(class_: string, label: string, title: string | null = null): HTMLElement {
    const key = h("li", { class: class_, title }, label)
    this.store.watch(["filters"], () => (key.hidden = this.store.counted.partial), this.signal)
    return key
  }

  /** The bands of private pools. */
  private pools(envelopes: Envelope[]): HTMLElement | false {
    const each = envelopes.map(({ pool, most }) => `${pool}, at most ${formatBytes(most)}`)
    return (
      each.length > 0 &&
      this.ofAll("key-pool", "private pools", `Hatched: what a private pool reserves, which serves nothing else. ${each.join("; ")}`)
    )
  }

  /** Which setting's reserved bytes are drawn over the recorded ones. */
  private replay(): HTMLElement {
    const { store } = this
    const key = h("li.key-replay", { title: "Reserved under this setting, without a limit, by a model of the allocator" })
    const say = () => {
      const replay = store.counted.partial ? null : store.history.device.replays[store.state.replay]
      key.hidden = !replay
      key.textContent = replay ? `reserved with ${replay.settings}` : ""
    }
    store.watch(["replay", "filters"], say, this.signal)
    return key
  }

  private other(): HTMLElement {
    const { store } = this
    const other = h("li.key-other")
    store.watch(["curve"], () => (other.textContent = store.state.curve === "allocated" ? "requested" : "allocated"), this.signal)
    return other
  }
}
