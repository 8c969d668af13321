"""One device's history as columns: what bundles store, and what reports are made from."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown
from snapreport.model.asked import (
    KEPT,
    REDACTED,
    SHORT,
    Cut,
)
from snapreport.model.snapshot import (
    DeviceId,
    Forecast,
    RecordedDevice,
    RecorderInfo,
    Segments,
    Source,
    StackTable,
)

START = -1
"""The event before the first event."""
INTERNAL = "internal "
"""How the action of an event begins that the allocator made for itself, not for a tensor."""
ANNOTATE = "annotate"
"""The action of an event that adds metadata to the allocation at its address."""
DEEPEST_SETTINGS = 16
"""Levels of mappings and lists in the allocator's settings; PyTorch's have two."""


@dataclass(frozen=True, eq=False)
class Allocations(Shown):
    """Every allocation that was live at some event, in birth order; arrays of shape (n,).

    First the baseline (blocks that the trace never touches, then those freed in the window, the
    last freed first, so that stacked strips move as little as can be), then by ``alloc_event``.
    An allocation is live after event s, in each curve, when:

    - requested, active: ``alloc_event <= s < free_event``
    - allocated: ``alloc_event <= s < free_requested_event``
    """

    addr: NDArray[np.int64]
    version: NDArray[np.int32]
    """0 for the first allocation at this address, 1 for the next, and so on."""
    size: NDArray[np.int64]
    """Requested bytes."""
    block_size: NDArray[np.int64]
    """Bytes of the block: exact, or the lower bound where block_size_max is larger."""
    block_size_max: NDArray[np.int64]
    alloc_event: NDArray[np.int64]
    """START for the baseline."""
    free_requested_event: NDArray[np.int64]
    """START when requested before the recording; n_events (the device's ``events``) for never."""
    free_event: NDArray[np.int64]
    """The event of ``free_completed``; n_events for never. Never before free_requested_event."""
    alloc_time_us: NDArray[np.int64]
    """NO_TIME where unknown, as in the next two columns."""
    free_requested_time_us: NDArray[np.int64]
    free_time_us: NDArray[np.int64]
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    """Rows of ``History.pools``, or NO_ID."""
    stack: NDArray[np.int32]
    """NO_STACK where no stack is known; an empty stack where PyTorch recorded one of no frames."""
    free_stack: NDArray[np.int32]
    category: NDArray[np.int32]
    """Rows of ``History.strings``, or NO_ID, as in the next two columns."""
    compile_context: NDArray[np.int32]
    metadata: NDArray[np.int32]
    """The program's metadata and annotations, one in each line; or else the path of a module's or
    an optimizer's tensor."""

    def __len__(self) -> int:
        return len(self.addr)

    @property
    def baseline(self) -> slice:
        """Those from before the first event."""
        return slice(int(np.searchsorted(self.alloc_event, START, side="right")))

    @property
    def made(self) -> slice:
        """Those whose allocation is in the trace: all but the baseline."""
        return slice(self.baseline.stop, None)

    def weights(self, curve: str) -> NDArray[np.int64]:
        """Return the bytes of each in a curve: ``requested``, ``allocated`` or ``active``."""
        return self.size if curve == "requested" else self.block_size

    def ends(self, curve: str) -> NDArray[np.int64]:
        """Return the event from which each no longer counts in a curve."""
        return self.free_requested_event if curve == "allocated" else self.free_event

    def live_at(self, event: int, curve: str = "allocated") -> NDArray[np.bool_]:
        """Return whether each counts in a curve after an event."""
        begun = int(np.searchsorted(self.alloc_event, event, side="right"))  # the first so many
        live = np.zeros(len(self), np.bool_)
        np.greater(self.ends(curve)[:begun], event, out=live[:begun])
        return live


@dataclass(frozen=True, eq=False)
class Events(Shown):
    """Trace events that are no part of an allocation, in order; arrays of shape (n,).

    ``segment_*``, ``oom``, ``snapshot``, ``annotate``, unknown actions, frees that fit no
    allocation, and what the allocator took for itself (INTERNAL).
    """

    event: NDArray[np.int64]
    action: list[str]
    addr: NDArray[np.int64]
    """For ``oom``: free bytes on the device."""
    size: NDArray[np.int64]
    time_us: NDArray[np.int64]
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    """Rows of ``History.pools``, or NO_ID where the event does not say, as before torch 2.13."""
    stack: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, eq=False)
