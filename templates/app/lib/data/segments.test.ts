import { test } from "node:test"
import assert from "node:assert/strict"
import { type Device, stripsOf } from "./device"
import { ALLOCATED, blockOf, INACTIVE, layOut, type Layout, PENDING, segmentAround, segmentOfBlock, type Use } from "./segments"
import { fragmentationOf, totals } from "../testing"
import { randomDevice } from "../testing_allocator"

const UNIT = 512

/** What is at every 512 bytes of the segments after an event: an allocation, or -1 for nothing. */
function brute(device: Device, event: number): { segment: number; units: number[] }[] {
  const { segments } = device
  const live = [...device.allocEvent.keys()].filter((i) => device.allocEvent[i] <= event && event < device.freeEvent[i])
  const found = [...segments.start.keys()].filter((row) => segments.start[row] <= event && event < segments.end[row])
  return found
    .sort((a, b) => segments.address[a] - segments.address[b])
    .map((segment) => {
      const units = Array.from({ length: segments.size[segment] / UNIT }, () => -1)
      for (const id of live) {
        const from = (device.addrValues[device.addr[id]] - segments.address[segment]) / UNIT
        if (from >= 0 && from < units.length) units.fill(id, from, from + device.block[id] / UNIT)
      }
      return { segment, units }
    })
}

function drawn(layout: Layout, k: number): number[] {
  const units: number[] = []
  for (let b = layout.first[k]; b < layout.first[k + 1]; b++) {
    assert.equal(layout.offset[b], units.length * UNIT)
    for (let n = 0; n < layout.size[b] / UNIT; n++) units.push(layout.allocation[b])
  }
  return units
}

function wasted(units: number[]): number {
  return units.some((id) => id >= 0) ? units.filter((id) => id < 0).length * UNIT : 0
}

test("segments and blocks are those found unit by unit, at every event", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const device = randomDevice(seed, 80)
    for (let event = -1; event < device.events; event++) {
      const layout = layOut(device, event)
      const expected = brute(device, event)
      assert.deepEqual(
        [...layout.rows],
        expected.map(({ segment }) => segment),
      )
      assert.equal(layout.outside, 0)
      expected.forEach(({ units }, k) => {
        assert.deepEqual(drawn(layout, k), units)
        const use = layout.uses[k]
        const ids = [...new Set(units.filter((id) => id >= 0))]
        const bytes = (pending: boolean) =>
          ids.filter((id) => device.freeRequestedEvent[id] <= event === pending).reduce((all, id) => all + device.block[id], 0)
        assert.deepEqual([use.allocated, use.pending, use.count], [bytes(false), bytes(true), ids.length])
        assert.equal(use.fragmentation, wasted(units))
        const gaps = units
          .map((id) => (id < 0 ? "." : "x"))
          .join("")
          .split("x")
        assert.equal(use.largestFree, Math.max(...gaps.map((gap) => gap.length)) * UNIT)
      })
      for (let b = 0; b < layout.state.length; b++) {
        const id = layout.allocation[b]
        const state = id < 0 ? INACTIVE : device.freeRequestedEvent[id] <= event ? PENDING : ALLOCATED
        assert.equal(layout.state[b], state)
        assert.ok(layout.first[segmentOfBlock(layout, b)] <= b && b < layout.first[segmentOfBlock(layout, b) + 1])
        if (id >= 0) assert.equal(blockOf(device, layout, id), b)
      }
    }
  }
})

test("requested, slack and inactive bytes make up what is reserved, in all and in each group", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const device = randomDevice(seed, 60)
    const requested = totals(stripsOf(device, "requested"))
    const allocated = totals(stripsOf(device, "allocated"))
    for (let event = -1; event < device.events; event++) {
      const { total, groups, uses } = layOut(device, event)
      assert.equal(requested[event + 1] + total.slack + total.inactive, total.reserved)
      assert.equal(total.allocated, allocated[event + 1])
      for (const use of [total, ...uses, ...groups.map((group) => group.use)]) {
        assert.equal(use.allocated + use.pending + use.inactive, use.reserved)
      }
      for (const name of Object.keys(total) as (keyof Use)[]) {
        const all = groups.map((group) => group.use[name])
        assert.equal(name === "largestFree" ? Math.max(0, ...all) : all.reduce((a, b) => a + b, 0), total[name], name)
      }
      assert.deepEqual(
        groups.flatMap((group) => group.members).sort((a, b) => a - b),
        [...uses.keys()],
      )
    }
  }
})

test("fragmentation over time is that of every single event, also where segments are missing", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const device = randomDevice(seed, 120, seed % 2 ? 0 : 0.3)
    const found = fragmentationOf(device)
    for (let event = -1; event < device.events; event++) {
      const layout = layOut(device, event)
      assert.equal(
        found[event + 1],
        layout.uses.reduce((sum, use) => sum + use.fragmentation, 0),
      )
      if (seed % 2)
        assert.equal(
          found[event + 1],
          brute(device, event).reduce((sum, { units }) => sum + wasted(units), 0),
        )
    }
    device.summary.reserved_from = seed
    assert.deepEqual(
      [...fragmentationOf(device)],
      [...found].map((bytes, at) => (at - 1 < seed ? -1 : bytes)),
    )
  }
})

test("an address leads to the segment that holds it, and no other does", () => {
  const device = randomDevice(3, 50)
  const layout = layOut(device, 20)
  layout.rows.forEach((row, k) => {
    const [low, high] = [device.segments.address[row], device.segments.address[row] + device.segments.size[row]]
    assert.deepEqual([segmentAround(device, layout, low), segmentAround(device, layout, high - 1)], [k, k])
    assert.notEqual(segmentAround(device, layout, high), k)
  })
  assert.equal(segmentAround(device, layout, -1), -1)
})

test("what lies in no known segment is counted, not hidden", () => {
  const device = randomDevice(5, 60)
  const bare = { ...device, segments: { ...device.segments, count: 0 } }
  const layout = layOut(bare, 59)
  const live = [...device.freeEvent].filter((event) => event === device.events).length
  assert.ok(live > 0)
  assert.deepEqual([layout.outside, layout.total.reserved, layout.rows.length], [live, 0, 0])
})
