"""Call sites of compiled code: the user's line, and what is said of it."""

from __future__ import annotations

from typing import Any

from snapreport.api.comparison import diff
from snapreport.api.loading import Snapshot
from snapreport.diagnosis.conclude import find
from snapreport.figures.callsites import find_call_tree
from snapreport.model.asked import Question
from snapreport.model.findings import CallSite
from snapreport.reporters.answers import tree_listing
from snapreport.roles.frames import site_names, tree_frames
from tests.builders import frame, trace

TORCH = "/venv/lib/python3.11/site-packages/torch"
COMPILED = "/tmp/torchinductor_ann/yb/cyb76.py"
CALL = frame("call", COMPILED, 175)
RUN = frame("run", f"{TORCH}/_inductor/utils.py", 2128)
BACKWARD = frame("backward", f"{TORCH}/_functorch/_aot_autograd/runtime_wrappers.py", 1710)
STEP = frame("step", "train.py", 40)
SILU = frame("silu", "model.py", 12)
EMPTY = frame("empty_strided_cuda", "??", 0)


def site_of(*frames: dict[str, Any]) -> CallSite:
    (site,) = find(trace().alloc("a", 512, frames=list(frames)).file()).devices[0].sites
    return site


def test_a_line_that_was_compiled_is_the_site() -> None:
    # Inductor puts it right around its own frame.
    site = site_of(EMPTY, CALL, SILU, frame("_PyEval", "??", 0), RUN, STEP)
    assert (site.name, site.filename, site.line) == ("silu", "model.py", 12)


def test_in_the_backward_pass_a_line_that_was_compiled_is_the_site() -> None:
    assert site_of(EMPTY, CALL, SILU, RUN, BACKWARD).name == "silu"


def test_without_it_the_site_says_that_its_line_called_compiled_code() -> None:
    site = site_of(EMPTY, CALL, frame("_PyEval", "??", 0), RUN, STEP, frame("main", "train.py", 90))
    assert site.name == "compiled code called from step"
    assert (site.filename, site.line) == ("train.py", 40)


def test_what_compiled_code_calls_is_no_call_of_compiled_code() -> None:
    assert site_of(EMPTY, frame("my_op", "ops.py", 3), RUN, CALL, RUN, STEP).name == "my_op"


def test_a_line_that_also_allocates_by_itself_keeps_its_name() -> None:
    builder = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, STEP])
    (site,) = find(builder.alloc("b", 512, frames=[EMPTY, STEP]).file()).devices[0].sites
    assert site.name == "step"


def test_compiled_code_without_any_line_of_the_users_is_called_so() -> None:
    site = site_of(EMPTY, CALL, RUN, BACKWARD)
    assert (site.name, site.filename, site.line) == ("compiled backward", "", None)


def test_what_the_compilers_library_allocates_for_it_belongs_to_compiled_code() -> None:
    clone = frame("clone_preserve_strides", f"{TORCH}/_inductor/utils.py", 3421)
    assert site_of(EMPTY, clone, CALL, RUN, BACKWARD).name == "compiled backward"
    assert site_of(EMPTY, clone, CALL, SILU, RUN, STEP).name == "silu"


def test_the_lines_of_a_generated_file_are_one_call_site() -> None:
    builder = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, BACKWARD])
    builder.alloc("b", 512, frames=[EMPTY, CALL | {"line": 190}, RUN, BACKWARD])
    (device,) = find(builder.file()).devices
    assert [(site.name, site.requested, site.count) for site in device.sites] == [
        ("compiled backward", 1024, 2)
    ]


def test_several_generated_files_are_numbered() -> None:
    other = frame("call", COMPILED.replace("cyb76", "cxa21"), 30)
    builder = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, BACKWARD])
    builder.alloc("b", 512, frames=[EMPTY, other, RUN, BACKWARD])
    sites = find(builder.file()).devices[0].sites
    assert [site.name for site in sites] == [
        "compiled backward, graph 1",
        "compiled backward, graph 2",
    ]


