"""How far the peak falls when some allocations are taken away: exactly, for every group at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites
from snapreport.figures.grouping import (
    BEFORE_RECORDING,
    OUTSIDE_STAGES,
    group_up,
    label_allocations,
)
from snapreport.ground.errors import NotEnoughMemoryError, PatternError
from snapreport.ground.native.columns import Outline, count_until, stable_order, sum_groups, unique
from snapreport.ground.patterns import compile_pattern
from snapreport.ground.units import format_count
from snapreport.model.answers import (
    Group,
    WhatIf,
)
from snapreport.model.asked import (
    WHAT_IF_GROUPINGS,
)
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.roles import Rule
from snapreport.model.snapshot import StackTable

_MOST_AROUND = 64
"""Stages around an allocation, on average, that a what-if of stages takes in."""
_ALWAYS_AROUND = 2**22
"""Pairs of an allocation and a stage that it takes in, however few allocations there are."""
Members = tuple["NDArray[np.int64]", "NDArray[np.int64]", Sequence[str]]
"""Rows of allocations, the group that each is in, and the groups' names. A row may be in several
groups: what is made in a stage is made in the stages around it, too."""


def find_members(
    file: History, history: DeviceHistory, by: str, rules: Sequence[Rule] | None = None
) -> Members:
    """Put the allocations of a device into groups.

    Args:
        file: the tables of the file.
        history: the device.
        by: one of ``WHAT_IF_GROUPINGS``.
        rules: for ``category``, instead of the built-in ones.

    Raises:
        NotEnoughMemoryError: by stage, and far too many are around each other.
        ValueError: ``by`` is not one of them.
    """
    if by not in WHAT_IF_GROUPINGS:
        raise ValueError(f"by is {by!r}, not one of {', '.join(WHAT_IF_GROUPINGS)}")
    if by == "stage":
        return _in_stages(history)
    names: Sequence[str]
    if by == "site":
        number, names = label_sites(history, file.stacks)
    else:
        number, names = label_allocations(file, history, by, rules)
    return np.arange(len(number), dtype=np.int64), number, names


def find_what_if(
    history: DeviceHistory, members: Members, outline: Outline, name: str = "allocated"
) -> tuple[WhatIf, ...]:
    """Return the peak without each of some groups; the group that lowers it most comes first.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        outline: of the curve.
        name: of the curve: ``allocated``, ``requested`` or ``active``.
    """
    row, group, names = members
    begin, end, weight = _spans(history, row, name)
    top = outline.top
    live = np.flatnonzero((begin <= top) & (top < end))
    held = sum_groups(group[live], weight[live], len(names))
    count = np.bincount(group, minlength=len(names))
    whole = int(outline.curve[top + 1])
    peaks, events = peaks_without(outline, group, begin, end, weight, held)
    order = np.lexsort((-held, peaks))
    return tuple(
        WhatIf(names[i], int(peaks[i]), int(events[i]), whole - int(peaks[i]), int(held[i]), n)
        for i in order.tolist()
        if (n := int(count[i]))
    )


def find_without(
    history: DeviceHistory,
    members: Members,
    outline: Outline,
    patterns: Sequence[str],
    name: str = "allocated",
) -> WhatIf:
    """Return the peak without all groups that match a pattern.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        outline: of the curve.
        patterns: parts of names, globs, or ``/regex/``.
        name: of the curve: ``allocated``, ``requested`` or ``active``.

    Raises:
        PatternError: one of them is not a regular expression, or matches nothing.
    """
    row, group, names = members
    taken = dict.fromkeys(matching_names(names, patterns))
    rows = unique(row[np.array([text in taken for text in names], np.bool_)[group]])
    begin, end, weight = _spans(history, rows, name)
    peak, event = outline.peak_without((weight, begin, end))
    top = outline.top
    return WhatIf(
        name=", ".join(taken),
        peak_bytes=peak,
        peak_event=event,
        falls=int(outline.curve[top + 1]) - peak,
        held=int(weight[(begin <= top) & (top < end)].sum()),
        count=len(rows),
    )


def matching_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match one of some patterns, each once, in order.

    Args:
        names: of groups.
        patterns: parts of names, globs, or ``/regex/``.

    Raises:
        PatternError: one of the patterns is not a regular expression, or matches no name.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        fits = compile_pattern(pattern)
        # A call site's file counts for itself, so that a glob need not allow for the function.
        here = [name for name in names if fits(name) or fits(name.rpartition("  ")[2])]
        if not here:
            some = ", ".join(map(repr, sorted(set(names))[:3])) or "nothing"
            raise PatternError(
                f"{pattern!r} fits none of {len(set(names)):,} names, such as {some}."
            )
        found.update(dict.fromkeys(here))
    return [name for name in dict.fromkeys(names) if name in found]


def find_held(
    history: DeviceHistory,
    stacks: StackTable,
    members: Members,
    event: int,
    taken: Iterable[str] = (),
    name: str = "allocated",
) -> tuple[Group, ...]:
    """Return the groups that have bytes after an event, the most first.

    Args:
        history: the device.
        stacks: the tables of the file.
        members: the groups, as from ``find_members``.
        event: -1 for the start.
        taken: names of groups that are taken away, with all that is in them.
        name: of the curve: ``allocated``, ``requested`` or ``active``.
    """
    row, group, names = members
    away = set(taken)
    is_away = np.array([text in away for text in names], np.bool_)
    there = history.allocations.live_at(event, name)
    there[row[is_away[group]]] = False
    live = np.flatnonzero(there[row])
    return group_up(history.allocations, row[live], group[live], names, name, stacks)


def _spans(
    history: DeviceHistory, row: NDArray[np.int64], curve: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return when some allocations begin and end to count in a curve, and their bytes in it."""
    rows = history.allocations
    end, weight = rows.ends(curve), rows.weights(curve)
    if len(row) == len(rows) and (row[1:] > row[:-1]).all():  # all rows: no copy needed
        return rows.alloc_event, end, weight
    return rows.alloc_event[row], end[row], weight[row]


