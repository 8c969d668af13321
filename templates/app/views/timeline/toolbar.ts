/** The row of controls above the timeline. */

import type { Curve } from "../../lib/data/curves"
import { COLOURINGS, whyPlain } from "../../lib/tables/grouping"
import type { Axis } from "../../lib/data/scale"
import { zoomed } from "../../lib/picture/window"
import type { Store } from "../../store"
import { button, type Option, segmented, selection } from "../shared/controls"
import { type Attributes, h } from "../shared/dom"
import type { Tool } from "./input"

export interface ToolbarActions {
  showPeak(): void
  showHelp(): void
  setTool(tool: Tool): void
  save(kind: "png" | "svg"): void
}

export class Toolbar {
  readonly element: HTMLElement
  private readonly tools: Record<"box" | "ruler", HTMLButtonElement>

  constructor(
    private readonly store: Store,
    actions: ToolbarActions,
  ) {
    const { history } = store
    const zoom = (factor: number) => store.set({ window: zoomed(store.state.window, 0.5, 0.5, factor, factor) })
    const tool = (name: "box" | "ruler", label: string, title: string) => {
      const press = () => actions.setTool(this.tools[name].getAttribute("aria-pressed") === "true" ? "move" : name)
      return button(label, title, press, { class: "tool", "data-tool": name })
    }
    this.tools = {
      box: tool("box", "Box", "Zoom to a box: drag it (B, or hold Shift)"),
      ruler: tool("ruler", "Ruler", "Measure between two points (R)"),
    }
    this.element = h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": "Timeline" },
      this.choice<Curve>("Height of a strip", "curve", [
        ["allocated", "Allocated", "Heights are block bytes, until free_requested: torch.cuda.memory_allocated()"],
        ["requested", "Requested", "Heights are requested bytes, until free_completed"],
      ]),
      this.choice<Axis>("Horizontal axis", "axis", [
        ["events", "Events", "Each event has the same width"],
        ["time", "Time", "Wall-clock time after the first event", () => (history.hasTimes ? "" : "This recording has no times")],
      ]),
      this.colours(),
      h(
        "ul",
        { class: "keys", "aria-label": "Lines" },
        history.hasReserved && h("li", { class: "key-reserved" }, "reserved"),
        this.other(),
        this.replay(),
      ),
      h(
        "div",
        { class: "buttons" },
        this.tools.box,
        this.tools.ruler,
        button("\u2212", "Zoom out (\u2212)", () => zoom(1 / 0.7)),
        button("+", "Zoom in (+)", () => zoom(0.7)),
        button("Peak", "Go to the peak (P)", actions.showPeak),
        button("All", "Show everything (0)", () => store.set({ window: store.whole })),
        button("PNG", "Save the timeline as a PNG picture", () => actions.save("png")),
        button("SVG", "Save the timeline as an SVG drawing", () => actions.save("svg")),
        button("?", "Keys (?)", actions.showHelp),
      ),
    )
  }

  setTool(tool: Tool): void {
    for (const [name, button] of Object.entries(this.tools)) button.setAttribute("aria-pressed", String(name === tool))
  }

  private choice<T extends Curve | Axis>(legend: string, field: "curve" | "axis", options: Option<T>[]): HTMLElement {
    const { store } = this
    const { element, say } = segmented<T>(
      legend,
      options,
      () => store.state[field] as T,
      (value) => store.set({ [field]: value }),
    )
    store.on((state, before) => state[field] !== before[field] && say())
    return element
  }

  /** The choice of colouring; one that would show only one colour is disabled, and says why. */
  private colours(): HTMLElement {
    const { store } = this
    const options = COLOURINGS.map(([value, label]): [string, string, Attributes] => {
      const why = whyPlain(store.history, value)
      return [value, label, { disabled: why !== "", title: why || null, selected: store.state.colouring === value }]
    })
    const select = selection("Colour by", options, (colouring) => store.set({ colouring }))
    store.on((state, before) => {
      if (state.colouring !== before.colouring) select.value = state.colouring
    })
    return h("label", { class: "colour-by" }, "Colour ", select)
  }

  /** Which setting's reserved bytes are drawn over the recorded ones. */
  private replay(): HTMLElement {
    const { store } = this
    const key = h("li", { class: "key-replay", title: "Reserved under this setting, without a limit, by a model of the allocator" })
    const say = () => {
      const replay = store.history.device.replays[store.state.replay]
      key.hidden = !replay
      key.textContent = replay ? `reserved with ${replay.settings}` : ""
    }
    store.on((state, before) => state.replay !== before.replay && say())
    say()
    return key
  }

  private other(): HTMLElement {
    const { store } = this
    const other = h("li", { class: "key-other" })
    const say = () => (other.textContent = store.state.curve === "allocated" ? "requested" : "allocated")
    store.on((state, before) => state.curve !== before.curve && say())
    say()
    return other
  }
}
