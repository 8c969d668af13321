/** The call stacks of the moment: top-down, bottom-up and as a flame graph, with focus and search. */

import { formatCount, formatExact, formatShare, formatSignedBytes, plural } from "../../lib/text/format"
import { differs } from "../../lib/data/observed"
import { frameText } from "../../lib/data/frames"
import { type CallTree, ROOT } from "../../lib/tables/tree"
import { directionOf, parseKey, type StackMode, type StacksView, TreeModel } from "../../lib/tables/tree_model"
import type { Selection, State, Store } from "../../store"
import { button, linkButton, type Option, searchField, segmented } from "../shared/controls"
import { h, nameText, pathText } from "../shared/dom"
import { inNextFrame } from "../shared/failure"
import { FlameView } from "./flame_graph"
import { amountText, frameLabel } from "../shared/frame_cells"
import { letGo, listsOther, type Panel, showsOther } from "./panels"
import { TreeList } from "./call_tree"

const MODES: Option<StackMode>[] = [
  ["down", "Top-down", "From the outermost function inwards"],
  ["up", "Bottom-up", "From the line that allocated, with its callers below it"],
  ["flame", "Flame", "Top-down as a picture: as wide as the bytes"],
]

export class StacksPanel implements Panel {
  readonly element: HTMLElement
  private readonly model: TreeModel
  private readonly tree: TreeList
  private readonly flame: FlameView
  private readonly modes: ReturnType<typeof segmented>
  private readonly fold: HTMLInputElement
  private readonly input: HTMLInputElement
  private readonly found = h("output.found", { "aria-live": "polite" })
  private readonly steps: HTMLElement
  private readonly trail = h("nav.trail", { "aria-label": "Focused subtree" })
  private readonly note = h("p.pin-note")
  private readonly about = h("div.about-node")
  private readonly body = h("div.stacks-body")
  private readonly hint = h("p.hint.keys-hint")
  private readonly narrow = button("Focus", "Show only what is below the selected row (f)", () => this.focus(this.model.chosen), {
    disabled: true,
  })
  private mode: StackMode
  private readonly refreshSoon = inNextFrame(this, () => this.refresh())
  /** What is on the screen. */
  private shown: State | null = null

  constructor(private readonly store: Store) {
    const { history, state } = store
    this.model = new TreeModel(history.device, history.stacks)
    this.mode = state.stacks.mode
    this.answer()
    this.model.adopt(state.stacks)
    const actions = {
      select: (node: number) => this.pick(node),
      key: (event: KeyboardEvent, node: number) => this.key(event, node),
      changed: () => this.tell(),
      zoom: (node: number) => this.focus(node),
    }
    this.tree = new TreeList(history, this.model, actions)
    this.flame = new FlameView(history, this.model, actions)
    this.modes = segmented(
      "Order of the call stacks",
      MODES,
      () => this.mode,
      (mode) => this.turn(mode),
    )
    this.fold = h("input", { type: "checkbox", checked: this.model.folded, change: () => this.hide(this.fold.checked) })
    this.input = searchField("Search functions and files", (search) => store.set({ search }), {
      title: "Part of a name or path, a glob (*.py) or a /regular expression/",
      keydown: (event: KeyboardEvent) => this.searchKey(event),
    })
    this.steps = h(
      "span.found-steps",
      { hidden: true },
      button("\u2039", "Previous match (N)", () => this.next(-1)),
      button("\u203a", "Next match (n)", () => this.next(1)),
    )
    this.element = h(
      "div.stacks",
      h(
        "div.toolbar",
        this.modes.element,
        h("span.searching", this.input, this.steps, this.found),
        h("label.check", { title: "Hide or show frames inside of libraries (h)" }, this.fold, "Hide library-internal frames"),
        h(
          "div.buttons",
          button("Expand all", "Expand all (e)", () => this.expandAll(), { "data-act": "expand" }),
          button("Collapse", "Collapse all (c)", () => this.collapse(), { "data-act": "collapse" }),
          this.narrow,
        ),
      ),
      this.trail,
      this.note,
      this.body,
      this.hint,
      this.about,
    )
    this.place()
  }

  update(state: State, before: State | null): void {
    if (!before) return this.refresh()
    if (showsOther(state, this.shown) || state.selection !== before.selection || !sameView(state.stacks, this.view)) this.refreshSoon()
  }

