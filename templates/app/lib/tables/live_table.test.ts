import { test } from "node:test"
import assert from "node:assert/strict"
import { versionsOf } from "../data/device"
import { addUp, groupEqual, type LiveColumn, rowsEqual, searchLive, sortLive } from "./live_table"
import { PatternError } from "../text/pattern"
import { groupBySite } from "../data/sites"
import { deviceOf, random, stacksOf } from "../testing"

const MIB = 1024 ** 2
const STACKS = stacksOf([
  [
    ["layer", "/me/model.py"],
    ["main", "/me/train.py"],
  ],
  [
    ["step", "/me/optim.py"],
    ["main", "/me/train.py"],
  ],
])
const DEVICE = {
  ...deviceOf(
    {
      events: 9,
      birth: Int32Array.of(-1, 0, 3, 5),
      death: Int32Array.of(9, 9, 9, 9),
      height: Float64Array.of(2 * MIB, 512, 2 * MIB, 8192),
    },
    [-1, 0, 1, 0],
  ),
  addr: Int32Array.of(1, 0, 2, 1),
  addrValues: Float64Array.of(0x7f00, 0x8f00, 0x9f00),
  requested: Float64Array.of(2 * MIB - 1, 500, 100, 8000),
}
const SITES = groupBySite(DEVICE, STACKS, 8)
const ALL = [0, 1, 2, 3]

test("every column sorts, and ties stay in birth order both ways", () => {
  const sorted = (by: LiveColumn, reversed = false) => [...sortLive(Int32Array.from(ALL), DEVICE, SITES, by, reversed)]
  assert.deepEqual(sorted("block"), [0, 2, 3, 1])
  assert.deepEqual(sorted("block", true), [1, 3, 0, 2])
  assert.deepEqual(sorted("requested"), [0, 3, 1, 2])
  assert.deepEqual(sorted("age"), [0, 1, 2, 3])
  assert.deepEqual(sorted("site"), [0, 1, 3, 2])
  assert.deepEqual(sorted("address"), [1, 0, 3, 2])
})

test("the search knows call sites, sizes as read and exact, and addresses", () => {
  const found = (typed: string) => [...searchLive(Int32Array.from(ALL), DEVICE, SITES, typed)]
  assert.deepEqual(found("layer"), [1, 3])
  assert.deepEqual(found("optim.py:7"), [2])
  assert.deepEqual(found("before"), [0])
  assert.deepEqual(found("2.00 mib"), [0, 2])
  assert.deepEqual(found("8,192"), [3])
  assert.deepEqual(found("500"), [1])
  assert.deepEqual(found("0x8f"), [0, 3])
  assert.deepEqual(found(" "), ALL)
  assert.throws(() => found("/(/"), PatternError)
})

test("totals are those of the rows", () => {
  assert.deepEqual(addUp(Int32Array.of(1, 3), DEVICE), { block: 8704, requested: 8500 })
})

test("versions count the allocations at an address", () => {
  const next = random(4)
  const n = 200
  const device = { ...DEVICE, count: n, addr: Int32Array.from({ length: n }, () => Math.floor(next() * 3)) }
  assert.deepEqual(
    [...versionsOf(device)],
    Array.from({ length: n }, (_, i) => device.addr.slice(0, i).filter((each) => each === device.addr[i]).length),
  )
})

test("equal rows are those of one size, role and call site, most bytes in all first", () => {
  const device = {
    ...deviceOf(
      { events: 9, birth: Int32Array.of(-1, 0, 3, 5, 6), death: Int32Array.of(9, 9, 9, 9, 8), height: Float64Array.of(8, 4, 4, 4, 4) },
      [0, 0, 0, 1, 0],
    ),
  }
  const sites = groupBySite(device, STACKS, 8)
  const live = Int32Array.of(0, 1, 2, 3)
  const grouped = (by: LiveColumn, reversed = false) =>
    groupEqual(sortLive(live.slice(), device, sites, by, reversed), device, sites, by, reversed)
  assert.deepEqual(grouped("block"), [[0], [1, 2], [3]])
  assert.deepEqual(grouped("age", true), [[3], [2, 1], [0]])
  assert.deepEqual(groupEqual([1, 2, 3, 4], device, sites, "block", false, Int8Array.of(0, 1, -1, 1, 1)), [[1, 4], [2], [3]])
  assert.deepEqual(groupEqual(Int32Array.of(1, 2, 4, 0), device, sites, "requested", false), [[1, 2, 4], [0]])
  assert.deepEqual([...rowsEqual(device, sites, 2)], [0, 1, 1, 0, 1]) // of the entire recording
})
