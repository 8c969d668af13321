"""Call sites and call trees of small cases, and why a stack is missing."""

from __future__ import annotations

from typing import Any

import pytest

from snapreport.diagnosis.conclude import find_figures
from snapreport.model.findings import DeviceFigures
from tests.builders import BASE, MIB, TraceBuilder, frame, trace

SITE = "/usr/lib/python3.11/site-packages"
INTERPRETER = frame("_PyEval_EvalFrameDefault", "??", 0)
UNWIND = frame("torch::unwind::unwind()", "??", 0)


def found(builder: TraceBuilder) -> DeviceFigures:
    return find_figures(builder.file(), 0)


def site_of(*frames: dict[str, Any]) -> str:
    (site,) = found(trace().alloc("a", 512, frames=list(frames))).sites
    return site.name


@pytest.mark.parametrize(
    "library",
    [
        frame("linear", f"{SITE}/torch/nn/functional.py", 5),
        frame("conv", f"{SITE}/torchvision/ops.py", 5),
        frame("kernel", "C:\\Python\\Lib\\site-packages\\torch\\cuda\\x.py", 5),
        frame("run", "/usr/lib/python3.11/runpy.py", 5),
        frame("inner", "/usr/lib/python3.11/contextlib.py", 5),
        frame("call", "<eval_with_key>.3", 5),
        frame("at::empty_cuda", "??", 0),
        frame("at::native", "aten/src/Empty.cpp:12", 0),
        INTERPRETER,
        UNWIND,
    ],
    ids=lambda library: library["name"],
)
def test_the_site_is_the_users_frame_under_any_library(library: dict[str, Any]) -> None:
    assert site_of(UNWIND, library, frame("step", "train.py"), frame("main", "train.py")) == "step"


def test_a_model_library_is_a_site_as_the_users_code_is() -> None:
    block = frame("forward", f"{SITE}/transformers/models/x.py", 7)
    assert site_of(UNWIND, block, frame("main", "train.py")) == "forward"


def test_a_cell_of_ipython_is_a_site_as_a_file_is() -> None:
    cell = frame("<module>", "<ipython-input-1-8a01efcc9603>", 2)
    assert site_of(UNWIND, cell, frame("run_code", f"{SITE}/IPython/core/x.py")) == "<module>"


def test_without_the_users_frames_the_innermost_of_the_library_is_the_site() -> None:
    autograd = frame("backward", f"{SITE}/torch/autograd/x.py")
    assert site_of(UNWIND, frame("at::add", "??", 0), autograd) == "backward"


def test_of_operators_alone_the_one_that_wanted_the_memory_is_the_site() -> None:
    operators = [frame(name, "??", 0) for name in ("aten::empty", "aten::addmm", "aten::linear")]
    assert site_of(*operators) == "aten::addmm"
    node = frame("AddmmBackward0", "??", 0)
    site = site_of(operators[0], frame("aten::mm", "??", 0), node)
    assert site == "backward of addmm (AddmmBackward0)"


def test_without_python_the_innermost_that_is_no_machinery_is_the_site() -> None:
    inner = (UNWIND, frame("at::empty_cuda", "??", 0))
    assert site_of(*inner, frame("mine::step()", "??", 0), frame("clone", "??", 0)) == "mine::step"
    assert site_of(*inner, frame("clone", "??", 0)) == "C++ code, without a Python frame"


def test_a_gradient_that_autograd_clones_is_of_its_accumulation() -> None:
    names = (
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",
        "at::native::empty_strided_cuda(c10::ArrayRef<long>, c10::ArrayRef<long>)",
        "at::_ops::new_empty_strided::call(at::Tensor const&, c10::ArrayRef<c10::SymInt>)",
        "torch::autograd::utils::clone_obey_contract(at::Tensor const&, at::Tensor const&)",
        "void torch::autograd::AccumulateGrad::accumulateGrad<at::Tensor&&>(at::Tensor const&)",
        "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)",
        "torch::autograd::Node::operator()(std::vector<at::Tensor>&&)",
        "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
        "__clone",
    )
    frames = [UNWIND, *(frame(name, "??", 0) for name in names)]
    assert site_of(*frames) == "gradient accumulation (AccumulateGrad)"


def test_sites_come_largest_first_and_add_up() -> None:
    def at(line: int) -> dict[str, Any]:
        return {"frames": [frame("f", line=line)]}

    builder = trace().alloc("a", 512, **at(1)).alloc("b", 4096, **at(2)).alloc("c", 1, **at(1))
    sites = found(builder).sites
    assert [(s.line, s.bytes, s.requested, s.count) for s in sites] == [
        (2, 4096, 4096, 1),
        (1, 1024, 513, 2),
    ]


def test_the_tree_merges_stacks_from_the_outermost_frame() -> None:
    builder = (
        trace()
        .alloc("a", 512, frames=[frame("f"), frame("main", line=9)])
        .alloc("b", 1024, frames=[frame("g"), frame("main", line=9)])
        .alloc("c", 2048, frames=[frame("main", line=9)])
    )
    file = builder.file()
    tree = find_figures(file, 0).tree
    names = [file.stacks.frames.names[f] if f >= 0 else "" for f in tree.frame.tolist()]
    assert names == ["", "main", "g", "f"]
    assert tree.parent.tolist() == [-1, 0, 1, 1]
    assert tree.bytes.tolist() == [3584, 3584, 1024, 512]
    assert tree.own_bytes.tolist() == [0, 2048, 1024, 512]
    assert tree.count.tolist() == [3, 3, 1, 1]


def reasons(builder: TraceBuilder) -> set[str]:
    tree = found(builder).tree
    return {text for node, text in tree.label.items() if node > 0}


def test_a_block_from_before_the_recording_says_so() -> None:
    late = trace().alloc("b", 512, frames=[frame("f")])
    assert reasons(late.segment("a", 20 * MIB, (4 * MIB, 1, "live"))) == {"before recording"}


def test_an_alloc_without_frames_was_recorded_without() -> None:
    assert reasons(trace().alloc("a", 512)) == {"stacks not recorded"}


def test_an_alloc_with_an_empty_stack_was_made_outside_python() -> None:
    (reason,) = reasons(trace().alloc("a", 512, frames=[]))
    assert reason.startswith("recorded without frames")


def test_a_block_whose_alloc_was_lost_keeps_its_stack() -> None:
    builder = trace().free("z", 512).segment(BASE + MIB * 2**20, 20 * MIB, (4 * MIB, 1, "live"))
    builder.segments[0]["blocks"][0]["frames"] = [frame("f")]
    device = found(builder)
    assert device.sites[0].name == "f"
    # It shows that the ring lost events: the freed block may have been recorded too.
    assert reasons(builder) == {"before recording, or lost from the ring"}
