import { test } from "node:test"
import assert from "node:assert/strict"
import { frameKind, shortName } from "./frames"
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
