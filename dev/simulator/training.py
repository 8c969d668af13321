"""A believable program: a small transformer in training, tensor by tensor.

The tensors, their sizes and the order of their births and deaths follow eager PyTorch: what
backward needs is kept from forward on, gradients appear while activations go, AdamW makes its
state in the first step. Stacks have Python frames as ``stacks="all"`` shows them, with the C++
frames cut down to the operator, and to the engine and the autograd node in backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from dev.simulator.blocks import Block
from dev.simulator.callstacks import Frame, make_frame
from dev.simulator.simulator import Simulator

FLOAT, INT = 4, 8


@dataclass(frozen=True)
class Transformer:
    """The sizes of a model and its batch."""

    layers: int = 4
    width: int = 768
    heads: int = 12
    vocabulary: int = 32_000
    batch: int = 8
    length: int = 512

    @property
    def tokens(self) -> int:
        """Tokens in a batch."""
        return self.batch * self.length

    @property
    def hidden(self) -> int:
        """Bytes of an activation as wide as the model."""
        return self.tokens * self.width * FLOAT

    @property
    def scores(self) -> int:
        """Bytes of the attention scores of a layer."""
        return self.batch * self.heads * self.length * self.length * FLOAT

    @property
    def logits(self) -> int:
        """Bytes of the model's output."""
        return self.tokens * self.vocabulary * FLOAT

    def parameters(self) -> list[tuple[str, int]]:
        """Return name and bytes of every parameter, in the order of their making."""
        square = self.width * self.width * FLOAT
        norm = self.width * FLOAT
        found = [
            ("embedding", self.vocabulary * self.width * FLOAT),
            ("position", self.length * self.width * FLOAT),
        ]
        for layer in range(self.layers):
            found += [
                (f"{layer}.norm_1", norm),
                (f"{layer}.qkv", 3 * square),
                (f"{layer}.out", square),
                (f"{layer}.norm_2", norm),
                (f"{layer}.up", 4 * square),
                (f"{layer}.down", 4 * square),
            ]
        return [*found, ("norm", norm), ("head", self.vocabulary * self.width * FLOAT)]


class _Inside:
    """Some more frames of a stack, while the body runs."""

    __slots__ = ("_frames", "_more")

    def __init__(self, frames: list[Frame], *more: Frame) -> None:
        self._frames, self._more = frames, more

    def __enter__(self) -> None:
        self._frames += self._more

    def __exit__(self, *_: object) -> None:
        del self._frames[-len(self._more) :]


