import { test } from "node:test"
import assert from "node:assert/strict"
import { originsOf } from "../data/origins"
import { amountsLive } from "../data/questions"
import { PatternError } from "../text/pattern"
import { filterTest, searchTree, textTest } from "./search"
import { deviceOf, stacksOf } from "../testing"
import { CallTree, ROOT } from "./tree"

const FILES = ["/home/me/model.py", "/home/me/train.py", "C:\\run\\train.py", "/venv/torch/nn/modules/linear.py"]
const passing = (typed: string) => FILES.filter(filterTest(typed) ?? (() => true))

test("plain words are parts of the text, in any case", () => {
  assert.deepEqual(passing("MODEL"), [FILES[0]])
  assert.deepEqual(passing("(.*"), [])
})

test("a glob fits from a separator to the end", () => {
  assert.deepEqual(passing("train.*"), [FILES[1], FILES[2]])
  assert.deepEqual(passing("*/torch/*"), [FILES[3]])
  assert.deepEqual(passing("rain.p?"), [])
})

test("between slashes stands a regular expression", () => {
  assert.deepEqual(passing("/(model|linear)\\.py$/"), [FILES[0], FILES[3]])
  assert.throws(() => textTest("/(/"), PatternError)
})

test("commas add files, a minus takes them out again", () => {
  assert.deepEqual(passing("model.py, train.py, -C:"), [FILES[0], FILES[1]])
  assert.deepEqual(passing("-torch"), FILES.slice(0, 3))
  assert.equal(filterTest(" , - "), null)
})

test("a search finds nodes in the order of the rows and counts bytes once", () => {
  const stacks = stacksOf([
    [
      ["empty", "??"],
      ["layer", "/me/model.py"],
      ["call", "/me/model.py"],
      ["main", "/me/train.py"],
    ],
    [
      ["empty", "??"],
      ["step", "/me/optim.py"],
      ["main", "/me/train.py"],
    ],
  ])
  const strips = { events: 2, birth: Int32Array.of(0, 1, -1), death: Int32Array.of(2, 2, 2), height: Float64Array.of(5, 30, 4) }
  const device = deviceOf(strips, [0, 1, -1])
  const origins = originsOf(device, stacks)
  const tree = new CallTree(device, stacks, origins, "down", false)
  const sums = tree.at(amountsLive(device, "allocated", 1, origins.ofAllocation, origins.length))
  const names = (typed: string, from = ROOT) => {
    const found = searchTree(sums, stacks, from, textTest(typed))
    return [
      found.bytes,
      ...found.nodes.map((node) => (tree.frame[node] < 0 ? tree.label(node) : stacks.strings[stacks.frameName[tree.frame[node]]])),
    ]
  }
  assert.deepEqual(names("model.py"), [5, "call", "layer"])
  assert.deepEqual(names("EMPTY"), [35, "empty", "empty"])
  assert.deepEqual(names("train.py:7"), [35, "main"])
  assert.deepEqual(names("before"), [4, "before recording"])
  assert.deepEqual(names("main", sums.children(sums.children(ROOT)[0])[0]), [0])
})