def _in_stages(history: DeviceHistory) -> Members:
    """Every stage by its name with all that was made in it, in the stages inside it too."""
    stages, born = history.stages, history.allocations.alloc_event
    in_trace = np.flatnonzero(born > START)
    in_order = in_trace[stable_order(born[in_trace])]
    events = born[in_order]
    spans = zip(stages.name, stages.start_event.tolist(), stages.end_event.tolist(), strict=True)
    covered = np.zeros(len(events) + 1, np.int64)
    by_name: dict[str, list[tuple[int, int]]] = {}
    for name, start, end in spans:
        low, high = np.searchsorted(events, [max(start, 0), max(end, 0)]).tolist()
        covered[low] += 1
        covered[high] -= 1
        by_name.setdefault(name, []).append((low, high))
    joined = {name: _joined(ranges) for name, ranges in by_name.items()}
    pairs = sum(high - low for ranges in joined.values() for low, high in ranges)
    if pairs > max(_MOST_AROUND * len(events), _ALWAYS_AROUND):
        raise NotEnoughMemoryError(
            f"{history.device} has {format_count(pairs // len(events))} stages around each"
            " allocation, which take too much memory to be taken away in turn; ask by another"
            " grouping."
        )
    rows = [
        *(np.concatenate([in_order[low:high] for low, high in each]) for each in joined.values()),
        in_order[np.cumsum(covered)[:-1] == 0],
        np.flatnonzero(born == START),
    ]
    numbers = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    return np.concatenate(rows), numbers, [*joined, OUTSIDE_STAGES, BEFORE_RECORDING]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that overlap, as stages of one name do that are nested in one another."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


# The peak of a curve without each of many groups of allocations, and where it is.


_LARGE, _FEW = 16, 24
"""For groups that hold more than one part in _LARGE of the peak, little of the curve can be
skipped: up to _FEW of them are each added up over the entire recording instead."""


