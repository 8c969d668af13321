"""Find the ranks that are unlike their group, since when, and say so.

A rank is odd if it failed, if its peak is unlike those of its group, or if it gains memory from
step to step and the others do not.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.groups import FLOOR, TO_NORMAL, Grouped, spread_of
from snapreport.diagnosis.ranks.holders import (
    HolderTable,
    because,
    holder_words,
    in_parts,
    instead,
)
from snapreport.diagnosis.ranks.rows import Row, sentence
from snapreport.ground.native.columns import whole_median
from snapreport.ground.records import dataclass
from snapreport.ground.units import bytes_and_share, format_bytes, format_count
from snapreport.model.run import DeviceFacts, Difference, FailedRequest, coarser

MEGABYTE = 1 << 20
"""Smaller differences in bytes do not count: an unsplit block is larger by up to this much."""
SPREADS = 5
_AS_FAR = 2
_OF_FEW = 4
"""With this many values the second and third measures double; with many more they hardly change."""
_MOST = 4
"""At most one in this many values stands out: more of them are a group."""


def stand_out(
    values: NDArray[np.int64], floor: float | NDArray[np.float64], judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Say which values stand out: 1 above the others, -1 below, 0 not.

    A value stands out if its distance from the median is large by three measures at once: it is
    worth acting on, it is five times the usual spread (a normal distribution has one value in two
    million beyond that), and it is twice that of the furthest value that does not stand out. The
    third measure is for long tails, as with uneven experts: there the largest of a thousand values
    is far from the median, but so is the next. The spread of few values is not well known, so the
    second and third measures then ask for more: with eight values, 7.5 times the spread and three
    times the next value.

    Args:
        values: int64, shape (n,).
        floor: the least distance from the median; one for all values, or one for each.
        judged: bool, shape (n,): the values to judge; the median is of these.
    """
    found = np.zeros(len(values), np.int8)
    known = values[judged]
    if len(known) < 3:
        return found
    away = values - np.sort(known)[(len(known) - 1) // 2]
    few = _OF_FEW / len(known)
    spreads = SPREADS * (1 + few) * spread_of(known)
    least = np.maximum(np.broadcast_to(floor, values.shape), spreads)
    for sign in (1, -1):
        rows = np.flatnonzero(judged)
        rows = rows[np.argsort(-sign * away[rows], kind="stable")]
        far = sign * away[rows]
        beyond = far >= np.maximum(least[rows], 1)
        for count in range(min(max(len(rows) // _MOST, 1), len(rows) - 2), 0, -1):
            if beyond[:count].all() and far[count - 1] >= _AS_FAR * (1 + few) * far[count]:
                found[rows[:count]] = sign
                break
    return found


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
    # From the median of the first third to the last's, so that one unusual step does not count.
    third = max(len(values) // 3, 1)
    rise, run = (float(np.median(each[-third:]) - np.median(each[:third])) for each in (values, at))
    slope = round(rise / run) if run else 0
    rises = np.diff(values) / np.diff(at)
    # Between dumps growth may begin late; within a recording that would be a single jump.
    steady = between_dumps or float(np.mean(rises * np.sign(slope) >= abs(slope) / 2)) >= _STEADY
    return Growth(slope, values[-1] - values[0], at[-1] - at[0], steady, between_dumps)


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


_MOSTLY = 0.5
"""One call site makes a peak unusual if it makes at least this part of the difference."""


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
    side = _judge_peaks(members, rows, table, ~failed)
    rising = growing([grown[m] for m in members], peaks)
    quiet = [m for m, ill in zip(members, failed | rising | (side != 0), strict=True) if not ill]
    return Unlike(side, rising, failed, tuple(quiet) or group.core)


def _judge_peaks(
    members: Sequence[int], rows: Sequence[Row], table: HolderTable, judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Say whose peak is unusual, or would be but that peaks vary more than its one call site does.

    By a call site: the peak differs by at least the floor, and the site stands out from the others.
    """
    peaks, side = table.allocated[members], np.zeros(len(members), np.int8)
    if judged.sum() < 3:
        return side
    middle = whole_median(peaks[judged])
    widths = np.array([rows[m].device.allocated_width for m in members], np.int64)
    floor = np.maximum(FLOOR * middle, MEGABYTE) + widths + float(np.median(widths))
    away = peaks - middle
    suspect = judged & (np.abs(away) >= floor)
    for values in table.sites[members].T if suspect.any() else ():
        change = np.abs(values - whole_median(values[judged]))
        if (suspect & (change >= floor)).any():
            found = stand_out(values, floor, judged)
            telling = suspect & (change >= _MOSTLY * np.abs(away)) & (found == np.sign(away))
            side = np.where(telling, found, side)
    whole = stand_out(peaks, floor, judged)
    return np.where(whole == 0, side, whole)


_PART = 0.25
"""A rank has diverged once it shows this part of the difference that it has in the end."""
_ALIGNED = 0.02
"""Events are comparable one by one only if the numbers of events spread by at most this part."""


class Curves:
    """The curves of a group over events, in cells of one width: since when is a rank unlike it?"""

    def __init__(self, devices: Sequence[DeviceFacts], core: Sequence[int], shift: int) -> None:
        self._devices = devices
        self._core = list(core)
        self._shift = shift
        events = np.array([devices[row].events for row in self._core])
        off = np.median(np.abs(events - np.median(events))) if len(events) else 0
        self._aligned = bool(off <= _ALIGNED * max(float(np.median(events)), 1))
        lengths = sorted((len(self._cells(row)) for row in self._core), reverse=True)
        until = lengths[len(lengths) // 2] if lengths else 0  # cells that more than half have
        self._middle, self._spread = np.empty((2, until))
        self._usual: dict[str, dict[int, tuple[float, float]]] = {}
        """Of the core's steps, by the figure: median and spread by the step's number."""
        for part in in_parts(until, len(self._core)):
            some = np.full((len(self._core), len(self._middle[part])), np.nan)
            for place, row in enumerate(self._core):
                cells = self._cells(row)[:until][part]
                some[place, : len(cells)] = cells
            self._middle[part] = np.nanmedian(some, axis=0)
            self._spread[part] = TO_NORMAL * np.nanmedian(np.abs(some - self._middle[part]), axis=0)

    def _cells(self, row: int) -> NDArray[np.int64]:
        return coarser(self._devices[row].by_event, self._shift).allocated

    def since_event(self, row: int, difference: int) -> int | None:
        """Return the first event of the cell in which a rank diverges from its group.

        Args:
            row: the rank's position among the devices.
            difference: bytes by which it differs in the end; negative if it holds less.
        """
        if not self._aligned or not difference:
            return None
        sign = 1 if difference > 0 else -1
        cells = self._cells(row)[: len(self._middle)]
        away = sign * (cells - self._middle[: len(cells)])
        least = np.maximum(_PART * abs(difference), SPREADS * self._spread)
        beyond = np.flatnonzero(away >= least[: len(cells)])
        return int(beyond[0]) << self._shift if len(beyond) else None

    def since_step(self, row: int, difference: int, growing: bool = False) -> int | None:
        """Return the number of the first step in which a rank diverges from its group.

        Args:
            row: the rank's position among the devices.
            difference: bytes by which it differs in the end; negative if it holds less.
            growing: whether to compare what steps leave allocated, instead of their peaks.
        """
        name = "left" if growing else "allocated"
        if row in self._core:
            usual = self._usual_steps(name, [member for member in self._core if member != row])
        else:
            if name not in self._usual:
                self._usual[name] = self._usual_steps(name, self._core)
            usual = self._usual[name]
        sign = 1 if difference > 0 else -1
        for step in self._devices[row].steps:
            if step.number in usual:
                middle, spread = usual[step.number]
                away = sign * (getattr(step, name) - middle)
                if away >= max(_PART * abs(difference), SPREADS * spread):
                    return step.number
        return None

    def _usual_steps(self, name: str, members: Sequence[int]) -> dict[int, tuple[float, float]]:
        """Return median and spread of the steps, by number, that more than half of ranks have."""
        sizes: dict[int, array[int]] = {}
        for member in members:
            for step in self._devices[member].steps:
                sizes.setdefault(step.number, array("q")).append(getattr(step, name))
        return {
            number: (float(np.median(each)), spread_of(np.array(each)))
            for number, each in sizes.items()
            if 2 * len(each) > len(self._core) - 1
        }


# What is said of odd ranks.

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def clock(time_us: int) -> str:
    """Return a time of day to the millisecond: ``12:03:11.208 UTC``."""
    moment = _EPOCH + timedelta(microseconds=time_us // 1000 * 1000)
    return f"{moment:%H:%M:%S.%f}"[:-3] + " UTC"


def peaks_text(row: Row) -> str:
    """Return ``peaks``, or ``holds`` if no history was recorded."""
    return "peaks" if row.device.recorded else "holds"


def above(total: int) -> str:
    """Return ``above`` or ``below``."""
    return "above" if total > 0 else "below"


WHOLE = ("all ranks", "all devices")


def median_of(group: str) -> str:
    """Return ``the median``, with the group's name unless the group is all ranks."""
    return "the median" if group.startswith(WHOLE) else f"the median of {group}"


def unlike_peak(
    row: Row,
    total: int,
    differences: Sequence[Difference],
    group: str,
    event: int | None,
    step: int | None,
) -> str:
    """Say how much a rank's peak differs from its group's, why, and since when."""
    amount = bytes_and_share(total, row.allocated - total)
    text = (
        f"{row.words} {peaks_text(row)} {amount} {above(total)} {median_of(group)}"
        f"{because(differences, total)}"
    )
    places = [] if event is None else [f"about event {format_count(event)}"]
    if step is not None:
        places.append(f"step {format_count(step)}")
    if event == 0:
        text += "; it differs from the start of the recording"
    elif places:
        text += f"; it diverges from the others at {' in '.join(places)}"
    return sentence(text)


def grows(
    row: Row,
    growth: Growth,
    usual: int,
    differences: Sequence[Difference],
    group: str,
    step: int | None,
    first: bool,
) -> str:
    """Say what a rank gains per step, and what the rest of its group gains."""
    others = "the others gain nothing" if not usual else f"the others gain {format_bytes(usual)}"
    if usual < 0:
        others = f"the others give back {format_bytes(-usual)}"
    if not group.startswith(WHOLE):
        others = others.replace("the others", f"the others of {group}", 1)
    how = "between the dumps" if growth.between_dumps else "in the recording"
    text = (
        f"{row.words} gains {format_bytes(growth.each)} a step,"
        f" {format_bytes(growth.total)} in {format_count(growth.steps)} steps {how}; {others}"
    )
    named = [d for d in differences if d.kind == "site" and d.key and d.bytes > d.usual]
    if named:
        text += f". At its peak {holder_words(named[0])} holds {instead(named[0])}"
    if step is not None:
        text += f". It diverges at step {format_count(step)}" + ", before all others" * first
    return sentence(text)


def failed_text(
    row: Row,
    request: FailedRequest,
    first: bool,
    total: int,
    differences: Sequence[Difference],
    group: str,
    telling: bool,
) -> str:
    """Say when a rank ran out of memory, what it asked for, and how its peak compares."""
    text = f"{row.words} ran out of memory" + " first" * first
    if request.time_us is not None:
        text += f", at {clock(request.time_us)}"
    text += f" (event {format_count(request.event)}), when "
    text += f"`{request.site}` asked for " if request.site else "it asked for "
    text += format_bytes(request.size)
    if row.device.capacity:
        text += f" on a card with {format_bytes(row.device.capacity)}"
    if telling and total > 0:
        text += (
            f"; it peaked {format_bytes(total)} above {median_of(group)}"
            f"{because(differences, total)}"
        )
    elif telling:
        text += (
            f"; until then it had peaked {format_bytes(-total)} below {median_of(group)},"
            " which went on"
        )
    else:
        text += f"; until then it had peaked like {median_of(group)}"
    return sentence(text)
