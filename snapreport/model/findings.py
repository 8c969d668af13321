"""What was concluded from a history: figures, call tree, stages and warnings, for the reporters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import Later
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown
from snapreport.model.answers import AllocationStatistics, CardFit, CurveStatistics
from snapreport.model.diagnoses import (
    Closing,
    CurvePeak,
    Diagnosis,
    Finding,
    OomEvent,
    OwnCounters,
    Trust,
)
from snapreport.model.history import START, DeviceHistory, History, Picture
from snapreport.model.replays import AllocatorUse, SettingsStudy
from snapreport.model.roles import Category, Roles, RoleUse, Steps
from snapreport.model.snapshot import DeviceId, FrameTable

OUTSIDE, LIBRARY, NODE, NATIVE, OPERATOR, MACHINERY = range(6)
"""Kinds of frames, the most useful to a reader first: Python code of the user or a model library;
library-internal Python code; an autograd node; C++ that is not PyTorch's own, or does autograd's
or DDP's work around the nodes; an operator; the rest of PyTorch's C++, interpreter, threads."""

MISSING_REASONS = (
    "",
    "before recording",
    "before recording, or lost from the ring",
    "stacks not recorded",
    "recorded without frames (no Python on that thread)",
)
"""Why an allocation has no frames: each reason is a child of its own in the call tree."""


class Curves(dict[str, NDArray[np.int64]]):
    """Bytes after each event, by name; (n_events + 1,), index 0 is the start.

    ``reserved`` is missing where no allocator reserves memory (profiler files); figures of it begin
    at ``reserved_from``, which is the end where events of segments are left out.
    """

    @cached_property
    def reserved_from(self) -> int | None:
        """The first event from which reserved memory is known; None without an allocator.

        Reserved memory is replayed backwards from the final state. Where less is reserved than
        active, which is impossible, segment events are missing after that event, and the curve is
        wrong at all events before them.
        """
        if "reserved" not in self:
            return None
        wrong = np.flatnonzero(self["reserved"] < self["active"])
        return int(wrong[-1]) if len(wrong) else START

    def reserved_at(self, event: int) -> int | None:
        """Return the reserved bytes after an event; None where they are not known."""
        known = self.reserved_from
        return None if known is None or event < known else int(self["reserved"][event + 1])

    def known(self) -> Curves:
        """Return the curves that are known at every event: others have no peak and no average."""
        whole = self.reserved_from == START
        return Curves((name, each) for name, each in self.items() if whole or name != "reserved")


AMOUNTS = ("allocated", "requested", "active", "reserved", "slack", "inactive", "fragmentation")
"""The sizes in ``Amounts``, in the order in which they are shown."""


@dataclass(frozen=True)
class Amounts(Shown):
    """The curves at one event, in bytes, and amounts derived from them."""

    event: int
    """-1 for the start."""
    time_us: int | None
    requested: int
    allocated: int
    active: int
    reserved: int | None
    """None where no allocator reserves memory (profiler files), as the two below."""
    slack: int
    """active - requested: the part of live blocks that was not requested."""
    inactive: int | None
    """reserved - active: held by the caching allocator, in use by nobody."""
    fragmentation: int | None
    """The part of ``inactive`` in segments that still hold a live block."""
    live: int
    """Number of allocations live in the allocated curve."""
    allocated_width: int
    """The true allocated bytes lie between ``allocated`` and ``allocated + allocated_width``."""


@dataclass(frozen=True, eq=False)
class CallTree(Shown):
    """Allocations merged by call stack, outermost frame first.

    Node 0 is the root. A node's parent has a smaller id; siblings come largest first.
    ``bytes[i]`` is ``own_bytes[i]`` plus the bytes of its children, and ``bytes[0]`` those of all:
    the curve at a moment, its change between two.
    """

    parent: NDArray[np.int32]
    frame: NDArray[np.int32]
    """Frame ids; -1 for the root and for nodes that stand for allocations without frames."""
    label: dict[int, str]
    """Texts of the nodes that have no frame: the root, and each reason for a missing stack."""
    bytes: NDArray[np.int64]
    own_bytes: NDArray[np.int64]
    count: NDArray[np.int64]
    own_count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(frozen=True)
class CallSite(Shown):
    """Allocations live at the peak that one source line made (see ``figures.callsites``)."""

    frame: int | None
    """Frame id; None for allocations without frames."""
    name: str
    """The function; of C++ functions without the arguments."""
    filename: str
    line: int | None
    bytes: int
    """Block bytes, as in the allocated curve."""
    requested: int
    count: int
    source: str = ""
    """The line's text, where the recorder noted it."""


