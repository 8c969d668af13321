/** The tools that dragging the plot uses: moving, a box to zoom to, and the ruler. */

import type { Point, Window } from "../../lib/picture/window"
import type { Store } from "../../store"

export type Tool = "move" | "box" | "ruler"

export class Tools {
  tool: Tool = "move"
  /** The box being dragged, in CSS pixels of the plot element. */
  box: Window | null = null
  /** Whether the ruler's second end goes with the cursor. */
  private follows = false

  /** `onChange`: the tool or the box is another one. `signal` ends it. */
  constructor(
    private readonly store: Store,
    private readonly onChange: () => void,
    signal: AbortSignal,
  ) {
    store.on(({ cursor, ruler }, before) => {
      if (this.follows && ruler && cursor !== before.cursor) this.stretch(ruler)
    }, signal)
  }

  private stretch(ruler: Window): void {
    const { x: x1, y: y1 } = this.cursor
    this.store.set({ ruler: { ...ruler, x1, y1 } })
  }

  /** Where the cursor meets the curve. */
  private get cursor(): Point {
    return this.onCurve(this.store.state.cursor)
  }

  /** The curve's point at an event. */
  onCurve(event: number): Point {
    const { scale, counted, state } = this.store
    return { x: scale.xOf(event), y: counted.at(state.curve, event) }
  }

  choose(tool: Tool): void {
    this.tool = tool
    if (tool !== "ruler") {
      this.follows = false
      if (this.store.state.ruler) this.store.set({ ruler: null })
    }
    this.onChange()
  }

  /** Takes a tool up, or puts it away. */
  toggle(tool: Tool): void {
    this.choose(this.tool === tool ? "move" : tool)
  }

  /** By key a ruler begins at the cursor and ends where that goes; by pointer it is dragged along the curve. */
  toggleRuler(): void {
    this.toggle("ruler")
    this.follows = this.tool === "ruler"
    if (!this.follows) return
    const { x, y } = this.cursor
    this.store.set({ ruler: { x0: x, y0: y, x1: x, y1: y } })
  }

  /** Shows a box while it is dragged; one that was asked for is drawn once. */
  showBox(box: Window | null): void {
    if (box === this.box) return
    this.box = box
    if (!box && this.tool === "box") this.choose("move")
    else this.onChange()
  }

  /** Lets go of everything that is picked or measured. */
  escape(): void {
    this.choose("move")
    this.store.set({ pinned: -1, pinnedOom: -1, chosenGroup: -1, hovered: -1, hoveredGroup: -1, selection: null })
  }
}
