"""Types for answers about a device: what was live at a moment, grouped, and over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapreport.ground.object_display import Shown
from snapreport.model.snapshot import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

Cell = None | int | float | str | bytes
"""A value as SQLite has it."""

GROUPINGS = (
    "stack",
    "line",
    "file",
    "function",
    "module",
    "category",
    "role",
    "stage",
    "stream",
    "pool",
    "context",
    "layer",
    "forward",
    "metadata",
    "size",
)
"""What live allocations can be grouped by; also by a key of their metadata, KEYED and its name.

The layer is the forward line behind a gradient, and else the call site: so a line of the model has
what it allocates in the forward pass, and what the backward pass allocates for it."""

KEYED = "metadata:"
NO_FORWARD = "no forward line"
"""The group of what was made outside of the backward pass, or where PyTorch noted no line."""
NONE = "none"
"""The group of what has no metadata, not this key of it, or no compile context."""


@dataclass(frozen=True)
class Group(Shown):
    """Live allocations that have something in common."""

    name: str
    """What they have in common; a stack is its functions, innermost first, joined by `` < ``."""
    bytes: int
    """In the requested curve."""
    requested: int
    count: int
    stack: int = NO_ID
    """Stack id, where they have a call stack in common."""
    backward: int = 0
    """How much of ``bytes`` the backward pass allocated for a forward line that PyTorch noted."""


@dataclass(frozen=True)
class LineUse(Shown):
    """What one source line holds at a moment, as a line-by-line memory tracer reports it."""

    location: str
    """``file:line``; a reason such as ``before recording`` where there is none."""
    function: str
    filename: str
    line: int | None
    """None where the frame knows none, and for allocations without a matching frame."""
    bytes: int
    """Live at the moment, in the curve that was asked for."""
    cumulative: int
    """This line's bytes and those of all lines above it."""
    median: int
    """The median size of its live allocations, rounded down."""
    smallest: int
    """The smallest of its live allocations: with two, both sizes are known."""
    count: int
    """Live allocations."""
    total: int
    """All bytes that the line allocated in the recording, freed ones and the baseline included."""
    source: str = ""
    """The line's text, where the recorder noted it."""


def sizes_of(line: LineUse) -> tuple[int, ...]:
    """Return the median size of a line's live allocations; of two, both where they differ."""
    largest = line.bytes - line.smallest
    both = line.count == 2 and largest != line.smallest
    return (line.smallest, largest) if both else (line.median,)


@dataclass(frozen=True, eq=False)
class LiveRows(Shown):
    """The allocations live at a moment, largest first; arrays of shape (n,)."""

    rows: NDArray[np.int64]
    """Rows of the device's ``Allocations``."""
    bytes: NDArray[np.int64]
    """Of each, in the curve that was asked for."""


@dataclass(frozen=True)
class CurveStatistics(Shown):
    """One curve over the whole recording, in bytes."""

    minimum: int
    average: int
    """Weighted by time, rounded down; by events where times are missing."""
    peak: int
    start: int
    end: int
    by_time: bool
    """Whether ``average`` is weighted by time."""


@dataclass(frozen=True)
class TraceEntry(Shown):
    """One trace event."""

    event: int
    action: str
    addr: int
    """For ``oom``: free bytes on the device."""
    size: int
    """Requested bytes of an allocation; the event's own size for others."""
    allocation: int
    """Row of the device's ``Allocations``, or NO_ID."""
    stack: int
    """Stack id, or NO_STACK."""


@dataclass(frozen=True)
class Parts(Shown):
    """What a curve consists of at a moment: since before the recording, and since then."""

    baseline_bytes: int
    baseline_count: int
    dynamic_bytes: int
    dynamic_count: int


@dataclass(frozen=True, eq=False)
class GroupCurve(Shown):
    """One group's memory over time."""

    name: str
    rule: str
    """What put allocations here."""
    peak_bytes: int
    """The group's own peak, which may be at another event than that of the total."""
    peak_event: int
    at_peak: int
    """Bytes at the peak of the total."""
    count: int
    """Allocations in the recording."""
    bytes: NDArray[np.int64]
    """After each of ``Profile.events``."""


@dataclass(frozen=True, eq=False)
class Profile(Shown):
    """Memory by group over time; at every event the groups add up to the total."""

    curve: str
    peak_event: int
    peak_bytes: int
    events: NDArray[np.int64]
    total: NDArray[np.int64]
    """Bytes after each of ``events``."""
    groups: tuple[GroupCurve, ...]


@dataclass(frozen=True)
class AllocationStatistics(Shown):
    """How many allocations a recording has, and how large those made in it are."""

    baseline: int
    """Live before the first event."""
    made: int
    """Made in the recording."""
    freed: int
    """Of those, freed in it."""
    requested: int
    """Requested bytes of those made, added up."""
    smallest: int | None
    """Requested bytes; None where none was made, as the next two."""
    median: int | None
    """The lower of two middle ones."""
    largest: int | None


QUERY_SECONDS, QUERY_MEMORY = 60.0, 8 * 2**30
"""Default limits of one SQL statement, so that a runaway statement ends before the machine does."""


@dataclass(frozen=True)
class QueryAnswer:
    """The result of one SQL statement."""

    columns: tuple[str, ...]
    """Names as SQLite gives them, made distinct: ``id``, ``id_2``."""
    rows: Iterator[tuple[Cell, ...]]
    """Computed as they are consumed, so any of them may raise an error."""