@dataclass(frozen=True)
class StageUse(Shown):
    """Memory over one stage, in allocated bytes."""

    name: str
    parent: int | None
    """Position in ``DeviceFindings.stages``."""
    depth: int
    start_event: int
    end_event: int
    start_time_us: int | None
    end_time_us: int | None
    cut: str
    """``""``, ``"start"`` (began before the first event), ``"end"`` (still open) or ``"both"``."""
    start_bytes: int | None
    """Allocated just before its first event. None where that was not recorded, as below."""
    end_bytes: int | None
    peak_bytes: int | None
    """Of the recorded part, where the stage is cut."""
    peak_event: int | None
    change: int | None
    """end_bytes - start_bytes."""
    allocations: int | None
    """Number of allocations made inside."""
    allocated_bytes: int | None
    """Block bytes of those."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceFigures(Shown):
    """What one device's history shows without a diagnosis: curves, peaks, sites, stages."""

    history: DeviceHistory
    recorded: bool
    """Whether there is a usable trace (more than one event)."""
    first_time_us: int | None
    last_time_us: int | None
    start: Amounts
    peak: Amounts
    """At the first event of the allocated peak; at the end where no history was recorded."""
    end: Amounts
    peaks: dict[str, CurvePeak]
    """For ``requested``, ``allocated``, ``active``, and ``reserved`` if it is always known."""
    over_time: Later[CurveStatistics] = Later()
    """Least, average and most of the allocated curve."""
    statistics: Later[dict[str, CurveStatistics]] = Later()
    """Least, average and most of each curve, by the names of ``peaks``."""
    sizes: AllocationStatistics
    curves: Curves
    """By the names of ``peaks``."""
    reserved_from: int | None
    """The first event from which reserved memory is known, -1 if it is at all of them, the number
    of events if it is at none; None without an allocator. Before it segment events are missing."""
    times: NDArray[np.int64]
    """Each event's time in microseconds, NO_TIME where unknown; shape (n_events,)."""
    reserved_events: NDArray[np.int64]
    """Events from which reserved has a new value; the first is -1."""
    reserved_bytes: NDArray[np.int64]
    """Reserved bytes from that event on."""
    category: Later[NDArray[np.int32]] = Later()
    """Each allocation's place in ``categories``; shape (n_allocations,)."""
    categories: Later[tuple[Category, ...]] = Later()
    roles: Later[Roles] = Later()
    """What each allocation is for, and how that is known."""
    held_by_role: Later[tuple[RoleUse, ...]] = Later()
    """What is live at the allocated peak, by role, most bytes first."""
    missing: NDArray[np.int8]
    """Why each allocation has no frames, 0 where it has; a place in ``MISSING_REASONS``."""
    tree: Later[CallTree] = Later()
    """Of the allocated curve, at its peak."""
    sites: tuple[CallSite, ...]
    """Every call site live at the allocated peak, largest first."""
    stages: tuple[StageUse, ...]
    steps: Steps | None
    """The steps of the program's loop; None where the recording shows none."""
    ooms: tuple[OomEvent, ...]
    closing: Closing | None
    """None where the device has no segments to compare with."""
    own_counters: OwnCounters | None
    """PyTorch's own counters, if they were read while recording."""
    inferred_blocks: int
    """Allocations whose block size is a range."""
    answer: str
    """One paragraph: what held the memory at the peak."""
    warnings: tuple[Finding, ...]

    @property
    def device(self) -> DeviceId:
        """Which device this is about."""
        return self.history.device


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceFindings(DeviceFigures):
    """The figures of one device, and the conclusions drawn from them."""

    allocator: Later[AllocatorUse] = Later()
    """Its segments over time, and the fragmentation after every event."""
    diagnosis: Later[Diagnosis] = Later()
    """What went wrong, whether the recording can be trusted, and what to do."""
    trust: Trust
    """What the recording covers, lost, and knows exactly."""
    card: CardFit | None = None
    """Whether it fits on the card asked about; None if none was."""
    settings: SettingsStudy | None = None
    """Other allocator settings; None if not asked for, or if there is nothing to replay."""
    labels: Later[tuple[tuple[str, tuple[NDArray[np.int64], list[str]]], ...]] = Later()
    """Groupings that only some recordings have (``own_labels``): the group of each allocation, and
    the groups' names."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Findings(Shown):
    """Conclusions about a whole file: what a reporter renders."""

    history: History
    title: str
    notes: str
    """The user's Markdown, or ``""``."""
    frame_kinds: Later[NDArray[np.int8]] = Later()
    """The kind of each frame in trees, from OUTSIDE to MACHINERY."""
    stack_sites: NDArray[np.int32]
    """The call site of each stack, a frame id; -1 for an empty stack."""
    site_frames: FrameTable
    """The frames as they are shown as call sites."""
    tree_frames: Later[FrameTable] = Later()
    """The frames as they are shown in trees."""
    devices: tuple[DeviceFindings, ...]
    """The devices to show: all of the file, or the one that was asked for."""
    default: int
    """Position in ``devices`` of the one to open with."""
    settings: dict[str, Any]
    colour: Later[str] = Later()
    """What the page's timeline is coloured by at first: site, category, role, stage or context."""
    warnings: tuple[Finding, ...]
    """About the file as a whole."""
    picture: Picture | None = None
    """What a page draws individually; None for everything."""

    @property
    def notes_of_file(self) -> bool:
        """Say whether the notes came with the file, and so may not be the user's own."""
        noted = self.history.recorder
        return noted is not None and self.notes == noted.notes
