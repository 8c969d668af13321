"""The repeating step of a program, as far as a recording shows one, and the memory of each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.object_display import Shown
from snapreport.ground.units import format_count

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
    """0 to 1, see ``roles.repeating_step``: 1 where the file names the steps."""
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
