"""Findings made by hand; what a test does not care about is filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from snapreport.history.segments import lives_of
from snapreport.model.answers import AllocationStatistics, CurveStatistics
from snapreport.model.diagnoses import (
    Check,
    CurvePeak,
    Diagnosis,
    Finding,
    Loss,
    OomEvent,
    Trust,
    TrustFacts,
    View,
    Window,
)
from snapreport.model.findings import (
    MISSING_REASONS,
    Amounts,
    CallSite,
    CallTree,
    Curves,
    DeviceFigures,
    DeviceFindings,
    Findings,
    StageUse,
)
from snapreport.model.history import Allocations, DeviceHistory, Events, History, Stages
from snapreport.model.replays import AllocatorUse
from snapreport.model.roles import UNKNOWN, Category, Evidence, Roles
from snapreport.model.snapshot import (
    NO_ID,
    NO_STACK,
    NO_TIME,
    DeviceId,
    FrameTable,
    Segments,
    Source,
    StackTable,
)
from snapreport.roles.frames import site_frames, tree_frames

MIB = 1024 * 1024
Frame = tuple[str, str, int]


@dataclass(frozen=True)
class Row:
    """One allocation; ``None`` events mean before the recording, or never."""

    size: int
    born: int | None = None
    freed: int | None = None
    stack: tuple[Frame, ...] | None = None
    """Innermost first."""
    block: int | None = None
    free_stack: tuple[Frame, ...] | None = None


@dataclass
class DeviceSpec:
    """One device: its allocations in birth order and what else the page shows of it."""

    rows: list[Row]
    events: int = 100
    ordinal: int = 0
    times: bool = True
    reserved: int | None = None
    allocator: bool = True
    """Whether an allocator reserved memory; profiler files know of none."""
    stages: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Name, depth, start and end event."""
    ooms: list[tuple[int, int, tuple[Frame, ...] | None]] = field(default_factory=list)
    """Event, size and stack."""
    warnings: list[str] = field(default_factory=list)
    """Explanations of findings: the first ones are about failed requests."""
    found: tuple[Finding, ...] = ()
    answer: str = "What held the peak."


