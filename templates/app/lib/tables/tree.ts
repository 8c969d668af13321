/** The call tree: allocations merged by call stack, from the outermost frame or from the allocation. */

import type { Device, Stacks } from "../data/device"
import { isKept, standIn } from "../data/frames"
import type { Amounts } from "../data/questions"
import type { Origins } from "../data/origins"

/** Top-down starts at the outermost frame, bottom-up at the one that allocated. */
export type Direction = "down" | "up"

export const ROOT = 0

/** The nodes of all events; a node has the same number at every event. */
export class CallTree {
  /** A node's parent has a smaller number; -1 for the root. */
  readonly parent: Int32Array
  /** Frame ids; -1 for the root and for allocations without frames. */
  readonly frame: Int32Array
  readonly depth: Int32Array
  /** The node where each origin's path ends, -1 for those that do not occur. */
  private readonly leaf: Int32Array
  private readonly labels = new Map<number, string>([[ROOT, "Everything"]])
  private readonly children: number[][] = []

  /** Lays out every path of a device.
   *
   * With `folded`, frames of torch, the standard library and C++, autograd nodes aside, are left out
   * and their bytes pass to their caller; a stack with no other frames is shown by the one frame
   * that names it.
   */
  constructor(
    device: Device,
    stacks: Stacks,
    private readonly origins: Origins,
    readonly direction: Direction,
    readonly folded: boolean,
  ) {
    const [parent, frame, depth] = [[-1], [-1], [0]]
    this.children.push([])
    const make = (under: number, of: number) => {
      frame.push(of)
      depth.push(depth[under] + 1)
      this.children.push([])
      const node = parent.push(under) - 1
      this.children[under].push(node)
      return node
    }
    this.leaf = new Int32Array(origins.length).fill(-1)
    const frames = stacks.frameName.length
    const known = new Map<number, number>()
    const path: number[] = []
    for (const origin of origins.used) {
      if (origin >= origins.stacks) {
        const node = (this.leaf[origin] = make(ROOT, -1))
        this.labels.set(node, device.missingReasons[origin - origins.stacks])
        continue
      }
      path.length = 0
      for (let n = stacks.stackNode[origin]; n >= 0; n = stacks.nodeParent[n]) {
        const of = stacks.nodeFrame[n]
        if (!folded) path.push(of)
        else if (isKept(stacks, of)) path.push(standIn(stacks, of))
      }
      if (!path.length) path.push(stacks.stackSite[origin])
      if (direction === "down") path.reverse()
      let node = ROOT
      for (const of of path) {
        const key = node * frames + of
        const next = known.get(key) ?? make(node, of)
        known.set(key, next)
        node = next
      }
      this.leaf[origin] = node
    }
    this.parent = Int32Array.from(parent)
    this.frame = Int32Array.from(frame)
    this.depth = Int32Array.from(depth)
  }

  get size(): number {
    return this.parent.length
  }

  /** The name of a node without a frame. */
  label(node: number): string {
    return this.labels.get(node) ?? ""
  }

  /** Every child of a node at any event. */
  childrenOf(node: number): readonly number[] {
    return this.children[node]
  }

  /** The node where an allocation's path ends. */
  leafOf(allocation: number): number {
    return this.leaf[this.origins.ofAllocation[allocation]]
  }

  /** A node and those around it, the root first. */
  pathTo(node: number): number[] {
    const path: number[] = []
    for (let at = node; at >= 0; at = this.parent[at]) path.push(at)
    return path.reverse()
  }

  /** 1 for each allocation of the entire recording whose path goes through a node. */
  rowsOf(node: number): Uint8Array {
    const inside = new Uint8Array(this.size)
    inside[node] = 1
    for (let n = node + 1; n < inside.length; n++) if (inside[this.parent[n]]) inside[n] = 1
    const { ofAllocation } = this.origins
    const rows = new Uint8Array(ofAllocation.length)
    for (let i = 0; i < rows.length; i++) rows[i] = inside[this.leaf[ofAllocation[i]]]
    return rows
  }

