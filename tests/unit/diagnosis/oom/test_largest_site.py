"""The call site to begin with: what calls it, what it undoes, and how its line reads."""

from __future__ import annotations

from typing import Any

import pytest

from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.peak import forward_sites
from snapreport.model.snapshot import SOURCE
from tests.builders import MIB, TraceBuilder, frame, trace

ENGINE = [frame("torch::autograd::Engine::thread_main(std::shared_ptr<G> const&)", "??", 0)]


def node(name: str) -> list[dict[str, Any]]:
    return [frame(f"torch::autograd::generated::{name}::apply(std::vector<T>&&)", "??", 0), *ENGINE]


def forward(operator: str, function: str, line: int, **more: str) -> list[dict[str, Any]]:
    return [
        frame(f"at::_ops::{operator}::call(at::Tensor const&)", "??", 0),
        frame(function, "model.py", line) | more,
        frame("main", "train.py", 1),
    ]


def said(made: TraceBuilder) -> str:
    (device,) = find(made.file()).devices
    (text,) = (
        each.text
        for finding in device.diagnosis.findings
        for each in finding.suggestions
        if each.code == "largest-site"
    )
    return text


def test_the_line_reads_as_the_recorder_noted_it() -> None:
    stack = [frame("forward", "model.py", 4) | {SOURCE: "x = self.up(x)"}]
    assert said(trace().alloc("x", 512).alloc("a", MIB, frames=stack)).endswith(
        "The line reads “x = self.up(x)”."
    )
    assert "line reads" not in said(
        trace().alloc("x", 512).alloc("a", MIB, frames=[frame("f", "model.py", 4)])
    )


def test_a_call_site_is_compared_with_others_only_where_there_are_some_that_hold_less() -> None:
    def made(*sizes: int) -> str:
        file = trace()
        for line, size in enumerate(sizes, 1):
            file.alloc(f"x{line}", size, frames=[frame("f", "model.py", line)])
        return said(file.free("x1"))

    assert "MiB lower, more than without those of any other call site." in made(2 * MIB, MIB)
    assert made(2 * MIB).endswith("MiB lower.")
    assert made(MIB, MIB).endswith("MiB lower.")


def test_a_line_of_a_library_is_named_with_that_of_the_program_that_called_it() -> None:
    library = frame("to", "/x/site-packages/transformers/modeling_utils.py", 9)
    stack = [library, frame("main", "train.py", 7) | {SOURCE: "model.to(device)"}]
    text = said(trace().alloc("x", 512).alloc("a", MIB, frames=stack))
    assert "Begin with to (modeling_utils.py:9), called from main (train.py:7): without" in text
    assert text.endswith("The line reads “model.to(device)”.")


def test_a_backward_node_is_named_with_the_line_of_the_forward_pass() -> None:
    made = trace().alloc("x", 512, frames=forward("div_Tensor", "softmax", 9, source="a / b"))
    made.alloc("gradient", MIB, frames=node("DivBackward0"))
    text = said(made)
    assert (
        "Begin with the backward of div (DivBackward0), whose forward is at softmax (model.py:9):"
        in text
    )
    assert text.endswith("The line reads “a / b”.")


def test_two_lines_are_both_named_and_of_more_none() -> None:
    made = trace()
    for line in (9, 13):
        made.alloc(f"x{line}", 512, frames=forward("div_Tensor", "softmax", line))
    two = said(made.alloc("gradient", MIB, frames=node("DivBackward0")))
    assert "whose forward is at softmax (model.py:9) or softmax (model.py:13): " in two
    made = trace()
    for line in (9, 13, 21):
        made.alloc(f"x{line}", 512, frames=forward("div_Tensor", "softmax", line))
    assert "whose forward" not in said(made.alloc("gradient", MIB, frames=node("DivBackward0")))


@pytest.mark.parametrize(
    ("name", "operator", "fits"),
    [
        ("DivBackward0", "div_Tensor", True),
        ("DivBackward0", "divide_Tensor", False),
        ("MaxBackward0", "max_dim", True),
        ("MaxBackward0", "max_pool2d", False),
        ("ToCopyBackward0", "_to_copy", True),
        ("PowBackward0", "pow_Tensor_Scalar", True),
        ("NllLossBackward0", "nll_loss_forward", True),
        ("LogSoftmaxBackward0", "_log_softmax", True),
        ("LogSoftmaxBackward0", "log_softmax_int", True),
        ("NativeLayerNormBackward0", "native_layer_norm", True),
        ("AddmmBackward0", "mm", False),
        ("AccumulateGrad", "add_Tensor", False),
    ],
)
def test_a_node_is_told_by_its_operator(name: str, operator: str, fits: bool) -> None:
    file = trace().alloc("x", 512, frames=forward(operator, "f", 3)).file()
    node_name = f"torch::autograd::generated::{name}::apply(std::vector<T>&&)"
    assert len(forward_sites(file.stacks, node_name)) == fits


def test_what_backward_and_the_optimizer_call_is_no_forward_pass() -> None:
    optimizer = frame("step", "/x/site-packages/torch/optim/adam.py", 9)
    made = trace()
    made.alloc("a", 512, frames=[frame("at::_ops::div_Tensor::call", "??", 0), optimizer])
    made.alloc("b", 512, frames=[frame("at::_ops::div_Tensor::call", "??", 0), *node("XBackward0")])
    made.alloc("c", 512, frames=[frame("at::_ops::div_Tensor::call", "??", 0)])  # no Python
    assert forward_sites(made.file().stacks, "DivBackward0") == []


@pytest.mark.parametrize("trains", [True, False])
def test_a_peak_in_compiled_code_says_how_to_look_in_and_how_to_keep_less(trains: bool) -> None:
    compiled = frame("call", "/tmp/torchinductor_ann/yb/cyb76.py", 30)
    runs = frame("_fn", "/x/torch/_dynamo/eval_frame.py", 7)
    calls = [
        frame("_wrapped_call_impl", "/x/torch/nn/modules/module.py", 9),
        frame("main", "train.py", 1),
    ]
    made = trace().alloc("weight", MIB, frames=[frame("build", "model.py", 2)])
    made.alloc("kept", 20 * MIB, frames=[compiled, runs, frame("forward", "model.py", 5), *calls])
    if trains:
        made.free("kept", frames=[frame("backward", "/x/torch/_tensor.py", 3), *calls[1:]])
        made.alloc("grad", MIB, frames=[frame("backward", "/x/torch/_tensor.py", 3), *calls[1:]])
    (device,) = find(made.file()).devices
    told = {each.code: each for found in device.diagnosis.findings for each in found.suggestions}
    assert "20.00 MiB were made by compiled code" in told["look-inside"].text
    assert told["look-inside"].change.startswith("TORCH_COMPILE_DISABLE=1 ")
    assert ("activation-budget" in told) == trains
    if trains:
        assert "activation_memory_budget = 0.5" in told["activation-budget"].change
