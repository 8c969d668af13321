/** Live allocations merged by call stack, for any step: the call tree. */

import { type Device, missingReason, type Stacks } from "./device"
import type { Curve } from "./curves"
import { stripsOf } from "./curves"
import { isKept } from "./frames"

export interface TreeNode {
  id: number
  parent: TreeNode | null
  /** Frame id, or -1 for the root and for allocations without frames. */
  frame: number
  /** What to call a node without a frame. */
  label: string
  children: TreeNode[]
  bytes: number
  ownBytes: number
  count: number
  depth: number
}

/** Builds the tree of what is live after a step, outermost frame first, siblings largest first.
 *
 * With `folded`, frames of torch, the standard library and C++, autograd nodes aside, are left out and their bytes pass to
 * the frame around them; a stack of nothing else is shown by the one frame that names it. The root's
 * bytes are the curve's value in both cases.
 */
export function callTree(device: Device, stacks: Stacks, curve: Curve, step: number, folded: boolean): TreeNode {
  const { birth, death, height } = stripsOf(device, curve)
  const bytesByStack = new Map<number, { bytes: number; count: number }>()
  const missing = new Map<string, { bytes: number; count: number }>()
  const add = <K>(into: Map<K, { bytes: number; count: number }>, key: K, bytes: number) => {
    const sum = into.get(key)
    if (sum) {
      sum.bytes += bytes
      sum.count++
    } else into.set(key, { bytes, count: 1 })
  }
  for (let i = 0; i < birth.length && birth[i] <= step; i++) {
    if (death[i] <= step) continue
    const reason = missingReason(device, i)
    if (reason) add(missing, reason, height[i])
    else add(bytesByStack, device.stack[i], height[i])
  }

  let nextId = 0
  const make = (parent: TreeNode | null, frame: number, label: string): TreeNode => {
    const depth = parent ? parent.depth + 1 : 0
    const node = { id: nextId++, parent, frame, label, children: [], bytes: 0, ownBytes: 0, count: 0, depth }
    parent?.children.push(node)
    return node
  }
  const root = make(null, -1, "All live allocations")
  const known = new Map<string, TreeNode>()
  const put = (leaf: TreeNode, sum: { bytes: number; count: number }) => {
    leaf.ownBytes += sum.bytes
    for (let node: TreeNode | null = leaf; node; node = node.parent) {
      node.bytes += sum.bytes
      node.count += sum.count
    }
  }
  for (const [stack, sum] of bytesByStack) {
    const path: number[] = []
    for (let n = stacks.stackNode[stack]; n >= 0; n = stacks.nodeParent[n]) path.push(stacks.nodeFrame[n])
    let shown = folded ? path.filter((frame) => isKept(stacks, frame)) : path
    if (shown.length === 0) shown = [stacks.stackSite[stack]]
    let node = root
    for (let k = shown.length - 1; k >= 0; k--) {
      const key = `${node.id} ${shown[k]}`
      const child = known.get(key) ?? make(node, shown[k], "")
      known.set(key, child)
      node = child
    }
    put(node, sum)
  }
  for (const [reason, sum] of missing) put(make(root, -1, reason), sum)
  sortChildren(root)
  return root
}

function sortChildren(node: TreeNode): void {
  node.children.sort((a, b) => b.bytes - a.bytes || a.id - b.id)
  for (const child of node.children) sortChildren(child)
}
