/** The call tree of one step as a table that opens and closes, with search. */

import type { Curve } from "../lib/curves"
import { formatBytes, formatCount, formatExact, formatShare } from "../lib/format"
import { frameKind, frameText } from "../lib/frames"
import { callTree, type TreeNode } from "../lib/tree"
import type { State, Store } from "../store"
import { h, meter } from "./dom"
import type { Panel } from "./panels"

/** Opens the heaviest branches until about this many rows are in sight. */
const OPEN_ROWS = 24
/** More rows than this are shown on request. */
const MOST_ROWS = 1500

export class StacksPanel implements Panel {
  readonly element: HTMLElement
  private readonly body = h("tbody")
  private readonly more = h("p", { class: "more" })
  private readonly found = h("output", { class: "found", "aria-live": "polite" })
  private readonly search = h("input", { type: "search", placeholder: "Search functions and files", "aria-label": "Search the tree", input: () => this.find() })
  private root!: TreeNode
  private open = new Set<TreeNode>()
  private matches: Set<TreeNode> | null = null
  private limit = MOST_ROWS
  private folded = true
  private focused: TreeNode | null = null

  constructor(private readonly store: Store) {
    const fold = h("input", { type: "checkbox", checked: true, change: () => {
      this.folded = fold.checked
      this.build()
    } })
    this.element = h("div", {},
      h("div", { class: "toolbar" },
        this.search, this.found,
        h("label", { class: "check" }, fold, "Fold frames of torch, Python and C++"),
        h("div", { class: "buttons" },
          h("button", { type: "button", click: () => this.openAll() }, "Expand all"),
          h("button", { type: "button", click: () => this.closeAll() }, "Collapse"))),
      h("div", { class: "scroll" },
        h("table", { role: "treegrid", "aria-label": "Call tree", keydown: (event: KeyboardEvent) => this.key(event) },
          h("thead", {}, h("tr", {},
            h("th", { class: "num" }, "Bytes"), h("th", { class: "num" }, "Share"), h("th", {}, h("span", { class: "hidden" }, "Bar")),
            h("th", { class: "num" }, "Count"), h("th", {}, "Call stack, outermost first"))),
          this.body)),
      this.more)
  }

  update(state: State, before: State | null): void {
    if (!before || state.curve !== before.curve || state.cursor !== before.cursor) this.build()
  }

  private get curve(): Curve {
    return this.store.state.curve
  }

  private build(): void {
    const { history } = this.store
    this.root = callTree(history.device, history.stacks, this.curve, this.store.state.cursor, this.folded)
    this.focused = this.root
    this.openHeaviest()
    if (this.search.value) this.find()
    else this.render()
  }

  private openHeaviest(): void {
    this.open = new Set([this.root])
    const queue = [...this.root.children]
    let rows = 1 + queue.length
    while (queue.length && rows < OPEN_ROWS) {
      queue.sort((a, b) => b.bytes - a.bytes)
      const node = queue.shift()!
      if (node.bytes < this.root.bytes * 0.02) break
      if (!node.children.length) continue
      this.open.add(node)
      rows += node.children.length
      queue.push(...node.children)
    }
  }

  private openAll(): void {
    const visit = (node: TreeNode) => {
      this.open.add(node)
      node.children.forEach(visit)
    }
    visit(this.root)
    this.render()
  }

  private closeAll(): void {
    this.open = new Set([this.root])
    this.limit = MOST_ROWS
    this.render()
  }

  private label(node: TreeNode): { name: string; fullName: string; place: string; file: string } {
    if (node.frame < 0) return { name: node.label, fullName: node.label, place: "", file: "" }
    return frameText(this.store.history.stacks, node.frame)
  }