class StackMaker:
    """Interns frames and stacks into a ``StackTable``."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.nodes: list[tuple[int, int]] = []
        self.stacks: list[int] = []

    def add(self, stack: tuple[Frame, ...] | None) -> int:
        """The id of a stack, innermost frame first."""
        if stack is None:
            return NO_STACK
        node = -1
        for frame in reversed(stack):
            key = (node, _index(self.frames, frame))
            node = _index(self.nodes, key)
        return _index(self.stacks, node)

    def site(self, node: int) -> int:
        """The call site of a stack, a frame id: the innermost Python frame, else the innermost."""
        innermost = self.nodes[node][1] if node >= 0 else -1
        while node >= 0:
            parent, frame = self.nodes[node]
            if self.frames[frame][1].endswith(".py"):
                return frame
            node = parent
        return innermost

    def table(self) -> StackTable:
        """All stacks added so far."""
        depth: list[int] = []
        for parent, _ in self.nodes:
            depth.append(1 if parent < 0 else depth[parent] + 1)
        return StackTable(
            FrameTable(
                [name for name, _, _ in self.frames],
                [file for _, file, _ in self.frames],
                _ints([line for _, _, line in self.frames]),
            ),
            _ids([parent for parent, _ in self.nodes]),
            _ids([frame for _, frame in self.nodes]),
            _ids(depth),
            _ids(self.stacks),
        )


def findings(
    *specs: DeviceSpec, title: str = "A run", notes: str = "", default: int = 0
) -> Findings:
    """Findings about devices with these allocations."""
    stacks = StackMaker()
    devices = tuple(_device(spec, stacks) for spec in specs)
    history = History(
        source=Source("run.pickle", 123_456, "ab" * 32),
        layout="trace",
        stacks=stacks.table(),
        strings=["activation"],
        pools=[(0, 0)],
        devices=tuple(device.history for device in devices),
        default_device=default,
        settings={"expandable_segments": False},
        oddities={},
    )
    sites = _ids([stacks.site(node) for node in stacks.stacks])
    kinds = np.array([not file.endswith(".py") for _, file, _ in stacks.frames], dtype=np.int8)
    return Findings(
        history=history,
        title=title,
        notes=notes,
        frame_kinds=kinds,
        stack_sites=sites,
        site_frames=site_frames(history.stacks),
        tree_frames=tree_frames(history.stacks),
        devices=devices,
        default=default,
        settings=history.settings,
        colour="site",
        warnings=(),
    )


def _device(spec: DeviceSpec, stacks: StackMaker) -> DeviceFindings:
    n, events = len(spec.rows), spec.events
    size = _ints([row.size for row in spec.rows])
    block = _ints([row.size if row.block is None else row.block for row in spec.rows])
    born = _ints([-1 if row.born is None else row.born for row in spec.rows])
    freed = _ints([events if row.freed is None else row.freed for row in spec.rows])

    def time(at: NDArray[np.int64]) -> NDArray[np.int64]:
        known = (at >= 0) & (at < events) & spec.times
        return np.where(known, 1_700_000_000_000_000 + at * 10, NO_TIME)

    allocations = Allocations(
        addr=np.arange(n, dtype=np.int64) * 4096 + 2**46,
        version=np.zeros(n, dtype=np.int32),
        size=size,
        block_size=block,
        block_size_max=block,
        alloc_event=born,
        free_requested_event=freed,
        free_event=freed,
        alloc_time_us=time(born),
        free_requested_time_us=time(freed),
        free_time_us=time(freed),
        stream=np.zeros(n, dtype=np.int64),
        pool=np.zeros(n, dtype=np.int32),
        stack=_ids([stacks.add(row.stack) for row in spec.rows]),
        free_stack=_ids([stacks.add(row.free_stack) for row in spec.rows]),
        category=np.full(n, NO_ID, dtype=np.int32),
        compile_context=np.full(n, NO_ID, dtype=np.int32),
        metadata=np.full(n, NO_ID, dtype=np.int32),
    )
    oom_events = _ints([event for event, _, _ in spec.ooms])
    oom_stacks = [stacks.add(stack) for _, _, stack in spec.ooms]
    history = DeviceHistory(
        device=DeviceId("cuda", spec.ordinal),
        events=events,
        allocations=allocations,
        other=Events(
            oom_events,
            ["oom"] * len(spec.ooms),
            np.zeros(len(spec.ooms), dtype=np.int64),
            _ints([size for _, size, _ in spec.ooms]),
            time(oom_events),
            np.zeros(len(spec.ooms), dtype=np.int64),
            _ids([-1] * len(spec.ooms)),
            _ids(oom_stacks),
        ),
        segments=_no_segments(),
        block_allocation=_ids([]),
        stages=Stages([], _ids([]), _ids([]), _ints([]), _ints([]), _ints([]), _ints([])),
        anomalies={},
    )
    allocated = _curve(events, born, freed, block)
    requested = _curve(events, born, freed, size)
    reserved = int(allocated.max()) if spec.reserved is None else spec.reserved

    def amounts(event: int) -> Amounts:
        a, r = int(allocated[event + 1]), int(requested[event + 1])
        if not spec.allocator:
            return Amounts(event, None, r, a, a, None, a - r, None, None, n, 0)
        return Amounts(event, None, r, a, a, reserved, a - r, reserved - a, 0, n, 0)

    peak = int(allocated.argmax()) - 1
    curves = {"requested": requested, "allocated": allocated, "active": allocated}
    peaks = {
        name: CurvePeak(int(curve.max()), int(curve.argmax()) - 1, None)
        for name, curve in curves.items()
    }
    if spec.allocator:
        peaks["reserved"] = CurvePeak(reserved, -1, None)
        curves["reserved"] = np.full(events + 1, reserved, dtype=np.int64)
    figures = DeviceFigures(
        history=history,
        recorded=events > 1,
        first_time_us=1_700_000_000_000_000 if spec.times else None,
        last_time_us=1_700_000_000_000_000 + events * 10 if spec.times else None,
        start=amounts(-1),
        peak=amounts(peak),
        end=amounts(events - 1),
        peaks=peaks,
        curves=Curves(curves),
        reserved_from=-1 if spec.allocator else None,
        times=_times(events, time, born, freed, oom_events),
        reserved_events=_ints([-1] if spec.allocator else []),
        reserved_bytes=_ints([reserved] if spec.allocator else []),
        over_time=CurveStatistics(0, 0, 0, 0, 0, by_time=False),
        statistics={},
        sizes=AllocationStatistics(0, 0, 0, 0, None, None, None),
        category=np.zeros(len(spec.rows), np.int32),
        categories=(Category("unknown", "no rule matches its call stack"),),
        roles=Roles(
            np.full(len(spec.rows), UNKNOWN, np.int8),
            np.zeros(len(spec.rows), np.int8),
            (Evidence("nothing tells", 0.0),),
        ),
        held_by_role=(),
        missing=np.array([row.stack is None for row in spec.rows], dtype=np.int8),
        tree=_no_tree(),
        sites=_sites(spec.rows, peak),
        steps=None,
        stages=tuple(_stage(spec, allocated, k) for k in range(len(spec.stages))),
        ooms=tuple(
            OomEvent(event, None, size, 3 * MIB, int(allocated[event + 1]), reserved, stack)
            for (event, size, _), stack in zip(spec.ooms, oom_stacks, strict=True)
        ),
        closing=None,
        own_counters=None,
        inferred_blocks=0,
        answer=spec.answer,
        warnings=(),
    )
    return DeviceFindings(
        **vars(figures),
        allocator=AllocatorUse(lives_of(history), np.zeros(events + 1, dtype=np.int64), -1),
        diagnosis=Diagnosis(_found(spec, figures)),
        trust=_trust(figures),
        labels=(),
    )


def _found(spec: DeviceSpec, device: DeviceFigures) -> tuple[Finding, ...]:
    """The findings of a spec: its own, then a line for each warning, failed requests first."""
    plain = []
    for k, text in enumerate(spec.warnings):
        if k < len(device.ooms):
            view = View("events", device.ooms[k].event, oom=True)
            plain.append(Finding("oom", "critical", f"Out of memory {k}", text, view=view))
        else:
            plain.append(Finding("odd-events", "warning", "Odd", text))
    return (*spec.found, *plain)


def _trust(device: DeviceFigures) -> Trust:
    """A recording of which there is little to say."""
    window = Window(device.history.events, None, None, 0, 0, 0, 0, None, 0, 0)
    facts = TrustFacts(
        window, Loss("not known", (), None, False), (), "both", 0, device.peaks, None, None, None,
        {}, {}, True, {}, None,
    )  # fmt: skip
    checks = (Check("history", "ok", "History", "Some events were recorded."),)
    return Trust(
        verdict="trusted",
        sentence="You can trust the figures.",
        facts=facts,
        checks=checks,
        fixes=(),
    )


def _times(
    events: int, time: Callable[[NDArray[np.int64]], NDArray[np.int64]], *at: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Times of the events at which something happens; the others have none."""
    times = np.full(events, NO_TIME, dtype=np.int64)
    for some in at:
        known = some[(some >= 0) & (some < events)]
        times[known] = time(known)
    return times


