import { test } from "node:test"
import assert from "node:assert/strict"
import { layOut, type Tile } from "./flame"
import { originsOf } from "../data/origins"
import { amountsLive } from "../data/questions"
import { deviceOf, random, randomStrips, stacksOf } from "../testing"
import { CallTree, ROOT, type TreeSums } from "./tree"

/** Stacks of up to eight of four functions. */
function randomSums(seed: number): TreeSums {
  const next = random(seed)
  const pick = (n: number) => Math.floor(next() * n)
  const stacks = stacksOf(
    Array.from({ length: 40 }, () => Array.from({ length: 1 + pick(8) }, (): [string, string] => ["abcd"[pick(4)], "f.py"])),
  )
  const strips = randomStrips(seed, 300)
  const device = deviceOf(
    strips,
    Array.from(strips.birth, () => pick(40)),
  )
  const origins = originsOf(device, stacks)
  const live = amountsLive(device, "allocated", 150, origins.ofAllocation, origins.length)
  return new CallTree(device, stacks, origins, "down", false).at(live)
}

test("every byte of a node is in its tile's children, its gap, or the smaller ones together", () => {
  for (let seed = 0; seed < 40; seed++) {
    const sums = randomSums(seed)
    if (!sums.whole) continue
    for (const least of [0, 0.01, 0.1, 0.5]) {
      const tiles = layOut(sums, ROOT, least)
      for (const tile of tiles.filter((one) => !one.smaller)) {
        const inside = tiles.filter(
          (one) => one.row === tile.row + 1 && (one.smaller ? one.node === tile.node : sums.tree.parent[one.node] === tile.node),
        )
        const add = (of: (one: Tile) => number) => inside.reduce((sum, one) => sum + of(one), 0)
        assert.equal(add((one) => one.bytes) + sums.ownBytes[tile.node], tile.bytes)
        assert.equal(add((one) => one.count) + sums.ownCount[tile.node], tile.count)
        assert.equal(
          add((one) => one.smaller || 1),
          sums.children(tile.node).length,
        )
        assert.ok(Math.abs(tile.x1 - tile.x0 - tile.bytes / sums.whole) < 1e-9)
        for (const one of inside) assert.ok(one.x0 >= tile.x0 && one.x1 <= tile.x1)
      }
      if (least === 0) assert.ok(tiles.every((tile) => !tile.smaller))
      else assert.ok(tiles.every((tile) => tile.smaller || tile.x1 - tile.x0 >= least - 1e-9))
    }
  }
})

test("tiles of one row do not overlap", () => {
  const rows = new Map<number, Tile[]>()
  for (const tile of layOut(randomSums(3), ROOT, 0.02)) rows.set(tile.row, [...(rows.get(tile.row) ?? []), tile])
  for (const row of rows.values()) {
    row.sort((a, b) => a.x0 - b.x0)
    for (let k = 1; k < row.length; k++) assert.ok(row[k - 1].x1 <= row[k].x0 + 1e-12)
  }
})

test("zooming into a node gives it the whole width", () => {
  const sums = randomSums(5)
  const [top] = sums.children(ROOT)
  const [first, second] = layOut(sums, top, 0.001)
  assert.deepEqual([first.node, first.x0, first.x1, first.row], [top, 0, 1, 0])
  assert.equal(second.x1, sums.bytes[second.node] / sums.bytes[top])
})

test("nothing live is one empty tile", () => {
  const sums = randomSums(5)
  sums.bytes.fill(0)
  assert.equal(layOut(sums, ROOT, 0.01).length, 1)
})