class Stages(Shown):
    """Annotations as spans, in order of their start; arrays of shape (n,).

    The stage is on after every event s with ``start_event <= s < end_event``.
    """

    name: list[str]
    parent: NDArray[np.int32]
    """Rows of this table; -1 for an outermost stage."""
    depth: NDArray[np.int32]
    """0 for an outermost stage."""
    start_event: NDArray[np.int64]
    """The first event inside; START where the START marker was lost or precedes the trace."""
    end_event: NDArray[np.int64]
    """The first event after it; n_events where it was still open or ends after the trace."""
    start_time_us: NDArray[np.int64]
    """NO_TIME where the marker was lost, as in ``end_time_us``."""
    end_time_us: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class OtherAllocator:
    """An allocator that is not CUDA's."""

    kind: str
    """Of its devices; ``cuda`` where only the sizes of blocks show that it is another."""
    evidence: str
    """How that shows, as a clause."""
    known: bool
    """Whether its rule for block sizes is known."""


@dataclass(frozen=True, eq=False)
class DeviceHistory(Shown):
    """Everything known about one device. Tables shared by devices are in ``History``."""

    device: DeviceId
    events: int
    """Number of trace events."""
    allocations: Allocations
    other: Events
    segments: Segments
    """At the end of the recording."""
    block_allocation: NDArray[np.int32]
    """int32, shape (n_blocks,): the allocation that each final block holds, NO_ID if inactive."""
    stages: Stages
    anomalies: dict[str, int]
    """Counts of what did not fit while pairing, by kind; empty for a sound recording."""
    skipped: tuple[str, ...] = ()
    """Kinds of events that the recording left out, as the others show (``skip_actions``). Without
    ``alloc``, or without either kind of free, no event is kept: they would show no curve."""
    other_allocator: OtherAllocator | None = None
    """None where CUDA's allocator, or none, explains the recording."""

    @property
    def blocks_known(self) -> bool:
        """Whether the rule for block sizes is known; else a block is at least its request."""
        return self.other_allocator is None or self.other_allocator.known


# Which part of a recording to draw, and what is drawn; totals always include everything.


@dataclass(frozen=True, eq=False)
class Rest:
    """The sum of what is not drawn individually, where it changes; int64, arrays of shape (n,)."""

    event: NDArray[np.int64]
    """The event from which a row is valid; the first is START."""
    requested: NDArray[np.int64]
    """Bytes that count in this curve, as in the next two."""
    allocated: NDArray[np.int64]
    active: NDArray[np.int64]
    count_allocated: NDArray[np.int64]
    """Number of allocations that count in the allocated curve; next, in the other curves."""
    count_requested: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is drawn of one device."""

    rows: NDArray[np.int64]
    """Rows of ``Allocations`` that are drawn one by one, ascending."""
    rest: Rest
    window: tuple[int, int] | None
    """The first and last event asked for; None for all."""
    left_out: int
    """Allocations that are not drawn one by one."""
    left_out_bytes: int
    """Block bytes of those."""
    left_out_requested: int
    all_bytes: int
    """Block bytes of all allocations."""
    left_out_at_peak: int
    """Block bytes of those live at the allocated peak."""
    error: int
    """The curves of the picture are at most this many bytes too low at some event, never too high;
    0 where they are exact at every event."""
    times: NDArray[np.int64] | None
    """Each event's time where not all are kept; shape (n_events,)."""
    time_error_us: int
    """The most by which these differ from the recorded times."""

    def as_plain(self) -> dict[str, Any]:
        """The figures, for JSON."""
        return {
            "first_event": None if self.window is None else self.window[0],
            "last_event": None if self.window is None else self.window[1],
            "not_drawn": self.left_out,
            "not_drawn_bytes": self.left_out_bytes,
            "not_drawn_requested_bytes": self.left_out_requested,
            "not_drawn_share": self.left_out_bytes / self.all_bytes if self.all_bytes else 0.0,
            "not_drawn_at_peak_bytes": self.left_out_at_peak,
            "error_bytes": self.error,
            "error_time_us": self.time_error_us,
        }


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn of a file, and what was asked for."""

    cut: Cut
    fit: int | None
    """The most bytes that the page may have; None for any."""
    devices: tuple[Drawn, ...]
    """In the order of ``Findings.devices``."""


# What was done to the names in a history: paths as recorded, shortened, or taken out.

_DONE = (KEPT, SHORT, REDACTED)


@dataclass(frozen=True)
class NamesDone:
    """How the names of a history were treated; bundles keep it in the row ``names`` of ``meta``."""

    done: str = KEPT
    """``kept``: as in the file. ``short``: file names without what lies before their package,
    Python or the project, and homes as ``~``. ``redacted``: only what everyone knows is left."""
    project: str = ""
    """The folder that short names of the project's files begin with; empty where there is none."""
    packages: tuple[str, ...] = ()
    """The folders that short names of packages' files begin with, in order."""
    functions: bool = False
    """Functions of the project are redacted, too."""

    def as_plain(self) -> dict[str, Any]:
        """Return it as a bundle stores it."""
        return {
            "done": self.done,
            "project": self.project,
            "packages": list(self.packages),
            "functions": self.functions,
        }


