import { test } from "node:test"
import assert from "node:assert/strict"
import type { Device } from "../data/device"
import { originsOf } from "../data/origins"
import { amountsLive } from "../data/questions"
import { groupBySite } from "../data/sites"
import { cpuMs, deviceOf, random, randomStrips, REASONS, stacksOf, totals } from "../testing"
import { CallTree, type Direction, heaviest, ROOT, rowsInSight, type TreeSums } from "./tree"

const STACKS = stacksOf([
  [
    ["empty", "??"],
    ["layer", "/me/model.py"],
    ["main", "/me/train.py"],
  ],
  [
    ["empty", "??"],
    ["step", "/me/optim.py"],
    ["main", "/me/train.py"],
  ],
  [
    ["empty", "??"],
    ["clone3", "??"],
  ],
  [],
])

function treeOf(device: Device, direction: Direction = "down", folded = false): CallTree {
  return new CallTree(device, STACKS, originsOf(device, STACKS), direction, folded)
}

function at(tree: CallTree, device: Device, event: number): TreeSums {
  const { ofAllocation, length } = originsOf(device, STACKS)
  return tree.at(amountsLive(device, "allocated", event, ofAllocation, length))
}

test("a node is its own bytes and its children's, and the root is the curve, at every event", () => {
  for (let seed = 0; seed < 30; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 60)
    const stack = [...strips.birth].map((birth) => (birth < 0 ? -1 : Math.floor(next() * 4)))
    const device = deviceOf(strips, stack, [3])
    const sums = totals(strips)
    for (const [direction, folded] of [
      ["down", false],
      ["down", true],
      ["up", false],
      ["up", true],
    ] as const) {
      const tree = treeOf(device, direction, folded)
      for (let event = -1; event < strips.events; event += 7) {
        const now = at(tree, device, event)
        assert.equal(now.whole, sums[event + 1])
        now.walk(ROOT, (node) => {
          assert.equal(
            now.bytes[node],
            now.children(node).reduce((sum, child) => sum + now.bytes[child], now.ownBytes[node]),
          )
          assert.equal(
            now.count[node],
            now.children(node).reduce((sum, child) => sum + now.count[child], now.ownCount[node]),
          )
          return true
        })
      }
    }
  }
})

test("allocations without frames are children of their own, with the reason", () => {
  const strips = { events: 2, birth: Int32Array.of(-1, 0, 1), death: Int32Array.of(2, 2, 2), height: Float64Array.of(5, 3, 2) }
  const device = deviceOf(strips, [-1, 3, 0], [3])
  const tree = treeOf(device, "down", true)
  const now = at(tree, device, 1)
  assert.deepEqual(
    now.children(ROOT).map((child) => [tree.label(child), now.bytes[child]]),
    [
      [REASONS[1], 5],
      [REASONS[2], 3],
      ["", 2],
    ],
  )
})

const BOTH = { events: 2, birth: Int32Array.of(0, 1), death: Int32Array.of(2, 2), height: Float64Array.of(5, 3) }

function paths(direction: Direction, folded: boolean): string[] {
  const device = deviceOf(BOTH, [0, 2])
  const tree = treeOf(device, direction, folded)
  const now = at(tree, device, 1)
  const found: string[] = []
  now.walk(ROOT, (node) => {
    if (!now.children(node).length)
      found.push(
        tree
          .pathTo(node)
          .slice(1)
          .map((n) => STACKS.strings[STACKS.frameName[tree.frame[n]]])
          .join("/"),
      )
    return true
  })
  return found
}

test("folding leaves out what is not the user's, and keeps a frame for stacks of nothing else", () => {
  assert.deepEqual(paths("down", false), ["main/layer/empty", "clone3/empty"])
  assert.deepEqual(paths("down", true), ["main/layer", "empty"])
})

test("bottom-up begins with the frame that allocated, and one frame's callers stand below it", () => {
  assert.deepEqual(paths("up", false), ["empty/layer/main", "empty/clone3"])
  assert.deepEqual(paths("up", true), ["layer/main", "empty"])
})