  /** `key`: of a selection made here. */
  select(key: string): void {
    const { model } = this
    const named = parseKey(key)
    if (!named || named.node === ROOT) return
    const { direction, folded, node } = named
    const tree = model.treeOf(direction, folded)
    if (node >= tree.size) return
    this.adopt()
    this.store.set({ selection: this.selectionOf(tree, node, key) })
    if (direction !== model.direction || folded !== model.folded || !model.isUnder(node, model.top)) return
    model.choose(node)
    model.reveal(node)
    this.draw(node)
  }

  /** The part of the panel's state that a link holds, as shown. */
  private get view(): StacksView {
    return { mode: this.mode, folded: this.model.folded, top: this.model.top }
  }

  /** Adopts the state of a link; returns whether it is different. */
  private adopt(): boolean {
    const { stacks } = this.store.state
    if (sameView(stacks, this.view)) return false
    this.mode = stacks.mode
    this.model.adopt(stacks)
    this.place()
    return true
  }

  private get graph(): TreeList | FlameView {
    return this.mode === "flame" ? this.flame : this.tree
  }

  /** Brings the screen up to date with the state. */
  private refresh(): void {
    const { store, model, shown } = this
    const { search, pinned, selection } = store.state
    const asked = this.adopt() || !shown
    let reveal = -1
    if (listsOther(store.state, shown)) this.answer()
    if (!shown || shown.search !== search) {
      if (this.input.value !== search) this.input.value = search
      model.search(search)
      this.input.setAttribute("aria-invalid", String(model.refused !== ""))
      if (model.match >= 0) reveal = model.chosen
    }
    this.note.textContent = ""
    if (pinned >= 0) {
      const leaf = model.tree.leafOf(pinned)
      // A focus that was asked for stays; else the pinned allocation leads out of it.
      if (shown?.pinned !== pinned && (!asked || model.isUnder(leaf, model.top)) && model.reveal(leaf)) {
        reveal = leaf
        model.choose(leaf)
      }
      if (store.hidden?.[pinned]) this.note.append("The pinned allocation is left out.")
      else if (store.asked.kind === "live" && !store.answer.rows.includes(pinned))
        this.note.append("The pinned allocation is not live at this event. ", this.goTo(pinned))
    }
    if (shown && !selection && pinned < 0 && model.match < 0) model.choose(-1)
    this.shown = store.state
    this.draw(reveal)
  }

  private answer(): void {
    const { ofAllocation, length } = this.model.origins
    this.model.show(this.store.amounts(ofAllocation, length))
  }

  private goTo(allocation: number): HTMLElement {
    const birth = this.store.history.device.allocEvent[allocation]
    return linkButton("Go to where it was made", () => this.store.goTo(birth))
  }

  private draw(reveal = -1): void {
    const { model, store } = this
    const { pinned } = store.state
    this.graph.mark(pinned < 0 ? -1 : model.tree.leafOf(pinned))
    this.graph.refresh()
    if (reveal >= 0) this.graph.reveal(reveal)
    this.say()
    this.tell()
    this.lead()
    if (!sameView(store.state.stacks, this.view)) store.set({ stacks: this.view })
  }

  private say(): void {
    const { found, match, sums } = this.model
    const { search } = this.store.state
    this.steps.hidden = !found?.nodes.length
    if (!search.trim()) this.found.textContent = ""
    else if (!found) this.found.textContent = this.model.refused
    else if (!found.nodes.length) this.found.textContent = "nothing found"
    else {
      const place =
        match < 0
          ? plural(found.nodes.length, "match").replace(/matchs$/, "matches")
          : `${formatCount(match + 1)} of ${formatCount(found.nodes.length)}`
      this.found.textContent = `${place} \u00b7 ${amountText(found.moved, sums.whole, sums.signed ? found.bytes : undefined)}`
    }
  }

  /** Shows in full what a row has to shorten. */
  private tell(): void {
    const { model, store } = this
    const { tree, sums, chosen } = model
    this.narrow.disabled = chosen < 0 || chosen === model.top
    if (chosen < 0 || !sums.count[chosen]) return this.about.replaceChildren()
    const frame = tree.frame[chosen]
    const { stacks } = store.history
    const { fullName, path } = frame < 0 ? { fullName: tree.label(chosen), path: "" } : frameText(stacks, frame)
    const own = sums.ownBytes[chosen]
    this.about.replaceChildren(
      h("p", h("code", nameText(fullName)), path && " ", path && h("span.place", pathText(path))),
      h(
        "p.figures-line",
        `${sums.signed ? formatSignedBytes(sums.bytes[chosen]) : formatExact(sums.bytes[chosen])} (${formatShare(sums.moved[chosen], sums.whole)}) in ${plural(sums.count[chosen], "allocation")}`,
        own > 0 && own < sums.bytes[chosen] && !sums.signed ? `, ${formatExact(own)} of it in paths that end here` : "",
      ),
    )
  }

