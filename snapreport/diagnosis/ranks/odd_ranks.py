"""Find the ranks that are unlike their group: by their peak, or by the memory they gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.groups import Grouped
from snapreport.diagnosis.ranks.likeness import FLOOR, MEGABYTE, HolderTable, stand_out
from snapreport.diagnosis.ranks.rows import Row, Unit
from snapreport.ground.native.columns import whole_median

# Find how much memory each rank gains per step, in its recording or from dump to dump.


_STEPS = 3
"""The fewest steps that can show growth."""
_TOTAL = 0.01
"""A rank grows only if it gains at least this part of the peak over all its steps."""
_STEADY = 0.6
"""Growth is steady if at least this share of steps gains half the average or more."""


@dataclass(frozen=True)
class Growth:
    """What a rank gains."""

    each: int
    """Bytes per step; may be negative."""
    total: int
    """Bytes over all known steps."""
    steps: int
    """The number of known steps; for dumps, the training steps between the first and the last."""
    steady: bool
    between_dumps: bool


def find_growth(row: Row, dumps: Sequence[Row]) -> Growth | None:
    """Return what a rank gains, or None if too few steps are known.

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
        steps = steps[1:]  # the first may allocate what all later ones use
    if len(steps) < _STEPS:
        return None
    return _over(list(range(len(steps))), [step.left for step in steps], between_dumps=False)


def _over(at: list[int], values: list[int], *, between_dumps: bool) -> Growth | None:
    if at[-1] == at[0]:
        return None
    each = _slope(np.array(at), np.array(values))
    rises = np.diff(values) / np.diff(at)
    # Between dumps growth may begin late; within a recording that would be a single jump.
    steady = between_dumps or float(np.mean(rises * np.sign(each) >= abs(each) / 2)) >= _STEADY
    return Growth(each, values[-1] - values[0], at[-1] - at[0], steady, between_dumps)


def _slope(at: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """Return how much values rise per unit, from the median of the first third to the last's.

    By medians, so that a single unusual step does not count.
    """
    third = max(len(values) // 3, 1)
    rise = float(np.median(values[-third:]) - np.median(values[:third]))
    run = float(np.median(at[-third:]) - np.median(at[:third]))
    return round(rise / run) if run else 0


def growing(grown: Sequence[Growth | None], allocated: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which ranks of a group gain more than the others.

    Args:
        grown: the growth of each rank.
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
    """Return the first dump in which a rank has gained more than its group since its first dump.

    Args:
        unit: the rank's device.
        others: the devices of its group that do not stand out.
        dumps: the allocated peak of each device in each dump, in bytes.
        least: by at least how many bytes.
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


_MOSTLY = 0.5


@dataclass(frozen=True)
class Unlike:
    """What was found about the members of a group; arrays in the members' order."""

    side: NDArray[np.int8]
    """1 if the peak stands out above the others, -1 if below, 0 if not."""
    growing: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    core: tuple[int, ...]
    """Compared rows that are not odd in any way; they define what is usual."""


def find_unlike(
    group: Grouped, rows: Sequence[Row], table: HolderTable, grown: Sequence[Growth | None]
) -> Unlike:
    """Return which members of a group failed, have an unusual peak, or gain memory.

    A rank that failed has stopped, so its peak is not judged.
    """
    members = list(group.members)
    failed = np.array([bool(rows[m].device.failed) for m in members], bool)
    peaks = table.allocated[members]
    side = _peaks(members, rows, table, ~failed)
    rising = growing([grown[m] for m in members], peaks)
    quiet = [m for m, ill in zip(members, failed | rising | (side != 0), strict=True) if not ill]
    return Unlike(side, rising, failed, tuple(quiet) or group.core)


def _peaks(
    members: Sequence[int], rows: Sequence[Row], table: HolderTable, judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    peaks = table.allocated[list(members)]
    side = np.zeros(len(members), np.int8)
    if judged.sum() < 3:
        return side
    middle = whole_median(peaks[judged])
    widths = np.array([rows[m].device.allocated_width for m in members], np.int64)
    floor = np.maximum(FLOOR * middle, MEGABYTE) + widths + float(np.median(widths))
    side = stand_out(peaks, floor, judged)
    return np.where(side == 0, _by_site(members, table, judged, floor, middle), side)


def _by_site(
    members: Sequence[int],
    table: HolderTable,
    judged: NDArray[np.bool_],
    floor: NDArray[np.float64],
    middle: int,
) -> NDArray[np.int8]:
    """Return whose peak is unusual because of one call site, which varies less than peaks do.

    The peak differs by at least the floor, and the site alone stands out from the others.
    """
    side = np.zeros(len(members), np.int8)
    away = table.allocated[list(members)] - middle
    suspect = judged & (np.abs(away) >= floor)
    if not suspect.any():
        return side
    sites = table.sites[list(members)]
    for column in range(sites.shape[1]):
        values = sites[:, column]
        change = values - whole_median(values[judged])
        if (suspect & (np.abs(change) >= floor)).any():
            found = stand_out(values, floor, judged)
            mostly = np.abs(change) >= _MOSTLY * np.abs(away)
            side = np.where(suspect & mostly & (found == np.sign(away)), found, side)
    return side