def test_two_recordings_have_the_same_site_though_the_hash_differs() -> None:
    new = frame("call", "/root/torchinductor_bob/xa/cxa21.py", 30)
    base, other = (
        trace().alloc("a", size, frames=[EMPTY, call, RUN, BACKWARD]).file()
        for call, size in ((CALL, 512), (new, 1024))
    )
    (change,) = diff(Snapshot(base), Snapshot(other)).sites
    assert (change.name, change.match, change.change) == ("compiled backward", "exact", 512)


def test_a_folded_tree_has_one_node_for_a_compiled_backward() -> None:
    node = frame("torch::autograd::PyNode::apply(int)", "??", 0)
    builder = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, node])
    file = builder.alloc("b", 512, frames=[EMPTY, CALL | {"line": 190}, RUN, node]).file()
    (device,) = find(file).devices
    for upward in (False, True):
        tree = find_call_tree(
            device.history, file.stacks, Question(alive=(1, 1)), upward=upward, folded=True
        )
        names = [tree_frames(file.stacks).names[each] for each in tree.frame[1:].tolist()]
        words = ["backward of a custom autograd.Function (PyNode)", "compiled backward"]
        assert names == (words[::-1] if upward else words)
        assert tree.count.tolist() == [2, 2, 2]


def test_a_tree_calls_autograd_and_compiled_code_as_call_sites_do() -> None:
    node = frame("torch::autograd::generated::BmmBackward0::apply(int)", "??", 0)
    engine = frame("torch::autograd::Engine::evaluate_function(int)", "??", 0)
    file = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, node, engine]).file()
    shown = tree_frames(file.stacks)
    called = dict(zip(file.stacks.frames.names, shown.names, strict=True))
    assert called["call"] == "compiled backward"
    assert called[node["name"]] == "backward of bmm (BmmBackward0)"
    assert called[engine["name"]] == "backward pass (autograd's engine)"
    assert called["run"] == "run"
    assert shown.filenames[file.stacks.frames.names.index("call")] == ""
    found = find(file)
    tree = "\n".join(tree_listing(found.devices[0].tree, shown, 10).lines)
    assert "backward of bmm (BmmBackward0)" in tree


def test_compiled_code_that_runs_in_both_passes_is_of_neither() -> None:
    builder = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, BACKWARD])
    builder.alloc("b", 512, frames=[EMPTY, CALL, RUN])
    assert {site.name for site in find(builder.file()).devices[0].sites} == {"compiled code"}


def test_a_kernels_name_tells_its_operators() -> None:
    kernel = frame("triton_poi_fused_add_relu_0", COMPILED, 9)
    assert site_of(EMPTY, kernel, RUN, BACKWARD).name == "compiled code for add_relu"


def test_a_traced_graph_leads_to_the_line_that_it_was_traced_from() -> None:
    text = (
        'File "train.py", line 40, in step\n    m(x)\nFile "model.py", line 12, in silu\n    x * y'
    )
    traced = frame("forward", "fx_generated_a1.py", 8) | {"fx_original_trace": text}
    site = site_of(EMPTY, traced, frame("call", f"{TORCH}/fx/graph_module.py", 5), STEP)
    assert (site.name, site.filename, site.line) == ("silu", "model.py", 12)
    assert site.source == "x * y"


def test_it_keeps_its_own_place_too() -> None:
    text = '  File "model.py", line 12, in silu\n    x * y\n'
    traced = frame("forward", "fx_generated_a1.py", 8) | {"fx_original_trace": text}
    frames = trace().alloc("a", 512, frames=[traced]).file().stacks.frames
    assert frames.extra[0]["generated"] == "forward (fx_generated_a1.py:8)"


def test_the_page_calls_sites_alike() -> None:
    file = trace().alloc("a", 512, frames=[EMPTY, CALL, RUN, STEP]).file()
    names = file.stacks.frames.names
    assert find(file).site_frames.names == site_names(file.stacks)
    called = dict(zip(names, site_names(file.stacks), strict=True))
    assert called["step"] == "compiled code called from step"
    assert called["run"] == "run"
