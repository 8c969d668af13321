/** The state of the panel of call stacks (direction, open nodes, focus, search), without its drawing. */

import type { Device, Stacks } from "../data/device"
import type { Amounts } from "../data/questions"
import { type Origins, originsOf } from "../data/origins"
import { refusal } from "../text/pattern"
import { type Found, searchTree, textTest } from "./search"
import { CallTree, type Direction, heaviest, ROOT, rowsInSight, type TreeSums } from "./tree"

/** About how many rows are visible before a reader opens or closes any. */
const OPEN_ROWS = 24
/** Up to this many matches, the branches of all of them open; with more, only that of the current one. */
const MOST_OPENED = 500

/** One tree, and how far it is open; kept while another one is shown. */
interface Side {
  tree: CallTree
  open: Set<number>
  /** Whether the reader opened or closed something; changes of the event then no longer do. */
  touched: boolean
  top: number
  /** Earlier tops. */
  back: number[]
  /** The node with the cursor, or -1. */
  chosen: number
}

export const STACK_MODES = ["down", "up", "flame"] as const
export type StackMode = (typeof STACK_MODES)[number]

/** The part of the panel's state that a link holds. */
export interface StacksView {
  mode: StackMode
  /** Whether library-internal frames are hidden. */
  folded: boolean
  /** The node in focus; the root shows everything. */
  top: number
}

/** What the panel opens with. */
export const WHOLE_TREE: StacksView = { mode: "down", folded: true, top: ROOT }

/** Which way the tree of a mode goes. */
export function directionOf(mode: StackMode): Direction {
  return mode === "up" ? "up" : "down"
}

/** The tree and the node that a key names; null for a key of no tree. */
export function parseKey(key: string): { direction: Direction; folded: boolean; node: number } | null {
  const named = /^(down|up)-(all-)?(\d+)$/.exec(key)
  return named && { direction: named[1] as Direction, folded: !named[2], node: Number(named[3]) }
}

export class TreeModel {
  direction: Direction = "down"
  folded = true
  sums!: TreeSums
  /** The visible nodes, in order. */
  rows: number[] = []
  found: Found | null = null
  /** Index of the current match, or -1. */
  match = -1
  private readonly sides = new Map<string, Side>()
  private answered!: Amounts
  private typed = ""
  /** Why the search was refused; "" if it was not. */
  refused = ""
  readonly origins: Origins

  constructor(
    private readonly device: Device,
    private readonly stacks: Stacks,
  ) {
    this.origins = originsOf(device, stacks)
  }

  get tree(): CallTree {
    return this.side.tree
  }

  /** The node whose subtree is shown; the root unless a subtree is in focus. */
  get top(): number {
    return this.side.top
  }

  get chosen(): number {
    return this.side.chosen
  }

  get canGoBack(): boolean {
    return this.side.back.length > 0
  }

  isOpen(node: number): boolean {
    return this.side.open.has(node)
  }

  /** Shows an answer, which is given by origin. */
  show(answered: Amounts): void {
    this.answered = answered
    this.sums = this.tree.at(answered)
    const { side } = this
    if (!side.touched) side.open = this.opening(side.top)
    this.searchAgain()
    this.layOut()
  }

  /** Changes the direction, and shows or hides internal frames. */
  turn(direction: Direction, folded: boolean): void {
    if (direction === this.direction && folded === this.folded) return
    this.direction = direction
    this.folded = folded
    this.match = -1
    this.show(this.answered)
  }

  /** Shows the tree and the focus of a link. */
  adopt({ mode, folded, top }: StacksView): void {
    this.turn(directionOf(mode), folded)
    if (top === this.top) return
    this.side.back = top === ROOT ? [] : [ROOT]
    this.setTop(top)
  }

  choose(node: number): void {
    this.side.chosen = node
  }

  /** Opens or closes a node. A branch without a fork opens to its next fork: a long chain is one step. */
  toggle(node: number, open = !this.isOpen(node)): void {
    const { side } = this
    side.touched = true
    if (open) {
      side.open.add(node)
      for (let [only, ...more] = this.sums.children(node); only !== undefined && !more.length; [only, ...more] = this.sums.children(only))
        side.open.add(only)
    } else side.open.delete(node)
    this.layOut()
  }

