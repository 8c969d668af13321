import assert from "node:assert/strict"
import { test } from "node:test"
import type { StageSummary } from "../data/payload"
import { History } from "../data/history"
import { PatternError } from "../text/pattern"
import { cpuMs, deviceOf, randomStrips, stacksOf } from "../testing"
import { type Entry, Finder } from "./finder"
import { parseKey } from "./tree_model"

const MAIN: [string, string] = ["main", "/home/me/train.py"]
const STEP: [string, string] = ["train_step", "/home/me/train.py"]
const LOAD: [string, string] = ["loadBatch", "/home/me/data.py"]
const TORCH: [string, string] = ["c10::malloc(unsigned long)", "??"]
const STACKS = stacksOf([
  [TORCH, STEP, MAIN],
  [TORCH, LOAD, STEP, MAIN],
  [TORCH, LOAD, MAIN],
  [["elsewhere", "/other.py"]], // of another device
])

function stage(name: string, start_event: number, end_event: number): StageSummary {
  return { name, parent: null, depth: 0, start_event, end_event, cut: "" } as StageSummary
}

/** Before the recording 8 bytes; 512 of a step, 1024 and 2048 of batches, freed at 4, never and at 3; a failed request at 5. */
function history(): History {
  const device = deviceOf(
    { events: 6, birth: Int32Array.of(-1, 0, 1, 2), death: Int32Array.of(6, 4, 6, 3), height: Float64Array.of(8, 512, 1024, 2048) },
    [-1, 0, 1, 2],
  )
  return new History(
    {
      ...device,
      addrValues: Float64Array.of(0x1000, 0x2000, 0x3000, 0x3800),
      summary: { ...device.summary, stages: [stage("warm up", -1, 1), stage("run", 1, 3), stage("run", 3, 6)] },
      oneColour: ["pool"],
      actions: ["oom"],
      eventIndex: Int32Array.of(5),
      eventAction: Int32Array.of(0),
      eventAddr: Float64Array.of(0),
      eventSize: Float64Array.of(4096),
      eventStream: Int32Array.of(0),
      eventStack: Int32Array.of(0),
    },
    STACKS,
  )
}

function finder(cursor = 2, of = history()): Finder {
  const found = new Finder(of)
  while (found.addGroups());
  found.at(of, "allocated", cursor)
  return found
}

const said = ({ kind, name, bytes }: Entry) => `${kind} ${name} ${bytes}`

test("functions and files have the bytes whose call stacks they are in, each counted once", () => {
  const found = finder()
  const of = (typed: string) =>
    found
      .find(typed, [])
      .filter(({ kind }) => kind === "function" || kind === "file")
      .map(said)
  assert.deepEqual(of("main"), ["function main 3584"])
  assert.deepEqual(of("loadBatch"), ["function loadBatch 3072"])
  assert.deepEqual(of("train.py"), ["file train.py 3584", "function main 3584", "function train_step 1536"])
  assert.deepEqual(of("c10"), ["function c10::malloc 3584"])
  assert.deepEqual(of("elsewhere"), [], "a function of another device only")
})

test("parts of words find a name, in any order, and so do their beginnings", () => {
  const found = finder()
  const first = (typed: string) => found.find(typed, [])[0]?.name
  for (const typed of ["train_step", "TRAIN_", "step trai", "step train.py", "ain_st", "trst"])
    assert.equal(first(typed), "train_step", typed)
  for (const typed of ["batch", "loba", "data load"]) assert.equal(first(typed), "loadBatch", typed)
  assert.ok(found.find("ts", []).some(({ name }) => name === "train_step"))
  for (const typed of ["tsx", "trtr", "train nothing"]) assert.deepEqual(found.find(typed, []), [], typed)
})

test("the better a name fits, the earlier it comes; equal ones by their bytes", () => {
  const tab: Entry = { kind: "tab", name: "Main view", detail: "", goal: { to: "tab", tab: "main" }, bytes: null }
  const names = finder()
    .find("main", [tab])
    .map(({ kind, name }) => `${kind} ${name}`)
  assert.deepEqual(names.slice(0, 2), ["function main", "tab Main view"])
})

