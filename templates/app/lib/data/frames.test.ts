import { test } from "node:test"
import assert from "node:assert/strict"
import { frameKind, frameText, shortName, standIn, treeText } from "./frames"
import { stacksOf } from "../testing"

test("frames outside of PyTorch are the user's, or an installed package's", () => {
  const stacks = stacksOf([
    [
      ["at::mul", "??"],
      ["call", "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py"],
      ["step", "/venv/lib/python3.12/site-packages/transformers/trainer.py"],
      ["main", "/home/me/train.py"],
    ],
  ])
  const kinds = ["at::mul", "call", "step", "main"].map((name) => frameKind(stacks, stacks.frameName.indexOf(stacks.strings.indexOf(name))))
  assert.deepEqual(kinds, ["runtime", "runtime", "library", "user"])
})

test("packages whose paths were shortened are told by the folders that the payload names", () => {
  const stacks = stacksOf([
    [
      ["call", "transformers/trainer.py"],
      ["main", "train/main.py"],
      ["launch", "site-packages/launcher.py"],
    ],
  ])
  stacks.packages = ["transformers"]
  const kinds = ["call", "main", "launch"].map((name) => frameKind(stacks, stacks.frameName.indexOf(stacks.strings.indexOf(name))))
  assert.deepEqual(kinds, ["library", "user", "library"])
})

test("C++ names lose their arguments and the namespace of generated nodes", () => {
  assert.equal(shortName("at::native::mul(at::Tensor const&, double)"), "at::native::mul")
  assert.equal(shortName("at::(anonymous namespace)::mul(at::Tensor)"), "at::(anonymous namespace)::mul")
  assert.equal(shortName("torch::autograd::Node::operator()(int)"), "torch::autograd::Node::operator()")
  assert.equal(shortName("torch::autograd::generated::MulBackward0::apply(int)"), "MulBackward0::apply")
  assert.equal(shortName("<lambda>"), "<lambda>")
})

test("a tree calls compiled code by what it does, without its file, and all its lines are one", () => {
  const plain = stacksOf([
    [
      ["call", "/t/cyb.py"],
      ["PyNode::apply", "node.cpp"],
    ],
    [
      ["call again", "/t/cyb.py"],
      ["main", "/me/train.py"],
    ],
  ])
  const frame = (name: string) => plain.frameName.indexOf(plain.strings.indexOf(name))
  const named = (name: string, as: number) => [frame(name), plain.strings.length + as] as const
  const names = new Map([named("call", 0), named("call again", 0), named("PyNode::apply", 1)])
  const stacks = {
    ...plain,
    strings: [...plain.strings, "compiled backward", "backward of a custom autograd.Function (PyNode)"],
    treeName: plain.frameName.map((_, each) => names.get(each) ?? -1),
  }
  const text = (name: string) => [treeText(stacks, frame(name)).name, treeText(stacks, frame(name)).place]
  assert.deepEqual(text("call"), ["compiled backward", ""])
  assert.deepEqual(text("PyNode::apply"), ["backward of a custom autograd.Function (PyNode)", "node.cpp:7"])
  assert.deepEqual(text("main"), ["main", "train.py:7"])
  assert.equal(frameText(stacks, frame("call")).place, "cyb.py:7")
  const stands = ["call", "call again", "main"].map((name) => standIn(stacks, frame(name)))
  assert.deepEqual(stands, ["call", "call", "main"].map(frame))
})