  /** Leads out of a focused subtree. */
  private lead(): void {
    const { model, store } = this
    const { tree, top } = model
    this.trail.hidden = top === ROOT && !model.canGoBack
    const path = tree.pathTo(top).map((node) => {
      const label = frameLabel(store.history, tree.frame[node], tree.label(node))
      return h("li", node === top ? h("b", { "aria-current": "true" }, label) : linkButton(label, () => this.focus(node)))
    })
    const back = button("\u2190 Back", "Back to what was shown before (b)", () => this.back(), { disabled: !model.canGoBack })
    this.trail.replaceChildren(back, h("ol", ...path))
  }

  private pick(node: number): void {
    const { model } = this
    this.store.set({ selection: node === ROOT ? null : this.selectionOf(model.tree, node, model.keyOf(node)) })
    this.tell()
  }

  private selectionOf(tree: CallTree, node: number, key: string): Selection {
    return { panel: "stacks", key, label: frameLabel(this.store.history, tree.frame[node], tree.label(node)), rows: tree.rowsOf(node) }
  }

  private turn(mode: StackMode): void {
    this.mode = mode
    this.model.turn(directionOf(mode), this.model.folded)
    this.place()
    this.draw(this.model.chosen)
  }

  private hide(folded: boolean): void {
    this.model.turn(this.model.direction, folded)
    this.place()
    this.draw(this.model.chosen)
  }

  /** Puts the view of the present mode into the page. */
  private place(): void {
    this.modes.say()
    this.fold.checked = this.model.folded
    this.element.dataset.mode = this.mode
    this.hint.replaceChildren(
      ...(this.mode === "flame" ? FLAME_KEYS : TREE_KEYS).map(([keys, what]) => h("span", h("kbd", keys), ` ${what}`)),
    )
    const element = this.mode === "flame" ? this.flame.element : this.tree.list.element
    if (this.body.firstElementChild !== element) this.body.replaceChildren(element)
  }

  private expandAll(): void {
    this.model.expandAll()
    this.draw()
  }

  private collapse(): void {
    this.model.collapse()
    this.model.choose(this.model.top)
    this.draw()
  }

  private focus(node: number): void {
    if (node < 0 || node === this.model.top) return
    this.model.focus(node)
    this.draw(node)
  }

  private back(): boolean {
    const done = this.model.back()
    if (done) this.draw(this.model.chosen)
    return done
  }

  private next(by: 1 | -1): void {
    if (this.shown?.search !== this.store.state.search) this.refresh() // what was typed last
    this.model.next(by)
    if (this.model.match < 0) return
    this.pick(this.model.chosen)
    this.draw(this.model.chosen)
  }

  private focusView(): void {
    if (this.mode === "flame") this.flame.element.querySelector<HTMLElement>("[tabindex='0']")?.focus()
    else this.tree.list.element.focus()
  }

  private searchKey(event: KeyboardEvent): void {
    if (event.key === "Enter") {
      this.next(event.shiftKey ? -1 : 1)
      this.focusView() // where n and N go on
    } else if (event.key === "ArrowDown") this.focusView()
    else if (event.key === "Escape") {
      this.store.set({ search: "" })
      this.focusView()
    } else return
    event.preventDefault()
    event.stopPropagation()
  }

  private key(event: KeyboardEvent, node: number): boolean {
    const keys: Record<string, () => void> = {
      f: () => this.focus(node),
      b: () => this.back(),
      Backspace: () => this.back(),
      h: () => this.hide(!this.model.folded),
      e: () => this.expandAll(),
      c: () => this.collapse(),
      n: () => this.next(1),
      N: () => this.next(-1),
    }
    const act = keys[event.key]
    if (!act) return letGo(event, this.store)
    act()
    event.stopPropagation()
    return true
  }
}

function sameView(a: StacksView, b: StacksView): boolean {
  return !differs(a, b, "mode", "folded", "top")
}

/** Keys, and what they do. */
export const TREE_KEYS = [
  ["\u2192 and \u2190", "open and close a row, or go down and up"],
  ["E and C", "expand all, collapse"],
  ["F and B", "focus on the selected row, go back"],
  ["H", "hide or show library-internal frames"],
  ["/", "search"],
  ["N and Shift N", "the next and the previous match"],
  ["Esc", "clear the selection"],
]
export const FLAME_KEYS = [
  ["Arrows", "to the caller, a callee or a sibling"],
  ["Enter, double-click", "zoom in"],
  ["Home", "to the top"],
  ["F, B, H, / and N", "as in call stacks"],
]