test("a node knows its allocations over the whole recording, whatever is live", () => {
  const device = deviceOf(BOTH, [0, 2])
  const tree = treeOf(device, "up")
  const [empty] = tree.childrenOf(ROOT)
  assert.deepEqual([...tree.rowsOf(ROOT)], [1, 1])
  assert.deepEqual([...tree.rowsOf(empty)], [1, 1])
  assert.deepEqual(
    tree.childrenOf(empty).map((node) => [...tree.rowsOf(node)]),
    [
      [1, 0],
      [0, 1],
    ],
  )
  assert.deepEqual(
    [0, 1].map((allocation) => tree.rowsOf(tree.leafOf(allocation))[allocation]),
    [1, 1],
  )
})

test("nodes keep their numbers from event to event, and those that hold nothing are not shown", () => {
  const device = deviceOf(BOTH, [0, 2])
  const tree = treeOf(device)
  const [main, clone] = tree.childrenOf(ROOT)
  assert.deepEqual(at(tree, device, 0).children(ROOT), [main])
  assert.deepEqual(at(tree, device, 1).children(ROOT), [main, clone])
  assert.deepEqual(at(tree, device, -1).children(ROOT), [])
})

test("the rows in sight are those under open nodes, and the heaviest branches open first", () => {
  const device = deviceOf(BOTH, [0, 2])
  const tree = treeOf(device)
  const now = at(tree, device, 1)
  const [main, clone] = now.children(ROOT)
  assert.deepEqual(rowsInSight(now, ROOT, new Set()), [ROOT])
  assert.deepEqual(rowsInSight(now, ROOT, new Set([ROOT, clone])), [ROOT, main, clone, ...now.children(clone)])
  assert.deepEqual([...heaviest(now, ROOT, 4)], [ROOT, main])
  assert.equal(rowsInSight(now, clone, new Set([clone])).length, 2)
})

test("a million allocations take a moment, not a second", () => {
  const n = 600_000
  const strips = {
    events: n,
    birth: Int32Array.from({ length: n }, (_, i) => i),
    death: Int32Array.from({ length: n }, (_, i) => i + 50_000),
    height: new Float64Array(n).fill(512),
  }
  const device = deviceOf(
    strips,
    Array.from({ length: n }, (_, i) => i % 3),
  )
  const origins = originsOf(device, STACKS)
  const tree = new CallTree(device, STACKS, origins, "down", true)
  const began = cpuMs()
  const now = tree.at(amountsLive(device, "allocated", n - 60_000, origins.ofAllocation, origins.length))
  assert.equal(now.whole, 512 * 50_000)
  assert.ok(cpuMs() - began < 500)
})

test("call sites sum to the curve at the peak, largest first", () => {
  const strips = { events: 3, birth: Int32Array.of(-1, 0, 1), death: Int32Array.of(3, 3, 2), height: Float64Array.of(5, 30, 20) }
  const sites = groupBySite(deviceOf(strips, [-1, 0, 1]), STACKS, 1)
  assert.deepEqual(
    sites.rows.map((site) => [site.name, site.bytes, site.count]),
    [
      ["layer", 30, 1],
      ["step", 20, 1],
      [REASONS[1], 5, 1],
    ],
  )
  assert.deepEqual([...sites.ofAllocation], [2, 0, 1])
})

test("equal call sites come in the order of their frames, those without frames last", () => {
  const strips = { events: 3, birth: Int32Array.of(-1, 0, 1, 2), death: Int32Array.of(3, 3, 3, 3), height: Float64Array.of(5, 5, 5, 5) }
  const sites = groupBySite(deviceOf(strips, [-1, 1, 0, 2]), STACKS, 1)
  assert.deepEqual(
    sites.rows.map((site) => [site.name, site.count]),
    [
      ["layer", 1],
      ["step", 1],
      [REASONS[1], 1],
      ["empty", 0],
    ],
  )
})