def _sites(rows: list[Row], peak: int) -> tuple[CallSite, ...]:
    sites = []
    for row in rows:
        born = -1 if row.born is None else row.born
        if born <= peak and (row.freed is None or row.freed > peak):
            ours = [frame for frame in row.stack or () if frame[1].endswith(".py")]
            name, file, line = ours[0] if ours else (MISSING_REASONS[1], "", 0)
            block = row.size if row.block is None else row.block
            sites.append(CallSite(None, name, file, line or None, block, row.size, 1))
    return tuple(sorted(sites, key=lambda site: -site.bytes))


def _stage(spec: DeviceSpec, allocated: NDArray[np.int64], k: int) -> StageUse:
    name, depth, start, end = spec.stages[k]
    inside = allocated[start + 1 : end + 1]
    before, after, most = int(allocated[start]), int(allocated[end]), int(inside.max())
    return StageUse(
        name, None, depth, start, end, None, None, "",
        before, after, most, start + int(inside.argmax()), after - before, 0, 0,
    )  # fmt: skip


def _curve(
    events: int, born: NDArray[np.int64], freed: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.int64]:
    change = np.zeros(events + 2, dtype=np.int64)
    np.add.at(change, born + 1, size)
    np.add.at(change, np.minimum(freed, events) + 1, -size)
    return np.cumsum(change)[:-1]


def _index(items: list, item: object) -> int:  # type: ignore[type-arg]
    if item not in items:
        items.append(item)
    return items.index(item)


def _ints(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _ids(values: list[int]) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def _no_segments() -> Segments:
    none, ids = _ints([]), _ids([])
    flags = np.zeros(0, dtype=np.bool_)
    return Segments(
        none, none, none, ids, flags, flags, ids, np.zeros((0, 3), dtype=np.int64),
        ids, none, none, none, np.zeros(0, dtype=np.int8), ids,
    )  # fmt: skip


def _no_tree() -> CallTree:
    none, ids = _ints([]), _ids([])
    return CallTree(ids, ids, {}, none, none, none, none)


USER: Frame = ("forward", "/home/me/model.py", 42)
MAIN: Frame = ("<module>", "/home/me/train.py", 7)
TORCH: Frame = ("c10::cuda::malloc(unsigned long)", "??", 0)


def training() -> DeviceSpec:
    """A baseline of 64 MiB, ten layers of 32 MiB that come and go, one spike and one stage."""
    layers = [
        Row(32 * MIB, k * 4, 100 - k * 4, (TORCH, ("layer", "/home/me/model.py", 10 + k), MAIN))
        for k in range(10)
    ]
    spike = Row(100 * MIB, 50, 51, (TORCH, USER, MAIN), free_stack=(TORCH, MAIN))
    return DeviceSpec(
        rows=[Row(64 * MIB), *layers, spike],
        events=100,
        reserved=512 * MIB,
        stages=[("train step", 0, 5, 90), ("forward", 1, 5, 40)],
    )


def trained() -> Findings:
    """What is found in ``training()``: the page that most tests are about."""
    return findings(training())
