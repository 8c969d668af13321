import { test } from "node:test"
import assert from "node:assert/strict"
import { fromLastUse, sumsInEvents } from "./read_device"
import { random } from "../testing"

/** As reporters/payload.py, spelled out. */
function byStack(values: number[], kinds: number[], stacks: number[]): number[] {
  const key = (event: number) => ((kinds[event - 1] ?? 0) * 4 + kinds[event]) * 100 + (kinds[event] ? stacks[event] : 0)
  return [...values.keys()].sort((a, b) => key(a) - key(b) || a - b).map((event) => values[event])
}

test("times come back in event order, whatever happened when", () => {
  const next = random(11)
  for (let round = 0; round < 100; round++) {
    const kinds = Array.from({ length: 1 + Math.floor(next() * 40) }, () => Math.floor(next() * 4))
    const times = kinds.map(() => Math.floor(next() ** 6 * 2 ** (round % 2 ? 20 : 34)))
    // One row for each event, which is none of any other kind.
    const stacks = kinds.map(() => Math.floor(next() * 6) - 1)
    const events = (kind: number) => Int32Array.from(kinds, (each, event) => (each === kind ? event : event % 2 ? -1 : kinds.length))
    const sums = sumsInEvents(byStack(times, kinds, stacks), Int16Array.from(stacks), events(1), events(2), events(3))
    let sum = 0
    assert.deepEqual(
      [...sums],
      times.map((time) => (sum += time)),
    )
    assert.equal(sums instanceof Uint32Array, sum < 2 ** 32)
  }
})

test("an event that is both a birth and another's lost free is a birth", () => {
  const [born, none] = [Int32Array.of(0, 1), new Int32Array(0)]
  const stack = Int8Array.of(-1, -1)
  assert.deepEqual([...sumsInEvents([10, 2, 5], stack, born, Int32Array.of(1, 3), Int32Array.of(1, 2))], [10, 12, 17])
  assert.deepEqual([...sumsInEvents([10, 5], none, none, none, none)], [10, 15])
  assert.equal(sumsInEvents([], none, none, none, none).length, 0)
})

test("times before the first, on a clock that steps back, are kept", () => {
  const none = new Int32Array(0)
  assert.deepEqual(sumsInEvents([5, -9, 2], none, none, none, none), Float64Array.of(5, -4, -2))
})

test("an id is that of so many places before, or the next new one", () => {
  assert.deepEqual(fromLastUse(Uint8Array.of(0, 0, 1, 3, 0, 2), Uint16Array.of(7, 900, 3)), Uint16Array.of(7, 900, 900, 7, 3, 7))
  assert.deepEqual(fromLastUse(new Uint8Array(0), new Uint8Array(0)), new Uint8Array(0))
})
