import assert from "node:assert/strict"
import { test } from "node:test"
import { deviceOf, random, randomStrips, stacksOf } from "../testing"
import { type Device, stripsOf } from "../data/device"
import { History } from "../data/history"
import { beginOf, joined, sameFrames } from "./joined"
import { originsOf } from "../data/origins"
import { amountsOf, type Question } from "../data/questions"
import { groupBy, groupTogether } from "./grouping"
import { linesAt, mapLines } from "./lines"
import { CallTree, ROOT } from "./tree"

// The second recording has the first one's frame layer as another frame, where an edit moved it.
const RAW = stacksOf([[["layer", "/a/model.py"]], [["loss", "/a/train.py"]], [["layer", "/b/model.py"]], [["fresh", "/b/new.py"]]])
const STACKS = sameFrames(RAW, Int32Array.of(2, 1, 2, 3))

function deviceFrom(seed: number, firstStack: number): Device {
  const next = random(seed + 7)
  const strips = randomStrips(seed, 20 + Math.floor(next() * 40))
  const made = deviceOf(
    strips,
    [...strips.birth].map(() => (next() < 0.2 ? -1 : firstStack + Math.floor(next() * 2))),
  )
  const most = { bytes: strips.height.reduce((sum, each) => sum + each, 0) }
  const freeEvent = strips.death.map((s) => (s < 0 ? s : Math.min(s + 2, strips.events)))
  const peaks = { allocated: most, requested: most, active: most } as never
  return { ...made, freeEvent, requested: strips.height.map((each) => each - 3), summary: { ...made.summary, peaks } }
}

/** What is live after an event, by the place that it comes from: -1 for what has no stack. Counted with a plain loop. */
function heldBy(device: Device, curve: Question["curve"], event: number): Map<number, number> {
  const { birth, death, height } = stripsOf(device, curve)
  const held = new Map<number, number>()
  for (let i = 0; i < birth.length; i++) {
    if (birth[i] > event || event >= death[i]) continue
    const place = device.missing[i] ? -1 : STACKS.stackSite[device.stack[i]]
    held.set(place, (held.get(place) ?? 0) + height[i])
  }
  return held
}

test("a change of two recordings is what NEW holds less what BASE holds, in trees, lines and groups, at any two events", () => {
  for (let seed = 0; seed < 40; seed++) {
    const next = random(seed)
    const [base, later] = [deviceFrom(seed, 0), deviceFrom(seed + 1000, 2)]
    const both = joined(base, later)
    const histories = [base, later, both].map((device) => new History(device, STACKS)) as [History, History, History]
    groupTogether(...histories)
    const origins = originsOf(both, STACKS)
    const map = mapLines(both, STACKS, origins, null)
    const tree = new CallTree(both, STACKS, origins, "down", false)
    for (const curve of ["allocated", "requested"] as const) {
      const [a, b] = [base, later].map(({ events }) => Math.floor(next() * (events + 1)) - 1)
      const [one, other] = [heldBy(base, curve, a), heldBy(later, curve, b)]
      const wanted = new Map<number, number>()
      for (const place of [...one.keys(), ...other.keys()]) wanted.set(place, (other.get(place) ?? 0) - (one.get(place) ?? 0))
      const to = beginOf(base) + b
      const question: Question = { kind: "change", curve, at: to, from: a, to, alive: to }
      const sums = tree.at(amountsOf(both, question, origins.ofAllocation, origins.length))
      assert.equal(sums.bytes[ROOT], histories[1].at(curve, b) - histories[0].at(curve, a))
      const found = new Map(tree.childrenOf(ROOT).map((node) => [tree.frame[node], sums.bytes[node]]))
      for (const [place, bytes] of wanted) assert.equal(found.get(place), bytes)
      const lines = new Map(linesAt(both, origins, map, question).map((row) => [map.lines[row.line].frame, row.bytes]))
      for (const [place, bytes] of wanted) assert.equal(lines.get(place), bytes)
      for (const colouring of ["site", "size", "age"]) {
        const grouping = groupBy(histories[2], colouring)
        const { bytes } = amountsOf(both, question, grouping.ofAllocation, grouping.groups.length)
        const sides = [base, later].map((device, k) => {
          const own = groupBy(histories[k], colouring)
          assert.equal(own.groups, grouping.groups)
          const at = [a, b][k]
          return amountsOf(device, { ...question, kind: "live", at }, own.ofAllocation, own.groups.length).bytes
        })
        assert.deepEqual(
          Array.from(bytes),
          Array.from(sides[1], (now, row) => now - sides[0][row]),
        )
      }
    }
  }
})

test("groups of both recordings keep their names and their order", () => {
  const strips = (births: number[], deaths: number[], sizes: number[]) => ({
    events: 30,
    birth: Int32Array.from(births),
    death: Int32Array.from(deaths),
    height: Float64Array.from(sizes),
  })
  const peaks = { allocated: { bytes: 4096 }, requested: { bytes: 4096 }, active: { bytes: 4096 } } as never
  const made = [strips([-1, 2], [30, 4], [512, 2048]), strips([-1, 2], [9, 30], [512, 512])].map((each) => deviceOf(each, [0, 1]))
  const [base, later] = made.map((device) => ({ ...device, summary: { ...device.summary, peaks } }))
  const histories = [base, later, joined(base, later)].map((device) => new History(device, RAW)) as [History, History, History]
  groupTogether(...histories)
  const names = (colouring: string) => groupBy(histories[2], colouring).groups.map(({ label }) => label)
  assert.deepEqual(names("age"), ["1 to 9 events", "from before", "live at the end", "live throughout"])
  assert.deepEqual(names("size"), ["512 B to 1 KiB", "2 KiB to 4 KiB"])
  assert.deepEqual(names("site").length, 2)
})
