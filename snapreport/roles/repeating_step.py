"""Find the program's repeating step: from its stages, else from the rhythm of its allocations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from snapreport.ground.memoize import once_for_both
from snapreport.model.history import DeviceHistory, History, Stages
from snapreport.model.iterations import Iterations, Source
from snapreport.model.snapshot import NO_TIME
from snapreport.native.sorting import median, unique
from snapreport.native.sweeps import sum_live
from snapreport.roles.loop_period import Period, find_period

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PROFILER_STEP = re.compile(r"^ProfilerStep#\d+$")
_OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
_LOOP_MARKERS = (
    re.compile(r"^Optimizer\.zero_grad#"),
    re.compile(r"^enumerate\(DataLoader\)#.*__next__$"),
)
"""Stages that PyTorch itself sets once a step, at or near its beginning."""
_NUMBER = re.compile(r"\d+")

_FEWEST = 2
"""One turn alone is no repetition."""
_FEWEST_OF_A_NAME = 3
"""A name of the user's own counts as a step's when it comes back at least twice."""
_COVERS = 0.5
"""Its stages must fill at least this part of the recording from the first one on."""
_TOGETHER = 0.25
"""Ends of optimizer steps closer than this part of the usual distance belong to one step of the
program: one that has several optimizers."""
_BY_OPTIMIZER, _BY_MARKER, _BY_NAME = 0.95, 0.9, 0.8
"""Confidence: an optimizer may be stepped twice a turn (GANs); zero_grad and data loaders are also
used outside of the loop; a name that repeats may be a part of a step."""


@once_for_both
def find_iterations(history: DeviceHistory, tables: History) -> Iterations | None:
    """Find the turns of the program's outer loop, or None where nothing shows one.

    ``ProfilerStep#N`` stages are believed. Else a turn ends with each ``Optimizer.step`` stage
    (so gradient accumulation is inside), or begins where the gradients are cleared, a batch is
    taken, or an outermost stage of the user's comes back. Without stages it is the period of the
    allocations, and the confidence the part of them that keep to it.

    Args:
        history: the device.
        tables: the file that it is from.
    """
    if history.events <= 1:
        return None
    stages, rows = history.stages, history.allocations
    allocated = sum_live(
        rows.block_size, rows.alloc_event, rows.free_requested_event, history.events
    )
    found = (
        _from_profiler(stages, history.events)
        or _from_optimizer(stages, history.events, allocated)
        or _from_markers(stages, history.events, allocated)
        or _from_names(stages, history.events)
    )
    if found is not None:
        return found
    period = find_period(tables, history)
    return None if period is None else _from_period(period, history.events, allocated)


def _from_profiler(stages: Stages, events: int) -> Iterations | None:
    rows = [i for i, name in enumerate(stages.name) if _PROFILER_STEP.match(name)]
    return _spans(stages, rows, events, "profiler", 1.0, "by the stages ProfilerStep#N")


def _from_names(stages: Stages, events: int) -> Iterations | None:
    """Take the outermost stage whose name, without numbers, comes most often."""
    rows: dict[str, list[int]] = {}
    for i in np.flatnonzero(stages.depth == 0).tolist():
        rows.setdefault(_NUMBER.sub("#", stages.name[i]), []).append(i)
    for name, same in sorted(rows.items(), key=lambda item: -len(item[1])):
        start, end = stages.start_event[same], np.minimum(stages.end_event[same], events)
        first = max(int(start.min()), 0)
        filled = int(np.maximum(end - np.maximum(start, 0), 0).sum())
        if len(same) >= _FEWEST_OF_A_NAME and filled >= _COVERS * (events - first):
            how = f"by the stages {name}"
            return _spans(stages, same, events, "stages", _BY_NAME, how)
    return None


def _spans(
    stages: Stages, rows: list[int], events: int, source: Source, sure: float, how: str
) -> Iterations | None:
    """Return stages as turns: each lasts to the next, the last to its own end."""
    kept = [i for i in rows if stages.end_event[i] > max(int(stages.start_event[i]), 0)]
    if not kept:
        return None
    starts = np.maximum(stages.start_event[kept], 0)
    # Where one ends at the time at which the next begins, events of that time end the former.
    starts[1:] = np.where(
        stages.end_event[kept[:-1]] < stages.end_event[kept[1:]],
        np.maximum(starts[1:], stages.end_event[kept[:-1]]),
        starts[1:],
    )
    starts, first = np.unique(starts, return_index=True)
    names = [stages.name[kept[i]] for i in first.tolist()]
    last = kept[int(first[-1])]
    end = int(stages.end_event[last])
    if end >= events and int(stages.end_time_us[last]) == NO_TIME:  # it was still running
        starts, names, end = starts[:-1], names[:-1], int(starts[-1])
    return _iterations(source, sure, starts, end, names, how)


def _from_optimizer(stages: Stages, events: int, allocated: NDArray[np.int64]) -> Iterations | None:
    found: dict[str, list[int]] = {}
    for i, name in enumerate(stages.name):
        complete = int(stages.end_time_us[i]) != NO_TIME and stages.end_event[i] > 0
        if _OPTIMIZER_STEP.match(name) and complete:
            found.setdefault(name, []).append(min(int(stages.end_event[i]), events))
    if not found:
        return None
    name, ends = max(found.items(), key=lambda item: len(item[1]))
    bounds = _settle(_apart(unique(np.array(ends, np.int64))), events, allocated)
    # What precedes the first is a turn too: with it comes the optimizer's state.
    starts = np.concatenate([np.zeros(1, np.int64), bounds[:-1]])
    how = f"by the stage {name}, which ends each"
    return _iterations("optimizer", _BY_OPTIMIZER, starts, int(bounds[-1]), None, how)


def _apart(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keep the last of each group of ends that lie close together."""
    if len(ends) < 2:
        return ends
    gaps = np.diff(ends)
    usual = median(gaps[gaps >= gaps.mean()])
    kept: NDArray[np.int64] = ends[np.append(gaps >= _TOGETHER * usual, True)]
    return kept


