import { test } from "node:test"
import assert from "node:assert/strict"
import { amountsLive } from "../data/questions"
import { deviceOf, stacksOf } from "../testing"
import { ROOT } from "./tree"
import { parseKey, TreeModel } from "./tree_model"

const FILE = "/me/model.py"
const STACKS = stacksOf([
  [
    ["leaf", FILE],
    ["b", FILE],
    ["a", FILE],
    ["main", FILE],
  ],
  [
    ["leaf", FILE],
    ["c", FILE],
    ["a", FILE],
    ["main", FILE],
  ],
  [
    ["leaf", FILE],
    ["d", FILE],
    ["main", FILE],
  ],
])
const STRIPS = { events: 4, birth: Int32Array.of(0, 1, 2), death: Int32Array.of(4, 4, 3), height: Float64Array.of(50, 30, 1) }

const DEVICE = deviceOf(STRIPS, [0, 1, 2])

const live = ({ origins }: TreeModel, event: number) => amountsLive(DEVICE, "allocated", event, origins.ofAllocation, origins.length)

function model(): TreeModel {
  const made = new TreeModel(DEVICE, STACKS)
  made.show(live(made, 2))
  made.collapse()
  return made
}

const name = (of: TreeModel, node: number) => (node === ROOT ? "all" : STACKS.strings[STACKS.frameName[of.tree.frame[node]]])
const names = (of: TreeModel) => of.rows.map((node) => name(of, node)).join(" ")
const find = (of: TreeModel, wanted: string) => of.rows.find((node) => name(of, node) === wanted)!

test("a chain opens to its next fork, and closes in one event", () => {
  const tree = model()
  assert.equal(names(tree), "all main")
  tree.toggle(find(tree, "main"))
  assert.equal(names(tree), "all main a d")
  tree.toggle(find(tree, "a"))
  assert.equal(names(tree), "all main a b c d")
  tree.toggle(find(tree, "b"))
  assert.equal(names(tree), "all main a b leaf c d")
  tree.toggle(find(tree, "main"))
  assert.equal(names(tree), "all main")
})

test("a reader's own openings outlive a move of the cursor", () => {
  const tree = model()
  tree.expandAll()
  assert.equal(names(tree), "all main a b leaf c leaf d leaf")
  tree.show(live(tree, 3))
  assert.equal(names(tree), "all main a b leaf c leaf")
  tree.show(live(tree, 2))
  assert.equal(names(tree), "all main a b leaf c leaf d leaf")
})

test("focus shows a subtree alone, and back returns through every earlier one", () => {
  const tree = model()
  tree.expandAll()
  tree.focus(find(tree, "a"))
  assert.equal(names(tree), "a b leaf c leaf")
  tree.focus(find(tree, "c"))
  assert.equal(names(tree), "c leaf")
  assert.ok(tree.back() && tree.top !== ROOT)
  assert.ok(tree.back() && tree.top === ROOT)
  assert.ok(!tree.back() && !tree.canGoBack)
  tree.focus(find(tree, "c"))
  tree.focus(ROOT)
  assert.ok(tree.back() && tree.canGoBack)
  assert.equal(names(tree), "c leaf")
})

test("next and previous go around all matches and open what is around them", () => {
  const tree = model()
  tree.search("leaf")
  assert.deepEqual([tree.match, tree.found!.nodes.length, tree.found!.bytes], [0, 3, 81])
  const parents: string[] = []
  for (let k = 0; k < 4; k++, tree.next(1)) parents.push(name(tree, tree.tree.parent[tree.chosen]))
  assert.deepEqual(parents, ["b", "c", "d", "b"])
  tree.next(-1)
  assert.equal(name(tree, tree.tree.parent[tree.chosen]), "b")
  assert.ok(tree.rows.includes(tree.chosen))
  tree.search("/(/")
  assert.equal(tree.refused, "Not a regular expression")
  assert.equal(tree.found, null)
})

test("a match stays the present one while the cursor moves", () => {
  const tree = model()
  tree.search("leaf")
  tree.next(1)
  tree.show(live(tree, 3))
  assert.deepEqual([tree.match, tree.found!.nodes.length], [1, 2])
})

test("revealing a node outside of the focus leaves the focus; one that holds nothing is not revealed", () => {
  const tree = model()
  tree.expandAll()
  const d = find(tree, "d")
  tree.focus(find(tree, "a"))
  assert.ok(tree.reveal(d))
  assert.equal(tree.top, ROOT)
  tree.show(live(tree, 3))
  assert.ok(!tree.reveal(d))
})

test("a key names its tree and its node", () => {
  const tree = model()
  tree.turn("up", false)
  tree.expandAll()
  const named = parseKey(tree.keyOf(find(tree, "c")))!
  assert.deepEqual([named.direction, named.folded], ["up", false])
  const other = model().treeOf(named.direction, named.folded)
  assert.equal(STACKS.strings[STACKS.frameName[other.frame[named.node]]], "c")
  assert.equal(parseKey(model().keyOf(3))!.folded, true)
  assert.deepEqual(["sideways-1", "down-", ""].map(parseKey), [null, null, null])
})

test("a link's focus stands alone, and leads back to everything", () => {
  const tree = model()
  tree.expandAll()
  const top = find(tree, "a")
  const other = model()
  other.adopt({ mode: "flame", folded: true, top })
  assert.equal(name(other, other.top), "a")
  assert.ok(other.back())
  assert.equal(other.top, ROOT)
  other.adopt({ mode: "up", folded: false, top: ROOT })
  assert.deepEqual([other.direction, other.folded, other.canGoBack], ["up", false, false])
  other.adopt({ mode: "down", folded: true, top })
  other.adopt({ mode: "down", folded: true, top: ROOT })
  assert.deepEqual([other.top, other.canGoBack], [ROOT, false])
})
