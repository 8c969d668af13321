"""Answers about a device: what was live at a moment, grouped, over time, and what if."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown
from snapreport.model.diagnoses import Suggestion
from snapreport.model.replays import Between
from snapreport.model.snapshot import NO_ID

Cell = None | int | float | str | bytes
"""A value as SQLite has it."""


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
class GroupChange(Shown):
    """What a group gained and lost between two moments."""

    name: str
    """What its allocations have in common, as in ``Group``."""
    change: int
    """Bytes that came minus those that went: the change of what the group holds."""
    came: int
    """Bytes made between the two and still alive at the second."""
    went: int
    """Bytes alive at the first and freed between the two."""
    came_count: int
    went_count: int


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
    """Allocations that were asked for, largest first; arrays of shape (n,)."""

    rows: NDArray[np.int64]
    """Rows of the device's ``Allocations``."""
    bytes: NDArray[np.int64]
    """Of each, in the curve that was asked for; in a change, negative for what went."""


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


# What-ifs: without some allocations, with changes, at another batch or on a card.


@dataclass(frozen=True)
class WhatIf(Shown):
    """The peak of a curve if one group of allocations had never been made.

    Everything else is taken to be as it was recorded. Where block sizes are known as ranges the
    lower bounds count, as in the curve.
    """

    name: str
    """What was taken away: a call site as ``function  file:line``, a category, a stage."""
    peak_bytes: int
    """The most that is left."""
    peak_event: int
    """The first event with that peak; -1 for the start."""
    falls: int
    """How far the peak falls: never more than ``held``, as another moment may then be the peak."""
    held: int
    """Bytes of the group at the peak as it was."""
    count: int
    """Allocations in the group, over the whole recording."""


@dataclass(frozen=True)
class PeakWithout(Shown):
    """The peak without some chosen groups together, and what it consists of then."""

    what_if: WhatIf
    taken: tuple[str, ...]
    """Names of the groups that were taken away."""
    held: tuple[Group, ...]
    """What holds the memory at the peak that is left, most bytes first."""


MOST_CHANGES = 4
"""The most changes in a plan."""


@dataclass(frozen=True)
class PlanStep:
    """One change, and the allocated peak with it and all before it; in bytes."""

    suggestion: Suggestion
    """The change; what it frees is by this change alone."""
    expected: int
    most: int
    """An upper bound: with the change as described, and all else as recorded."""


@dataclass(frozen=True)
class RoleLeft:
    """What the allocations of a role still hold at the peak that is left."""

    role: str
    bytes: int


@dataclass(frozen=True)
class Plan(Shown):
    """The cheapest changes that reach a target, or those with the lowest peak."""

    target: int
    """The allocated peak that is wanted, in bytes."""
    peak: int
    """As recorded, in bytes."""
    steps: tuple[PlanStep, ...]
    reached: str
    """``yes`` where the bound is below the target, ``expected`` where the estimate is, ``no``."""
    left: tuple[RoleLeft, ...] = ()
    """What the expected peak consists of, most bytes first."""

    @property
    def expected(self) -> int:
        """The peak with all steps, in bytes."""
        return self.steps[-1].expected if self.steps else self.peak

    @property
    def most(self) -> int:
        """An upper bound of the peak with all steps, in bytes."""
        return self.steps[-1].most if self.steps else self.peak


LARGEST_BATCH = 1 << 24
"""Larger batch sizes are neither accepted nor estimated."""


@dataclass(frozen=True)
class BatchPeak:
    """The allocated peak at one size of the batch, in bytes."""

    batch: int
    expected: int
    """An estimate; there is no bound, as a program may do something else at this size."""
    recorded: int | None
    """What was recorded at this size, None where nothing was."""
    phase: str
    """The pass that the expected peak is in; empty where no pass is known there."""


@dataclass(frozen=True)
class RoleGrowth:
    """What a role holds at the expected peak: ``fixed + each * batch + square * batch ** 2``."""

    role: str
    fixed: int
    each: int
    square: int
    bytes: int
    """At the batch size ``BatchGrowth.at_batch``."""


@dataclass(frozen=True)
class BatchGrowth(Shown):
    """How the allocated peak grows, and the largest batch that fits."""

    peaks: tuple[BatchPeak, ...]
    """At the recorded sizes and those asked for, ascending."""
    roles: tuple[RoleGrowth, ...]
    """Most bytes first; of the peak at ``at_batch``."""
    at_batch: int
    """The largest size that fits, or the largest recorded one."""
    doubt: str = ""
    """What makes estimates less sure, empty for nothing known: the recordings do ``other work``,
    sizes follow ``no law``, ``convolutions`` choose their algorithms, sizes depend on ``data``,
    only ``one step`` was recorded, or, with none of these, a batch that is told is outside of the
    recorded ones and ``extrapolated``."""
    target: int | None = None
    """What the peak is to fit into, in bytes."""
    fits: int | None = None
    """The largest batch expected to fit, 0 for none; None where any up to ``LARGEST_BATCH`` is, and
    without a target."""


FitOutcome = Literal["fits", "replayed", "depends", "short", "cannot", "unknown"]
"""``fits``: as recorded. ``replayed``: in a replay through a model of the allocator. ``depends``:
on how the allocator packs it. ``short``: the replay needs more, under the recorded settings.
``cannot``: with no setting. ``unknown``: more would have followed, or went before, than was
recorded."""

AllowanceSource = Literal["given", "measured", "assumed"]
"""Given by the user; measured while recording, including other programs; or assumed."""


@dataclass(frozen=True)
class Allowance:
    """Bytes of a card for what is outside of PyTorch's allocator: CUDA, libraries, others."""

    bytes: int
    least: int
    """What is there for certain; the same where the user gave it."""
    source: AllowanceSource


@dataclass(frozen=True)
class CardFit(Shown):
    """One device's recording and one card; all sizes in bytes."""

    card: str
    """As it was asked for."""
    title: str
    """As a sentence has it: ``an H100 80 GB``."""
    bytes: int
    """What the card has for programs."""
    outcome: FitOutcome
    live: int
    """The most live requests at any moment, with one that failed: no setting needs less."""
    live_event: int
    failed: bool
    """Whether a failed request is part of ``live``."""
    reserved: int | None
    """What the recorded allocator took at most, with what a failed request needed; None where no
    allocator reserves memory."""
    reserved_event: int | None
    """None where it is not in the recording."""
    allowance: Allowance
    replayed: Between | None
    """The smallest capacity with which a replay under the recorded settings serves everything; None
    where it was not needed to tell, or the model is not exact on the recording."""
    others: int | None
    """What of the card was not PyTorch's when the last request failed, if it was recorded on one;
    None where the card is known, no request failed, or it is no more than CUDA itself takes."""
    text: str
    """The verdict, in a sentence or two."""
    less: int = 0
    """Of a forecast: by how much less it may need at the most, as its peak's range says."""
    more: int = 0
    """Of a forecast: by how much more it may need; the outcome does not count either."""

    @property
    def room(self) -> int:
        """Bytes for PyTorch's allocator."""
        return self.bytes - self.allowance.bytes


# A moment of a recording, as a user names it.
