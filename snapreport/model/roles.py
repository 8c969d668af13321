"""What an allocation is for, by evidence or by rules, and the steps of the program that made it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown, matched
from snapreport.ground.units import format_count
from snapreport.model.history import Allocations

ROLES = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "activation",
    "autocast weight copy",
    "temporary of forward",
    "temporary of backward",
    "temporary of optimizer",
    "communication buffer",
    "KV cache",
    "input",
    "compiled-graph pool",
    "workspace",
    "unknown",
)
"""A role's number is its position. ``activation`` is what the forward pass saves for backward,
``autocast weight copy`` a weight that autocast cast, and ``KV cache`` also the state that a
recurrent model carries."""
(
    PARAMETER,
    BUFFER,
    GRADIENT,
    STATE,
    ACTIVATION,
    WEIGHT_COPY,
    FORWARD_TEMPORARY,
    BACKWARD_TEMPORARY,
    OPTIMIZER_TEMPORARY,
    COMMUNICATION,
    CACHE,
    INPUT,
    GRAPH_POOL,
    WORKSPACE,
    UNKNOWN,
) = range(len(ROLES))


@dataclass(frozen=True)
class Evidence:
    """Why an allocation was given its role."""

    text: str
    """What was seen: ``made in an optimizer step and kept``."""
    confidence: float
    """0 to 1; 1 where the file states the role."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The role of each allocation of a device; arrays of shape (n_allocations,)."""

    role: NDArray[np.int8]
    """Places in ``ROLES``."""
    evidence: NDArray[np.int8]
    """Places in ``seen``."""
    seen: tuple[Evidence, ...]

    def with_evidence(self) -> tuple[NDArray[np.int64], list[tuple[str, Evidence]]]:
        """Return the roles with their evidence, each pair once.

        Returns:
            int64, shape (n_allocations,): places in the pairs, which come in the order of roles.
        """
        key = self.role.astype(np.int64) * len(self.seen) + self.evidence
        used = np.flatnonzero(np.bincount(key))
        place = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int64)
        place[used] = np.arange(len(used))
        pairs = [divmod(each, len(self.seen)) for each in used.tolist()]
        return place[key], [(ROLES[role], self.seen[i]) for role, i in pairs]


@dataclass(frozen=True, eq=False)
class AllocationsWithRoles(Allocations):
    """Allocations, and what each is for."""

    role: NDArray[np.object_]
    """One of ``ROLES``."""
    role_evidence: NDArray[np.object_]
    """What was seen, as in ``Evidence``."""
    role_confidence: NDArray[np.float64]
    """0 to 1."""


def with_roles(rows: Allocations, roles: Roles) -> AllocationsWithRoles:
    """Return allocations with their roles in words."""
    texts = np.array([each.text for each in roles.seen], np.object_)
    confidence = np.array([each.confidence for each in roles.seen])
    return AllocationsWithRoles(
        **vars(rows),
        role=np.array(ROLES, np.object_)[roles.role],
        role_evidence=texts[roles.evidence],
        role_confidence=confidence[roles.evidence],
    )


@dataclass(frozen=True)
class EvidenceUse(Shown):
    """What allocations of one role hold by one evidence."""

    text: str
    confidence: float
    bytes: int
    """Block bytes, as in the allocated curve."""
    count: int


@dataclass(frozen=True)
class RoleUse(Shown):
    """What allocations of one role hold at a moment."""

    role: str
    """One of ``ROLES``."""
    bytes: int
    count: int
    evidence: tuple[EvidenceUse, ...]
    """The evidence for the role, most bytes first; together they add up to ``bytes``."""


# Categories: rules sort allocations by the frames of their call stacks.


@dataclass(frozen=True)
class Rule:
    """Matches a call stack if one of its frames matches every expression."""

    category: str
    function: re.Pattern[str] | None = None
    """To be found in the frame's function name; None fits every frame."""
    file: re.Pattern[str] | None = None
    """To be found in the frame's file name; None fits every frame."""
    anywhere: re.Pattern[str] | None = None
    """To be found in the one or the other; None fits every frame."""

    def fits(self, function: str, filename: str) -> bool:
        """Say whether a frame matches every expression; only both ends of long names count."""
        names = matched(function), matched(filename)
        return self.fits_file(names[1]) and self.fits_in_file(*names)

    def fits_file(self, filename: str) -> bool:
        """Say whether frames of a file may match; its name is as from ``matched()``."""
        return self.file is None or bool(self.file.search(filename))

    def fits_in_file(self, function: str, filename: str) -> bool:
        """Say whether a function of such a file matches; names are as from ``matched()``."""
        if self.function is not None and not self.function.search(function):
            return False
        return self.anywhere is None or bool(
            self.anywhere.search(function) or self.anywhere.search(filename)
        )

    @property
    def text(self) -> str:
        """The rule as readers see it."""
        sought = (
            ("function", self.function),
            ("file", self.file),
            ("function or file", self.anywhere),
        )
        parts = [f"{where} ~ {pattern.pattern}" for where, pattern in sought if pattern is not None]
        return " and ".join(parts) or "everything"