_AS_RECORDED = NamesDone()


def names_done(value: Any) -> NamesDone:
    """Read what a bundle states; a bundle that states nothing has its names as recorded.

    Raises:
        ValueError: it is not from ``as_plain()``.
    """
    if value is None:
        return _AS_RECORDED
    if isinstance(value, dict):
        done, project = value.get("done"), value.get("project")
        packages, functions = value.get("packages"), value.get("functions")
        if (
            done in _DONE
            and isinstance(project, str)
            and isinstance(packages, list)
            and all(isinstance(package, str) for package in packages)
            and isinstance(functions, bool)
        ):
            return NamesDone(str(done), project, tuple(packages), functions)
    raise ValueError("what was done to its names is not understood")


def forecast_time(event: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers in place of times, which a forecast has none of.

    They keep events in order; one less is the place of a stage that starts or ends before one.
    """
    return 2 * event + 4


# The whole file.


@dataclass(frozen=True, eq=False)
class History(Shown):
    """A whole snapshot file, ready to be stored or reported."""

    source: Source
    layout: str
    stacks: StackTable
    strings: list[str]
    pools: list[tuple[int, int]]
    devices: tuple[DeviceHistory, ...]
    """In the order of the file: GPUs by ordinal, then host, then cpu."""
    default_device: int
    """Position in ``devices`` of the one that a report opens with."""
    settings: dict[str, Any]
    """The allocator's, in at most ``DEEPEST_SETTINGS`` levels."""
    oddities: dict[str, int]
    recorder: RecorderInfo | None = None
    """What snapreport noted if it made the recording."""
    cut: Cut | None = None
    """What reports draw by default; the history itself is always complete."""
    names: NamesDone = _AS_RECORDED
    """Whether paths and names are as recorded, shortened, or redacted."""
    length: int = field(default=0, compare=False)
    """Bytes that it was read from, unpacked: of a snapshot, or of a bundle's database."""

    @property
    def private(self) -> NDArray[np.bool_]:
        """Which pools are private, and a last False for NO_ID; (n_pools + 1,)."""
        return np.array([*(pool != (0, 0) for pool in self.pools), False])

    def noted(self, device: DeviceId) -> RecordedDevice | None:
        """Return what snapreport noted about a device while recording, None if nothing."""
        return self.recorder.device(str(device)) if self.recorder else None

    @property
    def forecast(self) -> Forecast | None:
        """What was noted of a run that has not happened; None for a recording."""
        return self.recorder.forecast if self.recorder else None

    @property
    def title(self) -> str:
        """The one given when recording, or the source's name."""
        return (self.recorder and self.recorder.title) or self.source.name
