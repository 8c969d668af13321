import { test } from "node:test"
import assert from "node:assert/strict"
import { aboveGroup, orderRows, type RowView } from "./row_order"
import type { RunData } from "./run_data"

const DATA = {
  count: 5,
  label: ["rank 0", "rank 1", "rank 2", "rank 10", "cpu"],
  source: ["a", "b", "c", "d", "e"].map((name) => `${name}.pickle`),
  host: ["node10", "node2", "node2", "node1", ""],
  place: ["pp=0", "pp=1", "pp=0", "pp=1", ""],
  kind: ["cuda", "cuda", "cuda", "cuda", "cpu"],
  rank: Int32Array.of(0, 1, 2, 10, -1),
  group: Int32Array.of(0, 1, 0, 1, -1),
  groups: ["stage 0", "stage 1"],
  members: [
    [0, 2],
    [1, 3],
  ],
  allocated: Float64Array.of(5, 9, 7, 9, 4),
  reserved: Float64Array.of(6, 9, 8, 9, -1),
  odd: new Map([
    [3, { word: "Growing" }],
    [0, { word: "Out of memory" }],
  ]),
  failures: (row: number) => (row === 0 ? [{}] : []),
} as unknown as RunData

const VIEW: RowView = { sort: "rank", descending: false, query: "", group: -1, kind: "cuda", onlyOdd: false }

function ordered(change: Partial<RowView>): number[] {
  return [...orderRows(DATA, { ...VIEW, ...change }, aboveGroup(DATA))]
}

test("rows are in the order of their ranks, of one kind of memory", () => {
  assert.deepEqual(ordered({}), [0, 1, 2, 3])
  assert.deepEqual(ordered({ descending: true }), [3, 2, 1, 0])
  assert.deepEqual(ordered({ kind: "cpu" }), [4])
})

test("equal rows keep the order of the run, whichever way round", () => {
  assert.deepEqual(ordered({ sort: "peak" }), [0, 2, 1, 3])
  assert.deepEqual(ordered({ sort: "peak", descending: true }), [1, 3, 2, 0])
  assert.deepEqual(ordered({ sort: "group" }), [0, 2, 1, 3])
})

test("hosts are in the order of their numbers, odd ranks in that of the findings", () => {
  assert.deepEqual(ordered({ sort: "host" }), [3, 1, 2, 0])
  assert.deepEqual(ordered({ sort: "odd" }), [3, 0, 1, 2])
  assert.deepEqual(ordered({ sort: "failed", descending: true }), [0, 1, 2, 3])
})

test("a peak is held against its group's median", () => {
  assert.deepEqual([...aboveGroup(DATA)], [-1, 0, 1, 0, 0])
  assert.deepEqual(ordered({ sort: "versus", descending: true }), [2, 1, 3, 0])
})

test("a number is a rank, two are a range, all else a part of a name", () => {
  assert.deepEqual(ordered({ query: "1" }), [1])
  assert.deepEqual(ordered({ query: "1-5, 10" }), [1, 2, 3])
  assert.deepEqual(ordered({ query: "2 to 12" }), [2, 3])
  assert.deepEqual(ordered({ query: "NODE1" }), [0, 3])
  assert.deepEqual(ordered({ query: "stage 1" }), [1, 3])
  assert.deepEqual(ordered({ query: "growing" }), [3])
  assert.deepEqual(ordered({ query: "b.pickle , " }), [1])
  assert.deepEqual(ordered({ query: "(.*" }), [])
  assert.deepEqual(ordered({ group: 1, onlyOdd: true }), [3])
})
