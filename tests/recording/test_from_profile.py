"""Finished profiles of real programs, held against the profiler's own totals."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport import Snapshot
from snapreport.bundle import write_bundle
from snapreport.ground.errors import RecordingError
from snapreport.recorders.profiler import FUNCTION_START, _function
from tests.needed import needed

torch = needed("torch")
nn = needed("torch.nn")

HERE = Path(__file__)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Import what the first optimizer would import inside a profile.

    Modules' code is gone when they are imported, and PyTorch's own list of events then fails on
    names that are.
    """
    importlib.import_module("torch._dynamo")


def line_of(mark: str) -> int:
    """Return the line of this file that ends with a comment."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}")]
    return line


def profiled(program: Callable[[], object], **options: Any) -> tuple[Any, Snapshot]:
    chosen = {"profile_memory": True, "with_stack": True, **options}
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, **chosen) as profile:
        kept = program()  # noqa: F841 -- what it returns is live at the end
    return profile, snapreport.from_profile(profile)


def memory_changes(profile: Any) -> list[int]:
    """The bytes of each [memory] event, in the order of time."""
    events = profile.profiler.kineto_results.events()
    found = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    return [size for _, size in sorted(found, key=lambda pair: pair[0])]


def sites_at_peak(snapshot: Snapshot) -> dict[int, int]:
    """Bytes at the peak by line of this file."""
    sites = snapshot.findings().devices[0].sites
    return {
        s.line: s.bytes for s in sites if Path(s.filename).name == HERE.name and s.line is not None
    }


def check_totals(profile: Any, snapshot: Snapshot) -> None:
    changes = memory_changes(profile)
    rows = snapshot.devices[0].allocations
    made = rows.alloc_event >= 0
    assert changes
    assert int(rows.size[made].sum()) == sum(size for size in changes if size > 0)
    freed = made & (rows.free_event < snapshot.devices[0].events)
    assert int(rows.size[freed].sum()) == -sum(size for size in changes if size < 0)
    running = peak = 0
    for size in changes:
        running += size
        peak = max(peak, running)
    baseline = int(rows.size[~made].sum())
    assert snapshot.findings().devices[0].peaks["allocated"].bytes - baseline == peak
    # The profiler counts each event once, at its operator or by itself; and where the tests run
    # beside another thread, a second time at the Python function that this one waits in.
    counted = list(profile.events())
    working = {e.thread for e in counted if e.name.startswith("aten::") or e.name == "[memory]"}
    assert sum(e.self_cpu_memory_usage for e in counted if e.thread in working) == running


def linear_layer() -> object:
    layer = nn.Linear(1024, 512)  # linear
    return layer, layer(torch.randn(64, 1024))  # linear forward


def conv_net() -> Any:
    class ConvNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 16, 3, padding=1)
            self.second = nn.Conv2d(16, 32, 3, padding=1)
            self.head = nn.Linear(32, 10)

        def forward(self, images: Any) -> Any:
            hidden = torch.relu(self.first(images))  # first convolution
            hidden = torch.relu(self.second(hidden))  # second convolution
            return self.head(hidden.mean((2, 3)))

    return ConvNet()


def training_step(net: Any, optimizer: Any, images: Any) -> None:
    with torch.profiler.record_function("forward"):
        loss = net(images).square().sum()
    with torch.profiler.record_function("backward"):
        loss.backward()  # backward
    optimizer.step()  # optimizer step
    optimizer.zero_grad()


def test_a_linear_layer_agrees_with_the_profiler_and_names_its_lines() -> None:
    profile, snapshot = profiled(linear_layer)
    check_totals(profile, snapshot)
    sites = sites_at_peak(snapshot)
    assert sites[line_of("linear")] == (1024 + 1) * 512 * 4
    assert sites[line_of("linear forward")] == (64 * 1024 + 64 * 512) * 4
    assert next(iter(sites)) == line_of("linear")


def test_a_small_conv_net_agrees_with_the_profiler_and_names_its_lines() -> None:
    net, images = conv_net(), torch.randn(8, 3, 32, 32)
    profile, snapshot = profiled(lambda: net(images))
    check_totals(profile, snapshot)
    sites = sites_at_peak(snapshot)
    assert next(iter(sites)) == line_of("second convolution")
    assert sites[line_of("second convolution")] >= 8 * 32 * 32 * 32 * 4


def test_a_training_step_agrees_with_the_profiler_and_names_its_lines() -> None:
    net, images = conv_net(), torch.randn(8, 3, 32, 32)
    optimizer = torch.optim.AdamW(net.parameters())
    profile, snapshot = profiled(lambda: training_step(net, optimizer, images))
    check_totals(profile, snapshot)
    sites = sites_at_peak(snapshot)
    assert next(iter(sites)) == line_of("backward")
    assert line_of("first convolution") in sites


def test_parameters_from_before_are_the_baseline() -> None:
    net = conv_net()
    _, snapshot = profiled(lambda: net(torch.randn(1, 3, 8, 8)))
    rows = snapshot.devices[0].allocations
    expected = sorted(p.numel() * 4 for p in net.parameters())
    assert sorted(rows.size[rows.alloc_event == -1].tolist()) == expected


def test_optimizer_state_and_gradients_are_stated() -> None:
    net, images = conv_net(), torch.randn(2, 3, 8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    _, snapshot = profiled(lambda: training_step(net, optimizer, images))
    rows, texts = snapshot.devices[0].allocations, snapshot.history.strings
    by_kind: dict[str, int] = {}
    for size, category in zip(rows.size.tolist(), rows.category.tolist(), strict=True):
        if category >= 0:
            by_kind[texts[category]] = by_kind.get(texts[category], 0) + size
    parameters = sum(p.numel() * 4 for p in net.parameters())
    steps = 4 * len(list(net.parameters()))
    assert by_kind["optimizer state"] == 2 * parameters + steps
    assert by_kind["gradient"] == parameters


def test_record_function_and_optimizer_are_stages() -> None:
    net, images = conv_net(), torch.randn(2, 3, 8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    _, snapshot = profiled(lambda: training_step(net, optimizer, images))
    stages = snapshot.devices[0].stages
    assert stages.name[:3] == ["forward", "backward", "Optimizer.step#AdamW.step"]
    assert stages.end_event[0] <= stages.start_event[1] < stages.end_event[1]


def test_a_range_that_is_open_when_the_profiler_stops_has_no_end() -> None:
    open_range = torch.profiler.record_function("epoch")

    def program() -> object:
        open_range.__enter__()
        return torch.ones(10)

    try:
        _, snapshot = profiled(program)
    finally:
        open_range.__exit__(None, None, None)
    stages, device = snapshot.devices[0].stages, snapshot.devices[0]
    assert stages.name == ["epoch"]
    assert stages.end_time_us.tolist() == [-1]
    assert stages.end_event.tolist() == [device.events]


def test_code_that_is_gone_has_no_name_and_breaks_nothing() -> None:
    class Gone:
        file_name = "train.py"
        line_number = 3

        def __init__(self, raw: bytes) -> None:
            self.raw = raw

        @property
        def function_name(self) -> str:
            return self.raw.decode()

    for raw in (b"\x90abc", b"a\x00b"):
        assert _function(Gone(raw)) == ("(code no longer in memory)", "", 3)
    assert _function(Gone(b"train")) == ("train", "train.py", 3)


def test_an_operator_is_a_frame_and_its_callers_are_whole() -> None:
    profile, _ = profiled(linear_layer)
    snapshot = snapreport.from_profile(profile, keep_paths=True)
    stacks, rows = snapshot.history.stacks, snapshot.devices[0].allocations
    largest = rows.size == 64 * 512 * 4
    (stack,) = rows.stack[largest].tolist()
    frames = [
        (stacks.frames.names[f], stacks.frames.filenames[f], int(stacks.frames.lines[f]))
        for f in stacks.path(stack)
    ]
    names = [name for name, _, _ in frames]
    assert names[:3] == ["aten::addmm", "aten::linear", "forward"]
    own = [(name, Path(file).name, line) for name, file, line in frames]
    assert ("linear_layer", HERE.name, line_of("linear forward")) in own
    assert names.index("linear_layer") < names.index("profiled")
    assert all(Path(f).is_absolute() for n, f, _ in frames if f.endswith(".py")), frames


def test_an_operator_written_as_a_sign_says_that_its_line_is_the_functions() -> None:
    def add() -> object:  # add
        one = torch.ones(1000)
        return one + one

    _, snapshot = profiled(add)
    frames = snapshot.history.stacks.frames
    inexact = {
        (frames.names[f], int(frames.lines[f]))
        for f, extra in frames.extra.items()
        if extra["line_is"] == FUNCTION_START
    }
    assert ("add", line_of("add")) in inexact


def test_a_free_carries_the_stack_of_where_it_was_freed() -> None:
    def make() -> Any:
        return torch.ones(5000)

    def drop() -> None:
        held = [make()]
        held.clear()  # freed here

    _, snapshot = profiled(drop)
    stacks, rows = snapshot.history.stacks, snapshot.devices[0].allocations
    (stack,) = rows.free_stack[rows.size == 20000].tolist()
    innermost = next(iter(stacks.path(stack)))
    assert int(stacks.frames.lines[innermost]) == line_of("freed here")


def test_a_profile_without_stacks_still_names_the_operators() -> None:
    profile, snapshot = profiled(linear_layer, with_stack=False)
    check_totals(profile, snapshot)
    sites = {site.name for site in snapshot.findings().devices[0].sites}
    assert "aten::addmm" in sites


def test_a_profile_with_shapes_agrees_too() -> None:
    net, images = conv_net(), torch.randn(2, 3, 8, 8)
    optimizer = torch.optim.AdamW(net.parameters())

    def steps() -> None:
        training_step(net, optimizer, images)
        training_step(net, optimizer, images)

    profile, snapshot = profiled(steps, record_shapes=True)
    check_totals(profile, snapshot)
    rows, texts = snapshot.devices[0].allocations, snapshot.history.strings
    gradients = [texts[c] == "gradient" if c >= 0 else False for c in rows.category.tolist()]
    assert int(rows.size[gradients].sum()) >= 2 * sum(p.numel() * 4 for p in net.parameters())


def test_the_bundle_of_a_profile_is_the_profile(tmp_path: Path) -> None:
    _, snapshot = profiled(linear_layer)
    with (tmp_path / "snap.zip").open("wb") as file:
        write_bundle(snapshot.history, file)
    again = snapreport.load(tmp_path / "snap.zip")
    assert again.history.layout == "profiler"
    assert sites_at_peak(again) == sites_at_peak(snapshot)


def test_what_is_no_finished_profile_with_memory_is_refused() -> None:
    with pytest.raises(RecordingError, match="A dict is not a profile"):
        snapreport.from_profile({})
    running = torch.profiler.profile(profile_memory=True)
    with pytest.raises(RecordingError, match="has recorded nothing yet"):
        snapreport.from_profile(running)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(3)
    with pytest.raises(RecordingError, match="profile_memory=True"):
        snapreport.from_profile(profile)
