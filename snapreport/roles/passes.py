"""Find the passes of a program over time: forward, backward, optimizer step, and in between."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.missing_stacks import EMPTY, missing_reason
from snapreport.frames.stack_kinds import find_stack_kind
from snapreport.ground.memoize import once_for_both
from snapreport.model.history import START, DeviceHistory, History
from snapreport.native.sweeps import sum_live
from snapreport.roles import stack_phases
from snapreport.roles.stack_phases import stack_marks

NONE, USER, BUILD, LOAD, FORWARD, BACKWARD, OPTIMIZER = range(7)
"""What ran at an event. USER is Python code that is none of the others."""

_STAGES = (
    (re.compile(r"^Optimizer\.step#|^optim(izer)?([ _]step)?$", re.IGNORECASE), OPTIMIZER),
    (re.compile(r"^(backward|bwd)$", re.IGNORECASE), BACKWARD),
    (re.compile(r"^(forward|fwd)$", re.IGNORECASE), FORWARD),
)
_PHASES = (
    (stack_phases.IN_OPTIMIZER | stack_phases.CLIPS, OPTIMIZER),
    (stack_phases.IN_BACKWARD, BACKWARD),
    (stack_phases.IN_FORWARD | stack_phases.COMPILED, FORWARD),
    (stack_phases.LOADS, LOAD),
    (stack_phases.BUILDS, BUILD),
    (stack_phases.PYTHON, USER),
)
"""Marks and their phase; a stack's phase is the first that it has a mark of."""


@dataclass(frozen=True, eq=False)
class Passes:
    """When each pass ran, in events of the trace; a pass is a run of events of one phase."""

    made: NDArray[np.int8]
    """The phase in which each allocation was made; int8, shape (n_allocations,)."""
    phase: NDArray[np.int8]
    """Its phase: BUILD, FORWARD (including loading), BACKWARD or OPTIMIZER; shape (n_passes,)."""
    start: NDArray[np.int64]
    """Each pass's first event; int64, shape (n_passes,), ascending."""
    end: NDArray[np.int64]
    """Its last event, including following events without a phase; int64, shape (n_passes,)."""

    def of(self, phase: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and last events of the passes of a phase."""
        chosen = self.phase == phase
        return self.start[chosen], self.end[chosen]

    @property
    def train(self) -> bool:
        """Whether there is a backward pass or an optimizer step."""
        return bool(np.isin(self.phase, (BACKWARD, OPTIMIZER)).any())

    def covers(self, phase: int, events: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which events are in a pass of a phase; bool, in the shape of ``events``."""
        start, end = self.of(phase)
        place = np.searchsorted(start, events, side="right") - 1
        return (place >= 0) & (events <= np.append(end, START)[place])


@once_for_both
def find_passes(history: DeviceHistory, tables: History) -> Passes:
    """Find the passes from the call stacks of allocations and frees, and from named stages.

    If only Python frames were recorded, a thread without any is taken to be autograd's.
    """
    rows = history.allocations
    marks = stack_marks(tables.stacks)
    made, freed = _phases(marks[rows.stack]), _phases(marks[rows.free_stack])
    if find_stack_kind(tables) == "python":
        made[missing_reason(history, tables.stacks) == EMPTY] = BACKWARD
    phases = np.zeros(history.events + 1, np.int8)  # the last is for frees at no event
    phases[rows.free_requested_event] = freed
    phases[rows.alloc_event] = made
    phases = phases[: history.events]
    closures = marks[rows.stack] & stack_phases.IN_CLOSURE != 0
    _name_by_stages(phases, history, np.sort(rows.alloc_event[closures]))
    born = rows.alloc_event >= 0
    made[born] = _filled(phases)[rows.alloc_event[born]]
    kinds = np.where(phases == LOAD, np.int8(FORWARD), phases)
    at = np.flatnonzero(kinds > USER)
    first = np.append(True, kinds[at][1:] != kinds[at][:-1]) if len(at) else np.zeros(0, np.bool_)
    start, last = at[first], at[np.append(first[1:], True)] if len(at) else at
    known = np.append(np.flatnonzero(phases), history.events)
    end = known[np.searchsorted(known, last, side="right")] - 1
    return Passes(made, kinds[start], start, end)


def _phases(marks: NDArray[np.int32]) -> NDArray[np.int8]:
    found = np.zeros(len(marks), np.int8)
    for wanted, phase in reversed(_PHASES):
        found[marks & wanted != 0] = phase
    return found


def _name_by_stages(
    phases: NDArray[np.int8], history: DeviceHistory, closures: NDArray[np.int64]
) -> None:
    """Give events inside a stage its phase, unless their own stacks show a pass.

    Args:
        phases: of each event.
        history: the device's, with the stages.
        closures: events inside a closure, ascending. A stage of the optimizer with one of them is
            left out: it spans a forward and a backward pass, too.
    """
    stages = history.stages
    first, behind = np.searchsorted(closures, (stages.start_event, stages.end_event))
    for pattern, phase in reversed(_STAGES):
        chosen = [i for i, name in enumerate(stages.name) if pattern.search(name)]
        if phase == OPTIMIZER:
            chosen = [i for i in chosen if first[i] == behind[i]]
        if chosen:
            begin = np.maximum(stages.start_event[chosen], 0)
            end = np.maximum(stages.end_event[chosen], begin)
            inside = sum_live(np.ones(len(chosen), np.int64), begin, end, len(phases))[1:] > 0
            phases[inside & (phases <= USER)] = phase


def _filled(phases: NDArray[np.int8]) -> NDArray[np.int8]:
    """Give events without a phase that of their neighbours, if both have the same."""
    known = np.flatnonzero(phases)
    if not len(known):
        return phases
    there = phases[known]
    between = np.where(there[:-1] == there[1:], there[:-1], np.int8(NONE))
    lengths = np.diff(known, prepend=0, append=len(phases))
    filled = np.repeat(np.concatenate([there[:1], between, there[-1:]]), lengths)
    filled[known] = there
    return filled