  private find(): void {
    const wanted = this.search.value.trim().toLowerCase()
    this.matches = wanted ? new Set() : null
    this.found.textContent = ""
    if (!this.matches) return this.render()
    const { matches } = this
    let bytes = 0
    const visit = (node: TreeNode, inside: boolean): boolean => {
      const { fullName, file } = this.label(node)
      const hit = node.depth > 0 && `${fullName}\n${file}`.toLowerCase().includes(wanted)
      if (hit) matches.add(node)
      if (hit && !inside) bytes += node.bytes
      let below = false
      for (const child of node.children) below = visit(child, inside || hit) || below
      if (below) this.open.add(node)
      return hit || below
    }
    visit(this.root, false)
    this.found.textContent = matches.size
      ? `${formatCount(matches.size)} found, ${formatBytes(bytes)} (${formatShare(bytes, this.root.bytes)})`
      : "nothing found"
    this.render()
    this.body.querySelector(".match")?.scrollIntoView({ block: "nearest" })
  }

  private rows(): TreeNode[] {
    const rows: TreeNode[] = []
    const visit = (node: TreeNode) => {
      rows.push(node)
      if (this.open.has(node)) node.children.forEach(visit)
    }
    visit(this.root)
    return rows
  }

  private render(): void {
    const rows = this.rows()
    this.body.replaceChildren(...rows.slice(0, this.limit).map((node) => this.row(node)))
    this.more.replaceChildren()
    if (rows.length > this.limit) {
      this.more.append(h("button", { type: "button", click: () => {
        this.limit = rows.length
        this.render()
      } }, `Show ${formatCount(rows.length - this.limit)} more rows`))
    }
  }

  private row(node: TreeNode): HTMLElement {
    const text = this.label(node)
    const { stacks } = this.store.history
    const parent = node.children.length > 0
    const kind = node.frame >= 0 ? frameKind(stacks, node.frame) : "none"
    const where = h("td", { class: "where" },
      h("span", { class: parent ? "twist" : "leaf", "aria-hidden": "true" }),
      h("code", { class: kind, title: text.fullName === text.name ? null : text.fullName }, text.name), " ", h("span", { title: text.file }, text.place))
    where.style.setProperty("--depth", String(Math.min(node.depth, 40)))
    const row = h("tr", {
      "aria-level": node.depth + 1, "aria-expanded": parent ? String(this.open.has(node)) : null,
      tabindex: node === this.focused ? 0 : -1, class: this.matches?.has(node) ? "match" : null, "data-node": node.id,
      click: () => this.toggle(node),
      focus: () => {
        this.focused = node
      },
    },
      h("td", { class: "num", title: formatExact(node.bytes) }, formatBytes(node.bytes)),
      h("td", { class: "num" }, formatShare(node.bytes, this.root.bytes)),
      h("td", { class: "bar" }, meter(node.bytes, this.root.bytes)),
      h("td", { class: "num" }, formatCount(node.count)),
      where)
    return row
  }

  private toggle(node: TreeNode, open = !this.open.has(node)): void {
    this.focused = node
    if (node.children.length) {
      if (open) this.open.add(node)
      else this.open.delete(node)
      // A branch without a fork opens to its next fork: a long chain is one click.
      for (let only = node; open && only.children.length === 1; only = only.children[0]) this.open.add(only)
    }
    this.render()
    this.focusRow(node)
  }

  private focusRow(node: TreeNode): void {
    this.body.querySelector<HTMLElement>(`[data-node="${node.id}"]`)?.focus()
  }

  private key(event: KeyboardEvent): void {
    const node = this.focused
    if (!node) return
    const rows = this.rows()
    const at = rows.indexOf(node)
    const go = (to: TreeNode | undefined | null) => to && this.focusRow(to)
    const keys: Record<string, () => void> = {
      ArrowDown: () => go(rows[at + 1]),
      ArrowUp: () => go(rows[at - 1]),
      ArrowRight: () => (node.children.length && !this.open.has(node) ? this.toggle(node, true) : go(node.children[0])),
      ArrowLeft: () => (this.open.has(node) && node.children.length ? this.toggle(node, false) : go(node.parent)),
      Enter: () => this.toggle(node),
      " ": () => this.toggle(node),
      Home: () => go(rows[0]),
      End: () => go(rows[rows.length - 1]),
    }
    const action = keys[event.key]
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    action()
  }
}
