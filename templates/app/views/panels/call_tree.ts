/** The call tree as a list of rows that open and close. */

import { formatCount, formatShare } from "../../lib/text/format"
import type { History } from "../../lib/data/history"
import { ROOT } from "../../lib/tables/tree"
import type { TreeModel } from "../../lib/tables/tree_model"
import { NOTHING } from "./panels"
import { h } from "../shared/dom"
import { bytesCell, frameCell, heatMeter } from "../shared/frame_cells"
import { VirtualList } from "../shared/virtual_list"

/** Indentation of a row for each call above it, in rem: stacks of 60 calls are common. */
const CALL_REM = 0.5

/** Rows that are shown around a revealed one. */
const AROUND = 4

export interface TreeActions {
  select(node: number): void
  /** Shows only what is below a node. */
  zoom(node: number): void
  /** Handles keys that the tree itself does not; returns whether it did. */
  key(event: KeyboardEvent, node: number): boolean
  /** Called when rows were opened or closed. */
  changed(): void
}

export class TreeList {
  readonly list: VirtualList
  /** The nodes around the pinned allocation, and where its path ends. */
  private pinned: ReadonlySet<number> = new Set()
  private leaf = -1

  constructor(
    private readonly history: History,
    private readonly model: TreeModel,
    private readonly actions: TreeActions,
  ) {
    this.list = new VirtualList({
      label: "Call stacks",
      class: "tree-list",
      role: "treegrid",
      empty: NOTHING,
      columns: [
        { title: "Bytes", class: "num" },
        { title: "Share", class: "num" },
        { title: "Bar", quiet: true, class: "bar" },
        { title: "Count", class: "num count" },
        { title: "Function", class: "function" },
      ],
      count: () => (model.sums.whole > 0 || model.sums.count[ROOT] > 0 ? model.rows.length : 0),
      row: (k) => this.cells(model.rows[k]),
      rowClass: (k) => this.classOf(model.rows[k]),
      rowAttributes: (k) => this.attributes(model.rows[k]),
      onSelect: (k) => {
        model.choose(model.rows[k])
        actions.select(model.rows[k])
      },
      onOpen: (k) => this.toggle(model.rows[k]),
      onKey: (event, k) => this.key(event, model.rows[k] ?? -1),
    })
  }

  /** Draws the current state of the model. */
  refresh(): void {
    this.list.refresh()
    this.list.selected = this.model.rows.indexOf(this.model.chosen)
  }

  /** Scrolls to a node's row, with some rows around it. */
  reveal(node: number): void {
    const row = this.model.rows.indexOf(node)
    if (row < 0) return
    for (const around of [row + AROUND, row - AROUND, row]) this.list.reveal(Math.min(Math.max(around, 0), this.model.rows.length - 1))
  }

  /** Marks the path that ends at a node; -1 for none. */
  mark(leaf: number): void {
    this.leaf = leaf
    this.pinned = new Set(leaf < 0 ? [] : this.model.tree.pathTo(leaf))
  }

  private cells(node: number): HTMLElement[] {
    const { sums } = this.model
    return [
      bytesCell(sums.bytes[node], sums.signed),
      h("span", formatShare(sums.moved[node], sums.whole)),
      heatMeter(sums.moved[node], sums.whole, sums.change(node)),
      h("span", formatCount(sums.count[node])),
      this.name(node),
    ]
  }

  private name(node: number): HTMLElement {
    const { sums, tree, top } = this.model
    const opens = sums.children(node).length > 0
    const twist = opens
      ? h("span.twist", {
          "aria-hidden": "true",
          click: (event: Event) => {
            event.stopPropagation()
            this.toggle(node)
          },
        })
      : h("span.leaf", { "aria-hidden": "true" })
    const element = h("span.node", twist, frameCell(this.history, tree.frame[node], tree.label(node)))
    element.style.setProperty("--in", `${(tree.depth[node] - tree.depth[top]) * CALL_REM}rem`)
    return element
  }

  private classOf(node: number): string {
    const { found, match } = this.model
    const classes = []
    if (found?.isMatch[node]) classes.push(found.nodes[match] === node ? "match present" : "match")
    if (this.pinned.has(node)) classes.push(node === this.leaf ? "pinned leaf-end" : "pinned")
    return classes.join(" ")
  }

  private attributes(node: number): Record<string, string> {
    const { sums, tree, top } = this.model
    const level = { "aria-level": String(tree.depth[node] - tree.depth[top] + 1), "data-node": String(node) }
    return sums.children(node).length ? { ...level, "aria-expanded": String(this.model.isOpen(node)) } : level
  }

  private toggle(node: number, open?: boolean): void {
    if (!this.model.sums.children(node).length) return
    this.model.toggle(node, open)
    this.refresh()
    this.actions.changed()
  }

  private go(node: number): void {
    const row = this.model.rows.indexOf(node)
    if (row < 0) return
    this.model.choose(node)
    this.list.reveal(row)
    this.list.selected = row
    this.actions.select(node)
  }

  private key(event: KeyboardEvent, node: number): boolean {
    const { model } = this
    const children = node < 0 ? [] : model.sums.children(node)
    if (event.key === "ArrowRight" && node >= 0) {
      if (children.length && !model.isOpen(node)) this.toggle(node, true)
      else if (children.length) this.go(children[0])
    } else if (event.key === "ArrowLeft" && node >= 0) {
      if (children.length && model.isOpen(node)) this.toggle(node, false)
      else if (node !== model.top) this.go(model.tree.parent[node])
    } else return this.actions.key(event, node)
    return true
  }
}