  expandAll(): void {
    this.side.touched = true
    this.sums.walk(this.top, (node) => Boolean(this.side.open.add(node)))
    this.layOut()
  }

  collapse(): void {
    this.side.touched = true
    this.side.open = new Set([this.top])
    this.layOut()
  }

  /** Shows only what is below a node. */
  focus(node: number): void {
    const { side } = this
    if (node === side.top) return
    side.back.push(side.top)
    this.setTop(node)
  }

  /** Goes back to what was shown before; false if there is nothing. */
  back(): boolean {
    const before = this.side.back.pop()
    if (before === undefined) return false
    const was = this.top
    this.setTop(before)
    if (this.isUnder(was, before)) this.reveal(was)
    return true
  }

  private setTop(node: number): void {
    const { side } = this
    side.top = node
    if (side.chosen < 0 || !this.isUnder(side.chosen, node)) side.chosen = node
    side.open.add(node)
    if (!side.touched) side.open = this.opening(node)
    this.searchAgain()
    this.layOut()
  }

  /** Bottom-up the call sites are the answer, and their callers the next question. */
  private opening(top: number): Set<number> {
    return this.direction === "up" ? new Set([top]) : heaviest(this.sums, top, OPEN_ROWS)
  }

  /** Opens the parents of a node, and leaves the focus if the node is outside of it; false if it holds nothing now. */
  reveal(node: number): boolean {
    const { side } = this
    if (this.sums.count[node] === 0) return false
    if (!this.isUnder(node, side.top)) {
      side.back = []
      side.top = ROOT
      this.searchAgain()
    }
    for (const around of this.tree.pathTo(node).slice(0, -1)) side.open.add(around)
    this.layOut()
    return true
  }

  isUnder(node: number, top: number): boolean {
    let at = node
    while (at > top) at = this.tree.parent[at] // parents have smaller numbers
    return at === top
  }

  /** Searches, and goes to the first match. */
  search(typed: string): void {
    this.typed = typed.trim()
    this.match = -1
    this.searchAgain()
    if (this.found?.nodes.length) this.goTo(0)
    else this.layOut()
  }

  /** Goes to the next match (1) or the one before (-1), around the end. */
  next(by: 1 | -1): void {
    const count = this.found?.nodes.length ?? 0
    if (count) this.goTo(this.match < 0 ? (by > 0 ? 0 : count - 1) : (this.match + by + count) % count)
  }

  private goTo(match: number): void {
    this.match = match
    const node = this.found!.nodes[match]
    this.side.chosen = node
    this.reveal(node)
  }

  private searchAgain(): void {
    const present = this.found?.nodes[this.match]
    this.found = null
    this.refused = ""
    if (!this.typed) return
    try {
      this.found = searchTree(this.sums, this.stacks, this.top, textTest(this.typed))
    } catch (error) {
      this.refused = refusal(error)
      return
    }
    if (this.found.nodes.length <= MOST_OPENED) {
      for (const node of this.found.nodes) for (const around of this.tree.pathTo(node).slice(0, -1)) this.side.open.add(around)
    }
    this.match = present === undefined ? -1 : this.found.nodes.indexOf(present)
  }

  private layOut(): void {
    this.rows = rowsInSight(this.sums, this.top, this.side.open)
  }

  private get side(): Side {
    return this.sideOf(this.direction, this.folded)
  }

  /** A tree, visible or not. */
  treeOf(direction: Direction, folded: boolean): CallTree {
    return this.sideOf(direction, folded).tree
  }

  private sideOf(direction: Direction, folded: boolean): Side {
    const key = `${direction}${folded}`
    let side = this.sides.get(key)
    if (!side) {
      const tree = new CallTree(this.device, this.stacks, this.origins, direction, folded)
      side = { tree, open: new Set([ROOT]), touched: false, top: ROOT, back: [], chosen: -1 }
      this.sides.set(key, side)
    }
    return side
  }

  /** The key of a node in a link: `down-12`, or `up-all-3` with internal frames. */
  keyOf(node: number): string {
    return `${this.direction}-${this.folded ? "" : "all-"}${node}`
  }
}
