import { test } from "node:test"
import assert from "node:assert/strict"
import { totals } from "./curves"
import { groupBySite } from "./sites"
import { deviceOf, random, randomStrips, REASONS, stacksOf } from "./testing"
import { callTree, type TreeNode } from "./tree"

const STACKS = stacksOf([
  [["empty", "??"], ["layer", "/me/model.py"], ["main", "/me/train.py"]],
  [["empty", "??"], ["step", "/me/optim.py"], ["main", "/me/train.py"]],
  [["empty", "??"], ["clone3", "??"]],
  [],
])

test("a node is its own bytes and its children's, and the root is the curve, at every step", () => {
  for (let seed = 0; seed < 30; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 60)
    const stack = [...strips.birth].map((birth) => (birth < 0 ? -1 : Math.floor(next() * 4)))
    const device = deviceOf(strips, stack, [3])
    const sums = totals(strips)
    for (const folded of [false, true]) {
      for (let step = -1; step < strips.events; step += 7) {
        const root = callTree(device, STACKS, "allocated", step, folded)
        assert.equal(root.bytes, sums[step + 1])
        check(root)
      }
    }
  }
})

function check(node: TreeNode): void {
  assert.equal(node.bytes, node.children.reduce((sum, child) => sum + child.bytes, node.ownBytes))
  for (const child of node.children) check(child)
}

test("allocations without frames are children of their own, with the reason", () => {
  const strips = { events: 2, birth: Int32Array.of(-1, 0, 1), death: Int32Array.of(2, 2, 2), height: Float64Array.of(5, 3, 2) }
  const device = deviceOf(strips, [-1, 3, 0], [3])
  const root = callTree(device, STACKS, "allocated", 1, true)
  assert.deepEqual(root.children.map((child) => [child.label, child.bytes]), [[REASONS[1], 5], [REASONS[2], 3], ["", 2]])
})

test("folding leaves out what is not the user's, and keeps a frame for stacks of nothing else", () => {
  const strips = { events: 2, birth: Int32Array.of(0, 1), death: Int32Array.of(2, 2), height: Float64Array.of(5, 3) }
  const names = (folded: boolean) => {
    const paths: string[] = []
    const visit = (node: TreeNode, path: string) => {
      const here = node.frame < 0 ? "" : `${path}/${STACKS.strings[STACKS.frameName[node.frame]]}`
      if (!node.children.length) paths.push(here)
      node.children.forEach((child) => visit(child, here))
    }
    visit(callTree(deviceOf(strips, [0, 2]), STACKS, "allocated", 1, folded), "")
    return paths
  }
  assert.deepEqual(names(false), ["/main/layer/empty", "/clone3/empty"])
  assert.deepEqual(names(true), ["/main/layer", "/empty"])
})

test("call sites sum to the curve at the peak, largest first", () => {
  const strips = { events: 3, birth: Int32Array.of(-1, 0, 1), death: Int32Array.of(3, 3, 2), height: Float64Array.of(5, 30, 20) }
  const sites = groupBySite(deviceOf(strips, [-1, 0, 1]), STACKS, 1)
  assert.deepEqual(sites.rows.map((site) => [site.name, site.bytes, site.count]), [["layer", 30, 1], ["step", 20, 1], [REASONS[1], 5, 1]])
  assert.deepEqual([...sites.ofAllocation], [2, 0, 1])
})

test("equal call sites come in the order of their frames, those without frames last", () => {
  const strips = { events: 3, birth: Int32Array.of(-1, 0, 1, 2), death: Int32Array.of(3, 3, 3, 3), height: Float64Array.of(5, 5, 5, 5) }
  const sites = groupBySite(deviceOf(strips, [-1, 1, 0, 2]), STACKS, 1)
  assert.deepEqual(sites.rows.map((site) => [site.name, site.count]), [["layer", 1], ["step", 1], [REASONS[1], 1], ["empty", 0]])
})
