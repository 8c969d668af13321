/** The page's own code against what tests/golden/run_golden.py works out of the same run. */

import { test } from "node:test"
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { unpack } from "../../lib/data/payload"
import { NO_CELL } from "./cell_rows"
import { RunData } from "./run_data"

interface Golden {
  payload: string
  rows: {
    label: string
    link: string
    allocated: number
    reserved: number
    capacity: number
    peak_event: number
    peak_time_us: number
    /** Level, first cell, number of cells and their sum, of allocated and of reserved bytes. */
    event: number[][]
    time: number[][]
    steps: [number, number, number][]
    holders: [string, string, number, number, number, number][]
    failed: [number, number, number, string][]
  }[]
  groups: [string, number[]][]
  odd: [number, string, string][]
}

const PATH = fileURLToPath(new URL("../../../../app/run/data/golden_run.json", import.meta.url))
const golden = JSON.parse(readFileSync(PATH, "utf8")) as Golden

test("what is read of a run is what was packed, and cells join as plain loops join them", async () => {
  const data = new RunData(await unpack(golden.payload))
  assert.equal(data.count, golden.rows.length)
  assert.deepEqual(
    data.groups.map((name, k) => [name, data.members[k]]),
    golden.groups,
  )
  const odd = new Map(golden.odd.map((each) => [each[0], each] as const).toReversed())
  assert.deepEqual([...data.odd.values()].map(({ row, code, sentence }) => [row, code, sentence]).sort(), [...odd.values()].sort())
  golden.rows.forEach((row, k) => {
    assert.equal(data.label[k], row.label)
    assert.equal(data.link[k], row.link)
    assert.deepEqual(
      [data.allocated[k], data.reserved[k], data.capacity[k], data.peakEvent[k], data.peakTime[k]],
      [row.allocated, row.reserved, row.capacity, row.peak_event, row.peak_time_us],
    )
    for (const axis of ["event", "time"] as const) {
      for (const [level, first, ...sums] of row[axis]) {
        const found = (["allocated", "reserved"] as const).flatMap((curve, c) => {
          const out = new Float64Array(sums[2 * c]).fill(NO_CELL)
          data.cells(axis, curve)!.joinInto(out, k, level, first)
          return [out.length, out.reduce((sum, value, at) => sum + ((at + 1) % 7) * value, 0)]
        })
        assert.deepEqual(found, sums, `${row.label}, ${axis}, level ${level}`)
      }
    }
    for (const [number, allocated, left] of row.steps) {
      assert.equal(data.cells("step", "allocated")!.mostIn(k, 0, number), allocated)
      assert.equal(data.leftAfter(k, number), left)
    }
    assert.deepEqual(
      data.holders(k).map((each) => [each.kind, each.key, each.bytes, each.count, each.size, each.ofSize]),
      row.holders
        .map(([kind, key, bytes, count, size, ofSize]) => (key ? [kind, key, bytes, count, size, ofSize] : [kind, key, bytes, count, 0, 0]))
        .sort((a, b) => order(a) - order(b)),
    )
    assert.deepEqual(
      data.failures(k).map((each) => [each.event, each.timeUs, each.size, each.site]),
      row.failed,
    )
  })
})

/** Sites come first, then roles, then stages. */
function order([kind]: (string | number)[]): number {
  return ["site", "role", "stage"].indexOf(String(kind))
}
