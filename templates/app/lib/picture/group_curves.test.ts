import assert from "node:assert/strict"
import { test } from "node:test"
import { stripsOf } from "../data/device"
import { EventScale, type Scale, TimeScale } from "../data/scale"
import { cpuMs, cutDevice, deviceOf, random, randomStrips, randomTimes } from "../testing"
import { groupCurves } from "./group_curves"

const GROUPS = 5

/** The most bytes of each group in each column, from the state after each event by itself. */
function bruteForce(device: ReturnType<typeof deviceOf>, of: Int32Array, scale: Scale, w: { x0: number; x1: number }, width: number) {
  const { birth, death, height, rest } = stripsOf(device, "allocated")
  const after = (event: number, group: number) => {
    let bytes = rest && of[rest.row] === group ? rest.height[event + 1] : 0
    for (let i = 0; i < birth.length; i++) if (of[i] === group && birth[i] <= event && event < death[i]) bytes += height[i]
    return bytes
  }
  const per = (w.x1 - w.x0) / width
  return Array.from({ length: GROUPS }, (_, group) =>
    Array.from({ length: width }, (_, x) => {
      const [first, end] = scale.eventsIn(w.x0 + x * per, w.x0 + (x + 1) * per)
      return end > first ? Math.max(...Array.from({ length: end - first }, (_, k) => after(first + k, group))) : NaN
    }),
  )
}

test("each column has the most of each group, on both axes, in any window, and with what is not drawn one by one", () => {
  for (let seed = 1; seed <= 24; seed++) {
    const next = random(seed)
    const whole = deviceOf(randomStrips(seed, 70), [])
    const device =
      seed % 3
        ? whole
        : cutDevice(
            whole,
            Uint8Array.from(whole.block, () => Number(next() < 0.4)),
          )
    const of = Int32Array.from({ length: device.count }, () => 1 + Math.floor(next() * (GROUPS - 1)))
    if (device.rest) of[device.rest.row] = 0
    const scale = seed % 2 ? new EventScale(70) : new TimeScale(randomTimes(seed, 70))
    const [low, high] = scale.whole
    const x0 = low + next() * (high - low) * 0.6
    const w = seed < 6 ? { x0: low, x1: high, y0: 0, y1: 1 } : { x0, x1: x0 + next() * (high - x0), y0: 0, y1: 1 }
    const width = 1 + Math.floor(next() * 120)
    const expected = bruteForce(device, of, scale, w, width)
    const groups = { length: GROUPS }
    const { curves, others } = groupCurves(device, "allocated", { ofAllocation: of, groups }, scale, w, width, GROUPS)
    assert.equal(others, 0)
    const heights = expected.map((columns) => Math.max(0, ...columns.filter((bytes) => !Number.isNaN(bytes))))
    assert.deepEqual(new Set(curves.map(({ group }) => group)), new Set([...heights.keys()].filter((group) => heights[group] > 0)))
    for (const { group, columns, most } of curves) {
      assert.deepEqual([...columns], expected[group], `seed ${seed}, group ${group}`)
      assert.equal(most, heights[group])
    }
    assert.deepEqual(
      curves.map(({ most }) => -most),
      curves.map(({ most }) => -most).sort((a, b) => a - b),
    )
  }
})

test("what is too much to show is one curve of its own", () => {
  const device = deviceOf(
    { events: 4, birth: Int32Array.of(-1, 0, 1, 2), death: Int32Array.of(3, 4, 4, 4), height: Float64Array.of(8, 1, 2, 3) },
    [],
  )
  const grouping = { ofAllocation: Int32Array.of(0, 1, 2, 3), groups: { length: 4 } }
  const found = groupCurves(device, "allocated", grouping, new EventScale(4), { x0: -1, x1: 4, y0: 0, y1: 1 }, 5, 3)
  assert.deepEqual(found.others, 2)
  assert.deepEqual(
    found.curves.map(({ group, columns }) => [group, [...columns]]),
    [
      [0, [8, 8, 8, 8, 0]],
      [3, [0, 0, 0, 3, 3]],
      [-1, [0, 1, 3, 3, 3]],
    ],
  )
})

test("1.2 million events take no longer than a reader notices", () => {
  const events = 1_200_000
  const device = deviceOf(randomStrips(7, events), [])
  const ofAllocation = Int32Array.from({ length: device.count }, (_, i) => (i * 7919) % 3000)
  const scale = new EventScale(events)
  const draw = (x0: number) =>
    groupCurves(device, "allocated", { ofAllocation, groups: { length: 3000 } }, scale, { x0, x1: events, y0: 0, y1: 1 }, 1200, 12)
  draw(-1) // sorts, and is compiled
  const begun = cpuMs()
  for (let k = 0; k < 3; k++) draw(k * 1000)
  const took = (cpuMs() - begun) / 3
  assert.ok(took < 200, `${took.toFixed(0)} ms`)
})
