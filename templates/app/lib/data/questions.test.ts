import assert from "node:assert/strict"
import { test } from "node:test"
import { deviceOf, random, randomStrips, stacksOf } from "../testing"
import { stripsOf } from "./device"
import { History } from "./history"
import { originsOf } from "./origins"
import { amountsOf, answerOf, KINDS, type Kind, type Question, totalsOf } from "./questions"
import { CallTree } from "../tables/tree"
import { linesAt, mapLines } from "../tables/lines"

const STACKS = stacksOf([
  [
    ["malloc", "??"],
    ["layer", "/me/model.py"],
  ],
  [["loss", "/me/train.py"]],
])

/** Walks every event between the two, and says what each allocation did: the definition, word by word. */
function walk({ birth, death }: { birth: Int32Array; death: Int32Array }, q: Question): [rows: number[], signs: number[]] {
  const live = (i: number, event: number) => birth[i] <= event && event < death[i]
  const [rows, signs]: [number[], number[]] = [[], []]
  for (let i = 0; i < birth.length; i++) {
    let [made, freed, always] = [false, false, live(i, q.from)]
    for (let event = q.from + 1; event <= q.to; event++) {
      if (!live(i, event - 1) && live(i, event)) made = true
      if (live(i, event - 1) && !live(i, event)) freed = true
      always &&= live(i, event)
    }
    const answers: Record<Kind, number> = {
      live: Number(live(i, q.at)),
      made: Number(made),
      stayed: Number(made && live(i, q.alive)),
      passing: Number(made && freed),
      freed: Number(freed),
      throughout: Number(always),
      change: Number(live(i, q.to)) - Number(live(i, q.from)),
    }
    if (!answers[q.kind]) continue
    rows.push(i)
    signs.push(answers[q.kind])
  }
  return [rows, signs]
}

test("every question is answered as a walk over the events answers it, in both curves and by any row", () => {
  for (let seed = 0; seed < 60; seed++) {
    const next = random(seed)
    const strips = randomStrips(seed, 60)
    const made = deviceOf(
      strips,
      [...strips.birth].map(() => Math.floor(next() * 3) - 1),
    )
    const device = {
      ...made,
      freeEvent: strips.death.map((s) => (s < 0 ? s : Math.min(s + 2, 60))),
      requested: strips.height.map((b) => b - 3),
    }
    const history = new History(device, STACKS)
    const origins = originsOf(device, STACKS)
    const map = mapLines(device, STACKS, origins, null)
    const tree = new CallTree(device, STACKS, origins, "down", false)
    const place = () => Math.floor(next() * 61) - 1
    for (let round = 0; round < 6; round++) {
      const [from, to] = [place(), place()].sort((a, b) => a - b)
      for (const curve of ["allocated", "requested"] as const) {
        for (const kind of KINDS) {
          const q = { kind, curve, at: place(), from, to, alive: place() }
          const { birth, death, height } = stripsOf(device, curve)
          const [rows, signs] = walk({ birth, death }, q)
          const answer = answerOf(device, q)
          const order = [...answer.rows.keys()].sort((a, b) => answer.rows[a] - answer.rows[b])
          assert.deepEqual(
            order.map((k) => answer.rows[k]),
            rows,
            `${kind} ${seed}`,
          )
          if (kind === "change")
            assert.deepEqual(
              order.map((k) => answer.signs![k]),
              signs,
            )
          const bytes = rows.reduce((sum, i, k) => sum + signs[k] * height[i], 0)
          const moved = rows.reduce((sum, i) => sum + height[i], 0)
          const amounts = amountsOf(device, q, origins.ofAllocation, origins.length)
          const add = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => a + b, 0)
          assert.deepEqual([add(amounts.bytes), add(amounts.count), add(amounts.moved)], [bytes, rows.length, moved])
          const sums = tree.at(amounts)
          assert.deepEqual([sums.bytes[0], sums.count[0], sums.whole, sums.signed], [bytes, rows.length, moved, kind === "change"])
          const lines = linesAt(device, origins, map, q)
          assert.deepEqual([add(lines.map((line) => line.bytes)), add(lines.map((line) => line.moved))], [bytes, moved])
          if (kind === "live") assert.equal(bytes, history.at(curve, q.at))
          else assert.deepEqual(totalsOf(device, q)[kind], { bytes, count: rows.length })
          if (kind === "change") assert.equal(bytes, history.at(curve, to) - history.at(curve, from))
        }
      }
    }
  }
})

test("what was freed at B is gone at B, and what was made at A was made before", () => {
  const strips = { events: 5, birth: Int32Array.of(-1, 1, 2, 2), death: Int32Array.of(3, 5, 3, 5), height: Float64Array.of(8, 4, 2, 1) }
  const device = deviceOf(strips, [0, 0, 0, 0])
  const ask = (kind: Kind, alive = 3) => [...answerOf(device, { kind, curve: "allocated", at: 3, from: 1, to: 3, alive }).rows]
  assert.deepEqual(
    [ask("made"), ask("stayed"), ask("stayed", 2), ask("passing"), ask("freed"), ask("throughout"), ask("change")],
    [[2, 3], [3], [2, 3], [2], [0, 2], [1], [0, 3]],
  )
})
