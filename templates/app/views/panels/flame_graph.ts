/** The call tree as an icicle of buttons: outermost on top, as wide as their bytes; of a change, red where it grew and blue where it shrank. */

import { layOut, type Tile } from "../../lib/tables/flame"
import { formatAmount, formatCount, plural } from "../../lib/text/format"
import { frameKind } from "../../lib/data/frames"
import type { History } from "../../lib/data/history"
import type { TreeModel } from "../../lib/tables/tree_model"
import type { TreeActions } from "./call_tree"
import { NOTHING } from "./panels"
import { h, setChildren } from "../shared/dom"
import { guarded } from "../shared/failure"
import { amountText, frameLabel, frameTitle, tint } from "../shared/frame_cells"

/** The least width of a tile of its own. */
const LEAST_PX = 4
/** The most tiles: the least width is doubled until there are no more. */
const MOST_TILES = 3000
/** Narrower tiles have no text. */
const TEXT_PX = 26

export class FlameView {
  readonly element: HTMLElement
  private readonly body: HTMLElement
  private readonly resizing = new ResizeObserver(() => guarded(this.element, () => this.draw()))
  private tiles: Tile[] = []
  private marked: ReadonlySet<number> = new Set()
  private widthPx = 0

  constructor(
    private readonly history: History,
    private readonly model: TreeModel,
    private readonly actions: TreeActions,
  ) {
    this.body = h("div.flame", {
      role: "tree",
      "aria-label": "Flame graph of call stacks",
      click: (event: MouseEvent) => this.at(event, (tile) => this.choose(tile)),
      dblclick: (event: MouseEvent) => this.at(event, (tile) => this.actions.zoom(tile.node)),
      keydown: (event: KeyboardEvent) => this.key(event),
    })
    this.element = h("div.flame-view", this.body)
    this.resizing.observe(this.body)
  }

  mark(leaf: number): void {
    this.marked = new Set(leaf < 0 ? [] : this.model.tree.pathTo(leaf))
  }

  /** Draws the current state of the model; the focus stays on its tile. */
  refresh(): void {
    this.widthPx = 0
    this.draw()
  }

  /** Scrolls to a node's tile. */
  reveal(node: number): void {
    this.tileOf(node)?.scrollIntoView({ block: "nearest" })
  }

  private draw(): void {
    const width = this.body.clientWidth
    if (!width || width === this.widthPx) return
    this.widthPx = width
    const { model } = this
    let least = LEAST_PX / width
    do {
      this.tiles = layOut(model.sums, model.top, least)
      least *= 2
    } while (this.tiles.length > MOST_TILES)
    const focused = this.body.contains(document.activeElement)
    const empty = model.sums.count[model.top] === 0
    const rows = Math.max(0, ...this.tiles.map((tile) => tile.row)) + 1
    this.body.style.setProperty("--rows", String(rows))
    const stop = this.tiles.some((tile) => !tile.smaller && tile.node === model.chosen) ? model.chosen : model.top
    setChildren(this.body, empty ? [h("p.empty", NOTHING)] : this.tiles.map((tile, k) => this.make(tile, k, width, stop)))
    if (focused) this.tileOf(stop)?.focus()
  }

  private make(tile: Tile, k: number, width: number, stop: number): HTMLElement {
    const { model } = this
    const { node, smaller } = tile
    const label = this.label(tile)
    const frame = smaller ? -1 : model.tree.frame[node]
    const text = (tile.x1 - tile.x0) * width >= TEXT_PX ? label : ""
    const classes = ["tile", smaller ? "smaller" : "", frame >= 0 ? frameKind(this.history.stacks, frame) : ""]
    if (!smaller && model.found?.isMatch[node]) classes.push(model.found.nodes[model.match] === node ? "match present" : "match")
    if (!smaller && this.marked.has(node)) classes.push("pinned")
    if (k === 0) classes.push("top")
    const change = model.sums.signed ? tile.bytes : undefined
    const amount = `${amountText(tile.moved, model.sums.whole, change)} in ${plural(tile.count, "allocation")}`
    const element = tint(
      h(
        "div",
        {
          class: classes.filter(Boolean).join(" "),
          role: "treeitem",
          "data-tile": k,
          "data-node": smaller ? null : node,
          tabindex: !smaller && node === stop ? 0 : -1,
          "aria-level": tile.row + 1,
          "aria-label": `${label}, ${amount}`,
          "aria-selected": String(!smaller && node === model.chosen),
          title: `${frame >= 0 ? frameTitle(this.history, frame) : label}\n${amount}`,
          "aria-expanded": !smaller && model.sums.children(node).length ? "true" : null,
        },
        h("span", text),
      ),
      tile.moved,
      model.sums.whole,
      change,
    )
    element.style.left = `${(100 * tile.x0).toFixed(4)}%`
    element.style.width = `${(100 * (tile.x1 - tile.x0)).toFixed(4)}%`
    element.style.setProperty("--row", String(tile.row))
    return element
  }

  private label(tile: Tile): string {
    const { tree } = this.model
    if (tile.smaller) return `${formatCount(tile.smaller)} smaller, ${formatAmount(tile.bytes, this.model.sums.signed)}`
    return frameLabel(this.history, tree.frame[tile.node], tree.label(tile.node))
  }

  private tileOf(node: number): HTMLElement | null {
    return this.body.querySelector(`[data-node="${node}"]`)
  }

  private at(event: Event, act: (tile: Tile) => void): void {
    const element = (event.target as Element).closest<HTMLElement>("[data-tile]")
    if (element) act(this.tiles[Number(element.dataset.tile)])
  }

  /** Chooses a tile; for merged nodes, zooms in until they have room. */
  private choose(tile: Tile): void {
    if (tile.smaller) return this.actions.zoom(tile.node)
    this.model.choose(tile.node)
    this.moveTo(tile.node)
    this.actions.select(tile.node)
  }

  /** Moves selection and focus without a new layout. */
  private moveTo(node: number): void {
    for (const element of this.body.querySelectorAll<HTMLElement>("[data-node]")) {
      const here = element.dataset.node === String(node)
      element.setAttribute("aria-selected", String(here))
      element.tabIndex = here ? 0 : -1
      if (here) element.focus({ preventScroll: true })
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const element = document.activeElement?.closest<HTMLElement>("[data-tile]")
    const tile = element ? this.tiles[Number(element.dataset.tile)] : undefined
    const node = tile?.node ?? this.model.top
    const { tree, sums, top } = this.model
    const siblings = node === top ? [] : sums.children(tree.parent[node]).filter((one) => this.tileOf(one))
    const at = siblings.indexOf(node)
    const to = {
      ArrowDown: sums.children(node)[0],
      ArrowUp: node === top ? undefined : tree.parent[node],
      ArrowRight: siblings[at + 1],
      ArrowLeft: siblings[at - 1],
      Home: top,
    }[event.key]
    if (to !== undefined && this.tileOf(to)) {
      this.choose({ ...this.tiles[0], node: to, smaller: 0 })
      this.reveal(to)
    } else if (event.key === "Enter" || event.key === " ") this.actions.zoom(node)
    else if (!this.actions.key(event, node)) return
    event.preventDefault()
    event.stopPropagation()
  }
}