  /** Adds up an answer by origin. */
  at(answered: Amounts): TreeSums {
    return new TreeSums(this, answered, this.leaf)
  }
}

/** The bytes of a tree. Of what is live after an event, the root's are the curve's value there, to the byte; of a change, the curve's change. */
export class TreeSums {
  /** Bytes of a node and everything below it; of a change, what came less what went. */
  readonly bytes: Float64Array
  /** The same without signs: as much as came or went. */
  readonly moved: Float64Array
  readonly count: Int32Array
  /** Bytes of paths that end at a node. */
  readonly ownBytes: Float64Array
  readonly ownCount: Int32Array
  /** Whether the bytes are of a change. */
  readonly signed: boolean
  private readonly sorted = new Map<number, number[]>()

  constructor(
    readonly tree: CallTree,
    { bytes, count, moved }: Amounts,
    leaf: Int32Array,
  ) {
    this.signed = moved !== bytes
    this.ownBytes = new Float64Array(tree.size)
    this.ownCount = new Int32Array(tree.size)
    const ownMoved = this.signed ? new Float64Array(tree.size) : this.ownBytes
    for (let origin = 0; origin < leaf.length; origin++) {
      if (!count[origin]) continue
      this.ownBytes[leaf[origin]] += bytes[origin]
      this.ownCount[leaf[origin]] += count[origin]
      if (this.signed) ownMoved[leaf[origin]] += moved[origin]
    }
    this.bytes = this.ownBytes.slice()
    this.count = this.ownCount.slice()
    this.moved = this.signed ? ownMoved : this.bytes
    for (let node = tree.size - 1; node > ROOT; node--) {
      const parent = tree.parent[node]
      this.bytes[parent] += this.bytes[node]
      this.count[parent] += this.count[node]
      if (this.signed) this.moved[parent] += this.moved[node]
    }
  }

  /** What shares are of: everything that is shown. */
  get whole(): number {
    return this.moved[ROOT]
  }

  /** What came less what went below a node; undefined where nothing is compared. */
  change(node: number): number | undefined {
    return this.signed ? this.bytes[node] : undefined
  }

  /** The children that hold something, the largest amount or change first. */
  children(node: number): readonly number[] {
    let found = this.sorted.get(node)
    if (!found) {
      found = this.tree.childrenOf(node).filter((child) => this.count[child] > 0)
      found.sort((a, b) => Math.abs(this.bytes[b]) - Math.abs(this.bytes[a]) || this.moved[b] - this.moved[a] || a - b)
      this.sorted.set(node, found)
    }
    return found
  }

  /** Calls back for a node and all below it, parents first, larger siblings first; false skips what is below. */
  walk(from: number, visit: (node: number) => boolean): void {
    const stack = [from]
    while (stack.length) {
      const node = stack.pop()!
      if (!visit(node)) continue
      const children = this.children(node)
      for (let k = children.length - 1; k >= 0; k--) stack.push(children[k])
    }
  }
}

/** The nodes to open so that about this many rows show the heaviest branches. */
export function heaviest(sums: TreeSums, from: number, rows: number): Set<number> {
  const open = new Set([from])
  const queue = [...sums.children(from)]
  let shown = 1 + queue.length
  while (queue.length && shown < rows) {
    let best = 0
    for (let k = 1; k < queue.length; k++) if (sums.moved[queue[k]] > sums.moved[queue[best]]) best = k
    const [node] = queue.splice(best, 1)
    if (sums.moved[node] < sums.moved[from] * 0.02) break
    const children = sums.children(node)
    if (!children.length) continue
    open.add(node)
    shown += children.length
    queue.push(...children)
  }
  return open
}

/** The visible rows while these nodes are open. */
export function rowsInSight(sums: TreeSums, from: number, open: ReadonlySet<number>): number[] {
  const rows: number[] = []
  sums.walk(from, (node) => {
    rows.push(node)
    return open.has(node)
  })
  return rows
}
