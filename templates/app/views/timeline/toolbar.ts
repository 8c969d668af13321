/** The row of controls above the timeline. */

import { colouringsOf, whyPlain } from "../../lib/tables/grouping"
import { formatBytes } from "../../lib/text/format"
import type { Store } from "../../store"
import { button, choiceOf, selection } from "../shared/controls"
import { type Attributes, h } from "../shared/dom"
import { zoomButtons } from "../shared/gestures"
import { oneStop } from "../shared/keys"
import { showPeak } from "./moves"
import type { Tool } from "./tools"

export interface ToolbarActions {
  showHelp(): void
  /** Takes a tool up, or puts it away. */
  toggle(tool: Tool): void
  save(kind: "png" | "svg"): void
}

export class Toolbar {
  readonly element: HTMLElement
  private readonly tools: Record<"box" | "ruler", HTMLButtonElement>

  constructor(
    private readonly store: Store,
    actions: ToolbarActions,
    private readonly signal: AbortSignal,
  ) {
    const { history } = store
    const tool = (name: "box" | "ruler", label: string, title: string) =>
      button(label, title, () => actions.toggle(name), { class: "tool", "data-tool": name })
    this.tools = {
      box: tool("box", "Drag to zoom", "Drag a box to zoom into it (B, or hold Shift)"),
      ruler: tool("ruler", "Ruler", "Measure along the curve: drag (R); with Alt, between any two points"),
    }
    this.element = h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": "Timeline", "aria-orientation": "horizontal" },
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
        "ul",
        { class: "keys", "aria-label": "Lines" },
        history.hasReserved && this.ofAll("key-reserved", "reserved"),
        history.device.envelopes.length > 0 && this.pools(),
        this.other(),
        this.replay(),
      ),
      h(
        "div",
        { class: "buttons" },
        this.tools.box,
        this.tools.ruler,
        ...zoomButtons(
          store,
          button("Go to peak", "Show the moment with the most memory (P)", () => showPeak(store)),
        ),
        button("PNG", "Save the timeline as a PNG picture", () => actions.save("png")),
        button("SVG", "Save the timeline as an SVG drawing", () => actions.save("svg")),
        button("?", "Keys (?)", actions.showHelp),
      ),
    )
    oneStop(this.element, true)
  }

  setTool(tool: Tool): void {
    for (const [name, button] of Object.entries(this.tools)) button.setAttribute("aria-pressed", String(name === tool))
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
    return h("label", { class: "colour-by" }, "Colour ", select)
  }

  /** A line that is drawn with all allocations only. */
  private ofAll(class_: string, label: string, title: string | null = null): HTMLElement {
    const key = h("li", { class: class_, title }, label)
    this.store.watch(["filtered"], () => (key.hidden = this.store.counted.partial), this.signal)
    return key
  }

  /** The lines of private pools. */
  private pools(): HTMLElement {
    const each = this.store.history.device.envelopes.map(({ pool, most }) => `${pool}, at most ${formatBytes(most)}`)
    return this.ofAll(
      "key-pool",
      "private pools",
      `From reserved down to a dotted line: what a private pool reserves, which serves nothing else. ${each.join("; ")}`,
    )
  }

  /** Which setting's reserved bytes are drawn over the recorded ones. */
  private replay(): HTMLElement {
    const { store } = this
    const key = h("li", { class: "key-replay", title: "Reserved under this setting, without a limit, by a model of the allocator" })
    const say = () => {
      const replay = store.counted.partial ? null : store.history.device.replays[store.state.replay]
      key.hidden = !replay
      key.textContent = replay ? `reserved with ${replay.settings}` : ""
    }
    store.watch(["replay", "filtered"], say, this.signal)
    return key
  }

  private other(): HTMLElement {
    const { store } = this
    const other = h("li", { class: "key-other" })
    store.watch(["curve"], () => (other.textContent = store.state.curve === "allocated" ? "requested" : "allocated"), this.signal)
    return other
  }
}