@dataclass(frozen=True)
class Category:
    """One category of a classification."""

    name: str
    rule: str
    """What put allocations here: a rule's text, ``stated by the file``, or why it is unknown."""


# The program's steps, as far as a recording shows any, and the memory of each.

Source = Literal["profiler", "optimizer", "stages", "pattern"]
"""``ProfilerStep#N`` stages; ``Optimizer.step`` stages; other stages that repeat; allocations that
repeat."""

Kind = Literal["warm-up", "steady", "other", "unknown"]
"""Steady steps are alike; warm-up steps come before them, others between or after. Where too few
are alike, unknown."""


@dataclass(frozen=True, eq=False)
class Iterations:
    """Where each complete turn of the program's outer loop begins, in events of the trace."""

    source: Source
    confidence: float
    """0 to 1, see ``roles.steps``: 1 where the file names the steps."""
    starts: NDArray[np.int64]
    """int64, shape (n,), ascending; the first event of each complete turn."""
    end: int
    """The first event after the last complete turn."""
    names: tuple[str, ...]
    """``ProfilerStep#3`` where the file says so, else ``iteration 3``, counted from 1."""
    how: str
    """How they were found, as a half-sentence: ``by the stages ProfilerStep#N``."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The starts and the end; int64, shape (n + 1,)."""
        return np.append(self.starts, np.int64(self.end))


@dataclass(frozen=True)
class StepUse(Shown):
    """Memory over one step of the program, in allocated bytes."""

    number: int
    """Counted from 1, among the complete steps of the recording."""
    name: str
    """As in the file, such as ``ProfilerStep#3``; ``""`` if it names none."""
    kind: Kind
    start_event: int
    end_event: int
    """The first event after it, which is where the next step starts."""
    start_bytes: int
    """Allocated just before its first event."""
    peak_bytes: int
    """The most allocated, including what it began with."""
    peak_event: int
    """The first event that attains it; -1 is the start."""
    end_bytes: int
    kept_bytes: int
    """The bytes that it allocated and that are still allocated when it ends."""
    allocations: int
    """Number of allocations made in it."""
    allocated_bytes: int
    """Block bytes of those."""

    @property
    def change(self) -> int:
        """How much more is allocated at its end than at its start."""
        return self.end_bytes - self.start_bytes


@dataclass(frozen=True)
class Steps(Shown):
    """The complete steps of a program, one after the other without a gap."""

    source: Source
    confidence: float
    how: str
    """As in ``Iterations``, as are the two fields before."""
    peak: int | None
    """The number of the step in which the device's allocated peak is; None if it is outside."""
    peak_before: bool
    """Whether the peak is before the first of them."""
    as_high: int | None
    """The number of the first step that gets as high as the peak, be it again; None for none."""
    steps: tuple[StepUse, ...]

    def __len__(self) -> int:
        return len(self.steps)

    def of_kind(self, kind: Kind) -> tuple[StepUse, ...]:
        """Return the steps of one kind."""
        return tuple(step for step in self.steps if step.kind == kind)


def runs_of(steps: Sequence[StepUse]) -> list[tuple[StepUse, ...]]:
    """Return the steps in order, with steady ones that follow one another together."""
    runs: list[tuple[StepUse, ...]] = []
    for steady, group in groupby(steps, key=lambda step: step.kind == "steady"):
        run = tuple(group)
        runs += [run] if steady else [(step,) for step in run]
    return runs


def step_range(run: Sequence[StepUse]) -> str:
    """Return the numbers of consecutive steps: ``3``, ``2 and 3``, ``2 to 5``."""
    first, last = format_count(run[0].number), format_count(run[-1].number)
    return first if len(run) == 1 else f"{first} {'and' if len(run) == 2 else 'to'} {last}"
