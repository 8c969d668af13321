"""How much memory each rank gains in a step, in its recording or from dump to dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.compare.among_ranks.compared_rows import Row, Unit
from snapreport.compare.among_ranks.likeness import MEGABYTE
from snapreport.compare.among_ranks.standing_out import stand_out

_STEPS = 3
"""Fewer tell no growth."""
_TOTAL = 0.01
"""Of the peak: what a rank gains over all its steps is at least so much."""
_STEADY = 0.6
"""The share of steps in which a rank that grows gains at least half of what it gains on average."""


@dataclass(frozen=True)
class Growth:
    """What a rank gains."""

    each: int
    """Bytes in a step; may be negative."""
    total: int
    """Bytes over all the steps that are known."""
    steps: int
    """How many those are; of dumps the training steps between the first and the last."""
    steady: bool
    between_dumps: bool


def find_growth(row: Row, dumps: Sequence[Row]) -> Growth | None:
    """Return what a rank gains, or None where too few steps are known.

    Args:
        row: the rank's device, in its latest dump.
        dumps: the same device in all dumps.
    """
    known = [each for each in dumps if each.rank.name.dump is not None]
    if len(known) >= 2 and len({each.rank.name.dump for each in known}) == len(known):
        return _over(
            [each.rank.name.dump or 0 for each in known],
            [each.allocated for each in known],
            between_dumps=True,
        )
    steps = row.device.steps
    if len(steps) > _STEPS:
        steps = steps[1:]  # the first may make what every later one uses
    if len(steps) < _STEPS:
        return None
    return _over(list(range(len(steps))), [step.left for step in steps], between_dumps=False)


def _over(at: list[int], values: list[int], *, between_dumps: bool) -> Growth | None:
    if at[-1] == at[0]:
        return None
    each = _slope(np.array(at), np.array(values))
    rises = np.diff(values) / np.diff(at)
    # From dump to dump a rank may leave the line late; within a recording that is one event.
    steady = between_dumps or float(np.mean(rises * np.sign(each) >= abs(each) / 2)) >= _STEADY
    return Growth(each, values[-1] - values[0], at[-1] - at[0], steady, between_dumps)


def _slope(at: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """Return how much values rise for each unit, from the first third to the last.

    It is between the medians of both, so one step that is unlike the others does not count.
    """
    third = max(len(values) // 3, 1)
    rise = float(np.median(values[-third:]) - np.median(values[:third]))
    run = float(np.median(at[-third:]) - np.median(at[:third]))
    return round(rise / run) if run else 0


def growing(grown: Sequence[Growth | None], allocated: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which ranks of a group gain more than the others do.

    Args:
        grown: of each rank.
        allocated: int64, shape (n,): the peaks.
    """
    each = np.array([0 if g is None else g.each for g in grown], np.int64)
    judged = np.array([g is not None for g in grown], bool)
    steps = np.array([1 if g is None else max(g.steps, 1) for g in grown])
    floor = np.maximum(_TOTAL * allocated, MEGABYTE) / steps
    found: NDArray[np.bool_] = stand_out(each, floor, judged) == 1
    found &= np.array([g is not None and g.steady and g.each > 0 for g in grown], bool)
    return found


def all_growing(grown: Sequence[Growth | None], allocated: NDArray[np.int64]) -> bool:
    """Say whether nearly every rank gains memory, so that none stands out by it."""
    known = [
        g.steady and g.each > 0 and g.total >= max(_TOTAL * int(peak), MEGABYTE)
        for g, peak in zip(grown, allocated, strict=True)
        if g is not None
    ]
    return bool(known) and sum(known) >= 0.9 * len(known)


def leaves_at(
    unit: Unit, others: Sequence[Unit], dumps: dict[Unit, dict[int, int]], least: float
) -> int | None:
    """Return the first dump in which a rank's change since its first is unlike its group's.

    Args:
        unit: the rank's device.
        others: those of its group that do not stand out.
        dumps: the allocated peak of each device in each dump, in bytes.
        least: by how many bytes it has to be.
    """
    mine = dumps[unit]
    first = min(mine)
    for dump in sorted(mine)[1:]:
        changes = [
            dumps[other][dump] - dumps[other][first]
            for other in others
            if dump in dumps[other] and first in dumps[other]
        ]
        if changes and mine[dump] - mine[first] - float(np.median(changes)) >= least:
            return dump
    return None
