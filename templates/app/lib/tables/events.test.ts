import { test } from "node:test"
import assert from "node:assert/strict"
import type { Device, Stacks } from "../data/device"
import { EventTable, parseFilter } from "./events"
import { cpuMs, deviceOf, random, stacksOf } from "../testing"

const STACKS: Stacks = stacksOf([
  [
    ["malloc", "??"],
    ["forward", "/home/me/model.py"],
    ["main", "/home/me/train.py"],
  ],
  [
    ["step", "/site-packages/torch/optim/adamw.py"],
    ["main", "/home/me/train.py"],
  ],
  [["grow", "??"]],
])

/** Baseline a; segment; b, freed with another stack; c, whose one free stands for both; a failed request. */
function sample(): Device {
  const strips = { events: 8, birth: Int32Array.of(-1, 1, 3), death: Int32Array.of(8, 2, 5), height: Float64Array.of(512, 4096, 2 ** 20) }
  return {
    ...deviceOf(strips, [-1, 0, 1]),
    requested: Float64Array.of(500, 4000, 2 ** 20),
    freeEvent: Int32Array.of(8, 4, 5),
    freeStack: Int32Array.of(-1, 1, -1),
    addrValues: Float64Array.of(0x1000, 0x2000, 0x8000),
    actions: ["oom", "segment_alloc"],
    eventIndex: Int32Array.of(0, 6),
    eventAction: Int32Array.of(1, 0),
    eventAddr: Float64Array.of(0x2000, 99),
    eventSize: Float64Array.of(2 ** 21, 2 ** 30),
    eventStream: Int32Array.of(0, 0),
    eventStack: Int32Array.of(2, -1),
  }
}

const table = () => new EventTable(sample(), STACKS)
const ACTIONS = ["alloc", "free_requested", "free_completed", "oom", "segment_alloc"]
const found = (search: string) => [...table().select(parseFilter(search, ACTIONS))]

test("every event is the event that happened there", () => {
  const rows = table()
  const events = [...rows.kind.keys()]
  assert.deepEqual(
    events.map((event) => rows.actionOf(event)),
    ["segment_alloc", "alloc", "free_requested", "alloc", "free_completed", "free", "oom", "unknown"],
  )
  assert.deepEqual(
    events.map((event) => rows.allocationOf(event)),
    [-1, 1, 1, 2, 1, 2, -1, -1],
  )
  assert.deepEqual(
    events.map((event) => rows.sizeOf(event)),
    [2 ** 21, 4000, 4000, 2 ** 20, 4000, 2 ** 20, 2 ** 30, 0],
  )
  assert.deepEqual(
    events.map((event) => rows.addressOf(event)),
    [0x2000, 0x2000, 0x2000, 0x8000, 0x2000, 0x8000, null, null],
  )
  assert.deepEqual(
    events.map((event) => rows.stackOf(event)),
    [2, 0, 1, 1, 1, -1, -1, -1],
  )
  assert.deepEqual(
    events.map((event) => rows.tellingStack(event)),
    [2, 0, 1, 1, 1, 1, -1, -1],
  )
  assert.equal(
    rows.counts.reduce((all, count) => all + count, 0),
    8,
  )
})

test("the closing of a lost free leaves the event to the event that closed it", () => {
  const strips = { events: 2, birth: Int32Array.of(0, 1), death: Int32Array.of(1, 2), height: Float64Array.of(512, 512) }
  const events = new EventTable(deviceOf(strips, [-1, -1]), STACKS)
  assert.deepEqual([events.actionOf(1), events.allocationOf(1)], ["alloc", 1])
})

test("a filter takes actions, sizes, addresses and text, and all of them have to hold", () => {
  assert.deepEqual(found(""), [0, 1, 2, 3, 4, 5, 6, 7])
  assert.deepEqual(found("alloc oom"), [1, 3, 6])
  assert.deepEqual(found(">=1MiB"), [0, 3, 5, 6])
  assert.deepEqual(found(">1MiB"), [0, 6])
  assert.deepEqual(found("1m"), [3, 5])
  assert.deepEqual(found("<1k"), [7])
  assert.deepEqual(found("3.5k..1MiB"), [1, 2, 3, 4, 5])
  assert.deepEqual(found("0x2f9f"), [0, 1, 2, 4])
  assert.deepEqual(found("0x2fa0"), [0])
  assert.deepEqual(found("0x20"), found("0x2000"), "a beginning of an address finds it")
  assert.deepEqual(found("0x8"), [3, 5])
  assert.deepEqual(found("model.py:7"), [1])
  assert.deepEqual(found("ADAMW"), [2, 3, 4, 5])
  assert.deepEqual(found("main alloc >=1MiB"), [3])
  assert.deepEqual(found("main forward"), [1])
  assert.deepEqual(found("nowhere"), [])
})

test("words become filters as they are written", () => {
  const filter = (search: string) => {
    const { actions, ...rest } = parseFilter(search, ACTIONS)
    return { actions: [...actions], ...rest }
  }
  const none = { actions: [], sizes: [], addresses: [], texts: [] }
  assert.deepEqual(filter('oom "alloc" 0x7F forward 512'), {
    actions: ["oom"],
    sizes: [],
    addresses: [0x7f],
    texts: ["alloc", "forward", "512"],
  })
  assert.deepEqual(filter(">=512k <2MB =7 1.5GiB 1-2k").sizes, [
    [524288, Infinity],
    [0, 2 ** 21 - 1],
    [7, 7],
    [1.5 * 2 ** 30, 1.5 * 2 ** 30],
    [1024, 2048],
  ])
  assert.deepEqual(filter('"two words" "open'), { ...none, texts: ["two words", "open"] })
  assert.deepEqual(filter("2023-11 a..b 0xzz 5KiBx").texts, ["2023-11", "a..b", "0xzz", "5KiBx"])
})

test("a million events are filtered in a moment", () => {
  const next = random(1)
  const n = 400_000
  const birth = Int32Array.from({ length: n }, (_, i) => 3 * i)
  const strips = {
    events: 3 * n,
    birth,
    death: birth.map((event) => event + 1),
    height: new Float64Array(n).map(() => 512 * Math.floor(1 + next() * 1e5)),
  }
  const rows = new EventTable(
    {
      ...deviceOf(
        strips,
        Array.from(birth, (_, i) => i % 2),
      ),
      freeEvent: birth.map((event) => event + 2),
    },
    STACKS,
  )
  const start = cpuMs()
  const events = rows.select(parseFilter("alloc >=1MiB forward", ACTIONS))
  assert.ok(cpuMs() - start < 400, "many times what it takes, for slow machines")
  assert.ok([...events].every((event) => event % 6 === 0 && rows.sizeOf(event) >= 2 ** 20))
})