test("stages have what was made in them and is still live, and repeated ones are not all there is", () => {
  const found = finder()
  assert.deepEqual(
    found
      .find("run", [])
      .filter(({ kind }) => kind === "stage")
      .map(said),
    ["stage run 3072", "stage run 0"],
  )
  const many = history()
  many.device.summary.stages = Array.from({ length: 90 }, () => stage("main", 0, 1))
  const rows = finder(2, many).find("main", [])
  assert.ok(rows.length < 20 && rows.some(({ kind }) => kind === "function"))
})

test("a number is an event; actions, sizes and addresses are those of a search for events", () => {
  const found = finder()
  const events = (typed: string) => found.find(typed, []).flatMap(({ goal }) => (goal.to === "event" ? [goal.at] : []))
  assert.deepEqual([events("3"), events("event 3"), events("#3"), events("6")], [[3], [3], [3], []])
  assert.deepEqual([events("oom"), events(">=2k"), events("0x2000")], [[5], [2, 3, 5], [0, 4]])
  assert.match(found.find("oom", [])[0].name, /^Event 5: oom$/)
  const address = found.find("0x3", []).find(({ kind }) => kind === "address")!
  assert.deepEqual([said(address), address.goal], ["address 0x3 3072", { to: "tab", tab: "live", search: "0x3" }])
  assert.equal(
    finder(0)
      .find("0x3", [])
      .find(({ kind }) => kind === "address")!.bytes,
    0,
  )
})

test("events that match are counted where there are many", () => {
  const strips = randomStrips(3, 4000)
  const of = new History(
    deviceOf(
      strips,
      Array.from(strips.birth, () => 0),
    ),
    STACKS,
  )
  const rows = finder(100, of).find("alloc", [])
  const all = rows.find(({ kind }) => kind === "events")!
  const count = strips.birth.filter((event) => event >= 0).length
  assert.equal(all.name, `All ${count.toLocaleString("en")} events`)
  assert.deepEqual(all.goal, { to: "tab", tab: "events", search: "alloc" })
})

test("groups of every colouring are filters, once they were added", () => {
  const of = history()
  const found = new Finder(of)
  found.at(of, "allocated", 2)
  const filters = () => found.find("only", []).filter(({ kind }) => kind === "filter")
  assert.deepEqual(filters(), [])
  while (found.addGroups());
  assert.ok(filters().some((row) => said(row) === "filter Only call site: loadBatch 3072"))
  assert.ok(filters().some((row) => said(row) === "filter Only stage: run 3072"))
  assert.ok(!filters().some(({ name }) => name.includes("memory pool")), "one pool made all")
})

test("what is left out does not count", () => {
  const of = history()
  const found = new Finder(of)
  found.at(of.without(Uint8Array.of(0, 0, 0, 1)), "allocated", 2)
  assert.equal(found.find("loadBatch", [])[0].bytes, 1024)
})

test("globs and regular expressions are searched for; a wrong one is refused", () => {
  const found = finder()
  assert.ok(found.find("/^load/", []).some(({ name }) => name === "loadBatch"))
  assert.ok(found.find("*.py", []).some(({ name }) => name === "data.py"))
  assert.throws(() => found.find("/(/", []), PatternError)
})

test("a function's place in the call stacks holds its most bytes; if nothing is live, its largest allocation says where to look", () => {
  const at = (found: Finder, name: string) => {
    const { goal } = found.find(name, [])[0]
    return found.inStacks(goal.to === "function" ? goal.at : -1)
  }
  const now = at(finder(2), "loadBatch")
  assert.deepEqual([now.folded, now.event, parseKey(now.key)?.direction], [true, 2, "down"])
  assert.notEqual(now.key, at(finder(5), "loadBatch").key, "in another branch")
  assert.equal(at(finder(-1), "loadBatch").event, 2)
  assert.equal(at(finder(2), "c10").folded, false, "a frame that folding hides")
})

test("typing takes no longer than a reader notices, with 1.2 million events", () => {
  const strips = randomStrips(5, 1_200_000)
  const of = new History(
    deviceOf(
      strips,
      Array.from(strips.birth, (_, i) => i % 3),
    ),
    STACKS,
  )
  const found = finder(600_000, of)
  found.find("oom", []) // sorts the events once
  for (const typed of ["m", "train st", ">=64k", "0x1", "77"]) {
    const begun = cpuMs()
    found.find(typed, [])
    const took = cpuMs() - begun
    assert.ok(took < 200, `${typed}: ${took.toFixed(0)} ms`)
  }
})