class TrainingRun:
    """Trains a model on one device of a simulator, one call at a time."""

    def __init__(self, simulator: Simulator, model: Transformer, device: int = 0) -> None:
        self.simulator = simulator
        self.model = model
        self.device = device
        self.stream = 0
        self.parameters: dict[str, Block] = {}
        self.gradients: dict[str, Block] = {}
        self.optimizer_state: list[Block] = []
        self.saved: list[dict[str, Block]] = []
        """Per layer, what backward will need; then that of the head."""
        self._frames: list[Frame] = []
        """The Python stack, outermost first."""
        self._shared: dict[tuple[str, str, int], Frame] = {}

    def call(self, name: str, filename: str, line: int) -> AbstractContextManager[None]:
        """Be inside a Python function, at a line of it."""
        return _Inside(self._frames, self._frame(name, filename, line))

    def module(self, filename: str, line: int) -> AbstractContextManager[None]:
        """Be inside the ``forward`` of a module that another one calls."""
        return _Inside(
            self._frames,
            self._frame("_wrapped_call_impl", "torch/nn/modules/module.py", 1775),
            self._frame("_call_impl", "torch/nn/modules/module.py", 1786),
            self._frame("forward", filename, line),
        )

    def new(self, size: int, *native: str) -> Block:
        """Allocate a tensor from here; ``native`` names the C++ frames, innermost first."""
        inner = [self._frame(name, "??", 0) for name in native]
        self.simulator.set_stack(inner + self._frames[::-1])
        self.simulator.recorder.clock.advance(9 + (size >> 18))
        return self.simulator.malloc(size, device=self.device, stream=self.stream)

    def drop(self, *blocks: Block) -> None:
        """Free tensors from here."""
        self.simulator.set_stack(self._frames[::-1])
        for block in blocks:
            self.simulator.recorder.clock.advance(3)
            self.simulator.free(block, device=self.device)

    def build(self) -> None:
        """Make the parameters, as ``model.to(device)``."""
        with (
            self.call("<module>", "train.py", 88),
            self.call("main", "train.py", 57),
            self.call("to", "torch/nn/modules/module.py", 1371),
            self.call("_apply", "torch/nn/modules/module.py", 957),
            self.call("convert", "torch/nn/modules/module.py", 1357),
        ):
            for name, size in self.model.parameters():
                self.parameters[name] = self.new(size, "at::_ops::_to_copy::call")

    def train(self, steps: int, first: int = 0) -> None:
        """Run training steps."""
        with self.call("<module>", "train.py", 88):
            for number in range(first, first + steps):
                with self._stage(f"ProfilerStep#{number}"):
                    self.step()

    def step(self) -> None:
        """Run one training step."""
        size = self.model.tokens * INT
        with self.call("main", "train.py", 66):
            batch = [self.new(size, "at::_ops::_to_copy::call") for _ in range(2)]
        with self.call("main", "train.py", 71):
            with self.call("training_step", "train.py", 40), self._stage("forward"):
                loss = self._forward()
            with self.call("training_step", "train.py", 42), self._stage("backward"):
                self._backward(loss)
            with (
                self.call("training_step", "train.py", 43),
                self.call("wrapper", "torch/optim/optimizer.py", 517),
                self._stage("Optimizer.step#AdamW.step"),
            ):
                self._optimize()
            with (
                self.call("training_step", "train.py", 44),
                self.call("zero_grad", "torch/optim/optimizer.py", 1013),
                self._stage("Optimizer.zero_grad#AdamW.zero_grad"),
            ):
                self.drop(*self.gradients.values())
                self.gradients = {}
        with self.call("main", "train.py", 72):
            self.drop(loss, *batch)

    def _forward(self) -> Block:
        model, hidden = self.model, self.model.hidden
        with self.module("model/transformer.py", 61):
            token = self.new(hidden, "at::_ops::embedding::call")
            position = self.new(hidden // model.batch, "at::_ops::embedding::call")
            state = self.new(hidden, "at::_ops::add_Tensor::call")
            self.drop(token, position)
        for _ in range(model.layers):
            with self.module("model/transformer.py", 63):
                state = self._block_forward(state)
        with self.module("model/transformer.py", 64):
            norm = self.new(hidden, "at::_ops::native_layer_norm::call")
        with (
            self.module("model/transformer.py", 65),
            self.module("torch/nn/modules/linear.py", 134),
        ):
            logits = self.new(model.logits, "at::_ops::linear::call")
        with self.call("cross_entropy", "torch/nn/functional.py", 3504):
            likely = self.new(model.logits, "at::_ops::_log_softmax::call")
            loss = self.new(FLOAT, "at::_ops::nll_loss_forward::call")
        self.saved.append({"state": state, "norm": norm, "logits": logits, "likely": likely})
        return loss

    def _block_forward(self, state: Block) -> Block:
        model, hidden = self.model, self.model.hidden
        kept = {"input": state}
        with self.module("model/block.py", 27):
            kept["norm_1"] = self.new(hidden, "at::_ops::native_layer_norm::call")
            kept["mean_1"] = self.new(model.tokens * FLOAT, "at::_ops::native_layer_norm::call")
        with self.module("model/block.py", 28):
            with self.module("model/attention.py", 31):
                kept["qkv"] = self.new(3 * hidden, "at::_ops::linear::call")
            with self.call("attend", "model/attention.py", 37):
                scores = self.new(model.scores, "at::_ops::bmm::call")
            with self.call("attend", "model/attention.py", 39):
                kept["weights"] = self.new(model.scores, "at::_ops::_softmax::call")
                self.drop(scores)
            with self.call("attend", "model/attention.py", 40):
                kept["dropped"] = self.new(model.scores, "at::_ops::native_dropout::call")
                kept["mask"] = self.new(model.scores // FLOAT, "at::_ops::native_dropout::call")
            with self.call("attend", "model/attention.py", 41):
                mixed = self.new(hidden, "at::_ops::bmm::call")
            with self.module("model/attention.py", 33):
                kept["mixed"] = self.new(hidden, "at::_ops::contiguous::call")
                self.drop(mixed)
                out = self.new(hidden, "at::_ops::linear::call")
        with self.call("forward", "model/block.py", 28):
            kept["middle"] = self.new(hidden, "at::_ops::add_Tensor::call")
            self.drop(out)
        with self.module("model/block.py", 29):
            kept["norm_2"] = self.new(hidden, "at::_ops::native_layer_norm::call")
            kept["mean_2"] = self.new(model.tokens * FLOAT, "at::_ops::native_layer_norm::call")
        with self.module("model/block.py", 30):
            with self.module("model/mlp.py", 18):
                kept["up"] = self.new(4 * hidden, "at::_ops::linear::call")
            with self.module("model/mlp.py", 19):
                kept["gelu"] = self.new(4 * hidden, "at::_ops::gelu::call")
            with self.module("model/mlp.py", 20):
                down = self.new(hidden, "at::_ops::linear::call")
        with self.call("forward", "model/block.py", 30):
            state = self.new(hidden, "at::_ops::add_Tensor::call")
            self.drop(down)
        self.saved.append(kept)
        return state

    def _backward(self, loss: Block) -> None:
        hidden = self.model.hidden
        with (
            self.call("backward", "torch/_tensor.py", 648),
            self.call("backward", "torch/autograd/__init__.py", 353),
            self.call("_engine_run_backward", "torch/autograd/graph.py", 824),
        ):
            first = self._node(loss.requested, "AccumulateGrad")
        with self._on_autograd_thread():
            head = self.saved.pop()
            likely = self._node(self.model.logits, "NllLossBackward0")
            grad = self._node(self.model.logits, "LogSoftmaxBackward0")
            self.drop(likely, head["likely"], head["logits"])
            self._accumulate("head", "MmBackward0")
            below = self._node(hidden, "MmBackward0")
            self.drop(grad, head["norm"])
            grad = self._node(hidden, "NativeLayerNormBackward0")
            self._accumulate("norm", "NativeLayerNormBackward0")
            self.drop(below, head["state"])
            for layer in reversed(range(self.model.layers)):
                grad = self._block_backward(layer, self.saved.pop(), grad)
            self._accumulate("embedding", "EmbeddingBackward0")
            self._accumulate("position", "EmbeddingBackward0")
            self.drop(grad, first)

    def _block_backward(self, layer: int, kept: dict[str, Block], grad: Block) -> Block:
        hidden, scores = self.model.hidden, self.model.scores

        def linear(name: str, size: int, of: Block, *used: str) -> Block:
            below = self._node(size, "MmBackward0")
            self._accumulate(f"{layer}.{name}", "MmBackward0")
            self.drop(*([] if of is grad else [of]), *(kept[key] for key in used))
            return below

        wide = linear("down", 4 * hidden, grad, "gelu")
        inner = self._node(4 * hidden, "GeluBackward0")
        self.drop(wide, kept["up"])
        narrow = linear("up", hidden, inner, "norm_2")
        middle = self._node(hidden, "NativeLayerNormBackward0")
        self._accumulate(f"{layer}.norm_2", "NativeLayerNormBackward0")
        self.drop(narrow, kept["mean_2"], kept["middle"], grad)
        grad = middle
        mixed = linear("out", hidden, grad, "mixed")
        dropped = self._node(scores, "BmmBackward0")
        value = self._node(hidden, "BmmBackward0")
        self.drop(mixed, kept["dropped"])
        weights = self._node(scores, "NativeDropoutBackward0")
        self.drop(dropped, kept["mask"])
        raw = self._node(scores, "SoftmaxBackward0")
        self.drop(weights, kept["weights"])
        query = self._node(2 * hidden, "BmmBackward0")
        self.drop(raw)
        joined = self._node(3 * hidden, "SplitBackward0")
        self.drop(query, value, kept["qkv"])
        narrow = linear("qkv", hidden, joined, "norm_1")
        below = self._node(hidden, "NativeLayerNormBackward0")
        self._accumulate(f"{layer}.norm_1", "NativeLayerNormBackward0")
        self.drop(narrow, kept["mean_1"], kept["input"], grad)
        return below

    def _node(self, size: int, node: str) -> Block:
        return self.new(size, f"torch::autograd::generated::{node}::apply")

    def _accumulate(self, name: str, node: str) -> None:
        self.gradients[name] = self._node(self.parameters[name].requested, node)

    @contextmanager
    def _on_autograd_thread(self) -> Iterator[None]:
        """Be on the device's own thread of autograd's engine, where Python has no frames."""
        frames = self._frames
        self._frames = [
            self._frame(f"torch::autograd::Engine::{name}", "??", 0)
            for name in ("thread_init", "thread_main", "evaluate_function")
        ]
        yield
        self._frames = frames

    def _optimize(self) -> None:
        if not self.optimizer_state:
            with self.call("_init_group", "torch/optim/adam.py", 178):
                for parameter in self.parameters.values():
                    self.optimizer_state += [
                        self.new(parameter.requested, "at::_ops::zeros_like::call")
                        for _ in range(2)
                    ]
        with (
            self.call("step", "torch/optim/adam.py", 246),
            self.call("_multi_tensor_adam", "torch/optim/adam.py", 743),
        ):
            roots = [
                self.new(parameter.requested, "at::_ops::_foreach_sqrt::call")
                for parameter in self.parameters.values()
            ]
            self.drop(*roots)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with self.simulator.annotation(name, self.device):
            yield

    def _frame(self, name: str, filename: str, line: int) -> Frame:
        key = (name, filename, line)
        if key not in self._shared:
            self._shared[key] = make_frame(*key)
        return self._shared[key]
