import { test } from "node:test"
import assert from "node:assert/strict"
import { Lives } from "./lives"
import { random, randomStrips, totals } from "../testing"

test("those live after an event are the ones a look at every allocation finds, in birth order", () => {
  for (const [seed, events] of [
    [1, 0],
    [2, 40],
    [3, 700],
    [4, 20_000],
  ]) {
    const { birth, death } = randomStrips(seed, events)
    const lives = new Lives(birth, death)
    for (let event = -1; event < events; event += Math.max(Math.floor(events / 40), 1)) {
      const all = [...birth.keys()]
      assert.deepEqual(
        [...lives.at(event)],
        all.filter((i) => birth[i] <= event && death[i] > event),
      )
      assert.equal(lives.bornBy(event), all.filter((i) => birth[i] <= event).length)
    }
  }
})

test("deaths in another column may come earlier", () => {
  const { birth, death, events } = randomStrips(7, 3000)
  const next = random(8)
  const requested = death.map((last, i) => Math.max(birth[i], last - Math.floor(next() * 30)))
  const lives = new Lives(birth, death)
  for (let event = -1; event < events; event += 71) {
    assert.deepEqual(
      [...lives.at(event, requested)],
      [...birth.keys()].filter((i) => birth[i] <= event && requested[i] > event),
    )
  }
})

test("a moment of a long recording costs about what is live then", () => {
  const n = 1_000_000
  const birth = new Int32Array(n).map((_, i) => i)
  const death = new Int32Array(n).map((_, i) => (i % 5000 === 0 ? n : i + 3))
  let read = 0
  const watched = new Proxy(death, {
    get: (of, name) => {
      if (typeof name === "string" && /^\d+$/.test(name)) read++
      return Reflect.get(of, name)
    },
  })
  const lives = new Lives(birth, death)
  assert.equal(lives.at(n - 1, watched).length, 200 + 3) // the last ones have not died yet
  assert.ok(read < 64 * 203, `${read} deaths looked at`)
  assert.equal(totals({ events: n, birth, death, height: new Float64Array(n).fill(1) })[n], 203)
})