def peaks_without(
    outline: Outline,
    group: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    weight: NDArray[np.int64],
    held: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of a curve without each group, and the first event that has it.

    Taking a group away changes where the peak is. Between two changes of the group its bytes stay
    the same, so the rest is highest where the full curve is: one maximum for each change. Most of
    that can be skipped. The new peak is at least the peak minus what the group holds there, so
    events where the curve is lower than that cannot be the new peak, and a group that holds nothing
    at the peak leaves it where it is.

    Args:
        outline: of the curve.
        group: int64, shape (n,): the number of each member's group.
        begin, end: int64, shape (n,): a member is live after event s if ``begin <= s < end``.
        weight: int64, shape (n,): its bytes in the curve, none of them negative.
        held: int64, shape (n_groups,): bytes of each group that are live at the curve's first
            maximum.

    Returns:
        int64, shape (n_groups,), in bytes, and int64, shape (n_groups,), events.
    """
    curve, top = outline.curve, outline.top
    whole = int(curve[top + 1])
    peaks, events = np.full(len(held), whole, np.int64), np.full(len(held), top, np.int64)
    large = np.flatnonzero(held > whole // _LARGE)[:_FEW]
    for one in large.tolist():
        own = np.flatnonzero(group == one)
        peaks[one], events[one] = outline.peak_without((weight[own], begin[own], end[own]))
    left = held > 0
    left[large] = False
    if not left.any():
        return peaks, events
    # Only where the curve is high enough: events are renumbered.
    at = np.flatnonzero(curve >= whole - int(held[left].max()))
    before = count_until(at, len(curve))  # how many such events come before each place
    own = np.flatnonzero(left[group])
    first, last = (before[column[own] + 1] for column in (begin, end))
    there = first < last
    own, first, last = own[there], first[there], last[there]
    number = np.cumsum(left) - 1
    lowest, place = _peaks_without_all(
        curve[at], number[group[own]], int(left.sum()), first, last, weight[own]
    )
    peaks[left], events[left] = lowest, at[place] - 1
    return peaks, events


def _peaks_without_all(
    curve: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: int,
    begin: NDArray[np.int32],
    end: NDArray[np.int32],
    weight: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of a curve without each of some groups, and the first place that has it.

    Args:
        curve: int64, shape (n,), never empty.
        group: int64, shape (m,): a number below ``groups`` for each member.
        groups: how many there are, at least one.
        begin, end: int32, shape (m,): a member counts at the places ``begin <= place < end``,
            of which there is one at least.
        weight: int64, shape (m,).
    """
    points = len(curve)
    ends = np.flatnonzero(end < points)
    # Each group is there from the start, with nothing, so that it has a span of its own.
    key = np.concatenate(
        [
            np.arange(groups, dtype=np.int64) * points,
            group * points + begin,
            group[ends] * points + end[ends],
        ]
    )
    change = np.concatenate([np.zeros(groups, np.int64), weight, -weight[ends]])
    order = stable_order(key)
    key, total = key[order], np.cumsum(change[order])
    last = np.append(np.flatnonzero(key[1:] != key[:-1]), len(key) - 1)
    key, total = key[last], total[last]
    of, low = np.divmod(key, points)
    starts = np.searchsorted(of, np.arange(groups))
    # The sum runs on through all groups, so subtract what it was where each group begins.
    held = total - np.append(0, total[starts[1:] - 1])[of]
    following = np.append(low[1:], points)
    high = np.where(following > low, following, points)
    most, place = range_maxima(curve, low, high)
    rest = most - held
    peaks = np.maximum.reduceat(rest, starts)
    hits = np.flatnonzero(rest == peaks[of])
    first = hits[np.searchsorted(of[hits], np.arange(groups))]
    return peaks, place[first]


# The most of a curve over many spans at once, and where it is first attained.


def range_maxima(
    values: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of each span of a curve, and the first place that has it.

    Args:
        values: int64, shape (n,).
        low, high: int64, shape (m,): the span is ``low <= place < high``, never empty.

    Returns:
        int64, shape (m,): the maxima; and int64, shape (m,): their places.

    Each span is covered by two that are 2**k long. The maxima of all such spans come from those
    half as long, so one array is enough if the spans are answered in order of their length.
    """
    most, place = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
    if not len(low):
        return most, place
    power = np.frexp((high - low).astype(np.float64))[1] - 1  # the largest that fits
    order = stable_order(power)
    bounds = np.searchsorted(power[order], np.arange(int(power.max()) + 2))
    longest = values.copy()
    first = np.arange(len(values), dtype=np.int64)
    for k in range(int(power.max()) + 1):
        if k:
            half = 1 << (k - 1)
            later = longest[half:] > longest[:-half]
            first = np.where(later, first[half:], first[:-half])
            longest = np.maximum(longest[half:], longest[:-half])
        asked = order[bounds[k] : bounds[k + 1]]
        left, right = low[asked], high[asked] - (1 << k)
        # The two may overlap: then of equal maxima that of the left one comes first.
        at = np.where(longest[right] > longest[left], right, left)
        most[asked], place[asked] = longest[at], first[at]
    return most, place
