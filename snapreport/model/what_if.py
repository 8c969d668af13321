"""Types for what-ifs: without some allocations, with changes, at another batch or on a card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapreport.ground.object_display import Shown
from snapreport.model.answer_tables import Group
from snapreport.model.diagnoses import Suggestion
from snapreport.model.replay.replays import Between

WHAT_IF_GROUPINGS = (
    "site",
    "category",
    "role",
    "stage",
    "line",
    "file",
    "function",
    "module",
    "context",
)
"""What can be taken away together: all that one call site made, all of one role, and so on."""


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

    @property
    def room(self) -> int:
        """Bytes for PyTorch's allocator."""
        return self.bytes - self.allowance.bytes