def _from_markers(stages: Stages, events: int, allocated: NDArray[np.int64]) -> Iterations | None:
    for pattern in _LOOP_MARKERS:
        rows = [
            i
            for i, name in enumerate(stages.name)
            if pattern.match(name) and 0 <= stages.start_event[i] < events
        ]
        if len(rows) > _FEWEST:
            bounds = _settle(unique(stages.start_event[rows]), events, allocated)
            name = stages.name[rows[0]]
            how = f"by the stage {name}, which begins each"
            found = _iterations("stages", _BY_MARKER, bounds[:-1], int(bounds[-1]), None, how)
            if found is not None:
                return found
    return None


def _from_period(period: Period, events: int, allocated: NDArray[np.int64]) -> Iterations | None:
    """Put the bounds where the least is allocated in each period: between two turns."""
    marks = period.events
    usual = median(np.diff(marks))
    if events - marks[-1] >= (1 - _TOGETHER) * usual:
        marks = np.append(marks, np.int64(events))
    bounds = unique(_at_lowest(allocated, marks[:-1], marks[1:]))
    return _iterations("pattern", period.confidence, bounds[:-1], int(bounds[-1]), None, period.how)


def _settle(
    bounds: NDArray[np.int64], events: int, allocated: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Move bounds a little on, to where the least is allocated.

    Gradients, the loss and the batch are mostly dropped just after the optimizer's step.
    """
    if len(bounds) < 2:
        return bounds
    reach = int(_TOGETHER * median(np.diff(bounds)))
    return unique(_at_lowest(allocated, bounds - 1, np.minimum(bounds + reach, events)))


def _at_lowest(
    allocated: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return, for each span of events, that before which the least is allocated, the latest.

    Args:
        allocated: int64, shape (n_events + 1,); index 0 is the start.
        first, last: int64, shape (n,); the bounds found are in ``first < bound <= last``.
    """
    bounds = np.empty(len(first), np.int64)
    for i, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        # Index s is what is allocated just before event s. Of equals the last: all that the turn
        # frees is gone then, and nothing new has begun.
        inside = allocated[low + 1 : high + 1]
        bounds[i] = high - int(inside[::-1].argmin())
    return bounds


def _iterations(
    source: Source,
    confidence: float,
    starts: NDArray[np.int64],
    end: int,
    names: list[str] | None,
    how: str,
) -> Iterations | None:
    if len(starts) < _FEWEST:
        return None
    if names is None:
        names = [f"iteration {i + 1}" for i in range(len(starts))]
    return Iterations(source, confidence, starts.astype(np.int64), end, tuple(names), how)
