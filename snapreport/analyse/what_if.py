"""How far the peak falls when some allocations are taken away: exactly, for every group at once.

Taking a group away changes where the peak is. Between two changes of the group its bytes stay
the same, so what is left is highest there where the whole curve is: one maximum for each change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.analyse.callsites import label_sites
from snapreport.analyse.curves import live_at, sum_live
from snapreport.analyse.grouping import BEFORE_RECORDING, OUTSIDE_STAGES, label_allocations
from snapreport.analyse.patterns import compile_pattern
from snapreport.analyse.range_maxima import range_maxima
from snapreport.errors import PatternError
from snapreport.model.answers import Group
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.rules import Rule
from snapreport.model.what_if import WHAT_IF_GROUPINGS, WhatIf

if TYPE_CHECKING:
    from numpy.typing import NDArray

Members = tuple["NDArray[np.int64]", "NDArray[np.int64]", list[str]]
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
        rules: for ``category``, instead of our own.

    Raises:
        ValueError: ``by`` is none of them.
    """
    if by not in WHAT_IF_GROUPINGS:
        raise ValueError(f"by is {by!r}, none of {', '.join(WHAT_IF_GROUPINGS)}")
    if by == "stage":
        return _in_stages(history)
    if by == "site":
        number, names = label_sites(history, file.stacks)
    else:
        number, names = label_allocations(file, history, by, rules)
    return np.arange(len(number), dtype=np.int64), number, names


def find_what_if(
    history: DeviceHistory, members: Members, curve: NDArray[np.int64], name: str = "allocated"
) -> tuple[WhatIf, ...]:
    """Return the peak without each of some groups, that which lowers it most first.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        curve: int64, shape (n_events + 1,), as in ``Curves``.
        name: of the curve: ``allocated``, ``requested`` or ``active``.
    """
    row, group, names = members
    begin, end, weight = _spans(history, row, name)
    peaks, steps = peaks_without(curve, group, len(names), begin, end, weight)
    top = int(curve.argmax()) - 1
    held, count = np.zeros(len(names), np.int64), np.bincount(group, minlength=len(names))
    live = (begin <= top) & (top < end)
    np.add.at(held, group[live], weight[live])
    whole = int(curve[top + 1])
    order = np.lexsort((-held, peaks))
    return tuple(
        WhatIf(names[i], int(peaks[i]), int(steps[i]), whole - int(peaks[i]), int(held[i]), n)
        for i in order.tolist()
        if (n := int(count[i]))
    )


def find_without(
    history: DeviceHistory,
    members: Members,
    curve: NDArray[np.int64],
    patterns: Sequence[str],
    name: str = "allocated",
) -> WhatIf:
    """Return the peak without all groups that a pattern fits.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        curve: int64, shape (n_events + 1,), as in ``Curves``.
        patterns: parts of names, globs, or ``/regex/``.
        name: of the curve: ``allocated``, ``requested`` or ``active``.

    Raises:
        PatternError: one of them is no regular expression, or fits nothing.
    """
    row, group, names = members
    matching = set(matching_names(names, patterns))
    chosen = np.array([text in matching for text in names], np.bool_)
    rows = np.unique(row[chosen[group]])
    begin, end, weight = _spans(history, rows, name)
    rest = curve - sum_live(weight, begin, end, history.events)
    top, step = int(curve.argmax()) - 1, int(rest.argmax()) - 1
    return WhatIf(
        name=", ".join(matching_names(names, patterns)),
        peak_bytes=int(rest[step + 1]),
        peak_step=step,
        falls=int(curve[top + 1] - rest[step + 1]),
        held=int(weight[(begin <= top) & (top < end)].sum()),
        count=len(rows),
    )


def matching_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that one of some patterns fits, each once, in order.

    Args:
        names: of groups.
        patterns: parts of names, globs, or ``/regex/``.

    Raises:
        PatternError: one of the patterns is no regular expression, or fits none of them.
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
    members: Members,
    step: int,
    taken: Iterable[str] = (),
    name: str = "allocated",
) -> tuple[Group, ...]:
    """Return the groups that have bytes after a step, the most first.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        step: -1 for the start.
        taken: names of groups that are taken away, with all that is in them.
        name: of the curve: ``allocated``, ``requested`` or ``active``.
    """
    row, group, names = members
    away = set(taken)
    is_away = np.array([text in away for text in names], np.bool_)
    gone = np.zeros(len(history.allocations), np.bool_)
    gone[row[is_away[group]]] = True
    live = np.flatnonzero((live_at(history, step, name) & ~gone)[row])
    row, group = row[live], group[live]
    held, requested = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    np.add.at(held, group, _weights(history, name)[row])
    np.add.at(requested, group, history.allocations.size[row])
    count = np.bincount(group, minlength=len(names))
    order = np.lexsort((np.arange(len(names)), -held))
    return tuple(
        Group(names[i], int(held[i]), int(requested[i]), int(count[i])) for i in order if count[i]
    )


def peaks_without(
    curve: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: int,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    weight: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of a curve without each group, and the first step that has it.

    Args:
        curve: int64, shape (n_events + 1,); index 0 is the start.
        group: int64, shape (n,): a number below ``groups`` for each member.
        groups: how many there are.
        begin, end: int64, shape (n,): a member is live after step s if ``begin <= s < end``.
        weight: int64, shape (n,): its bytes in the curve.

    Returns:
        int64, shape (groups,), in bytes, and int64, shape (groups,), steps.
    """
    points = len(curve)
    there = np.flatnonzero((begin < end) & (begin + 1 < points))
    ends = there[end[there] + 1 < points]
    # Each group is there from the start, with nothing, so that it has a span of its own.
    key = np.concatenate(
        [
            np.arange(groups, dtype=np.int64) * points,
            group[there] * points + begin[there] + 1,
            group[ends] * points + end[ends] + 1,
        ]
    )
    change = np.concatenate([np.zeros(groups, np.int64), weight[there], -weight[ends]])
    order = np.argsort(key, kind="stable")
    key, total = key[order], np.cumsum(change[order])
    last = np.append(np.flatnonzero(key[1:] != key[:-1]), len(key) - 1) if groups else order
    key, total = key[last], total[last]
    of, low = np.divmod(key, points)
    starts = np.searchsorted(of, np.arange(groups))
    # The sum runs on through all groups; what it was where a group begins is none of its own.
    ended = np.append(0, total[starts[1:] - 1]) if groups else starts
    held = total - ended[of]
    following = np.append(low[1:], points)
    high = np.where(following > low, following, points)
    most, place = range_maxima(curve, low, high)
    rest = most - held
    peaks = np.maximum.reduceat(rest, starts) if groups else rest
    hits = np.flatnonzero(rest == peaks[of])
    first = hits[np.searchsorted(of[hits], np.arange(groups))]
    return peaks, place[first] - 1


def _spans(
    history: DeviceHistory, row: NDArray[np.int64], curve: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return when some allocations begin and end to count in a curve, and their bytes in it."""
    rows = history.allocations
    end = rows.free_requested_step if curve == "allocated" else rows.free_step
    return rows.alloc_step[row], end[row], _weights(history, curve)[row]


def _weights(history: DeviceHistory, curve: str) -> NDArray[np.int64]:
    rows = history.allocations
    return rows.size if curve == "requested" else rows.block_size


def _in_stages(history: DeviceHistory) -> Members:
    """Every stage by its name with all that was made in it, in the stages inside it too."""
    stages, born = history.stages, history.allocations.alloc_step
    in_trace = np.flatnonzero(born > START)
    in_order = in_trace[np.argsort(born[in_trace], kind="stable")]
    steps = born[in_order]
    spans = list(
        zip(stages.name, stages.start_step.tolist(), stages.end_step.tolist(), strict=True)
    )
    covered = np.zeros(len(steps) + 1, np.int64)
    by_name: dict[str, list[tuple[int, int]]] = {}
    for name, start, end in spans:
        low, high = np.searchsorted(steps, [max(start, 0), max(end, 0)]).tolist()
        covered[low] += 1
        covered[high] -= 1
        by_name.setdefault(name, []).append((low, high))
    rows: list[NDArray[np.int64]] = []
    numbers: list[NDArray[np.int64]] = []
    names: list[str] = []
    for name, ranges in by_name.items():
        inside = np.concatenate([np.arange(low, high) for low, high in _joined(ranges)])
        rows.append(in_order[inside])
        numbers.append(np.full(len(inside), len(names), np.int64))
        names.append(name)
    outside = in_order[np.cumsum(covered)[:-1] == 0]
    for name, chosen in (
        (OUTSIDE_STAGES, outside),
        (BEFORE_RECORDING, np.flatnonzero(born == START)),
    ):
        rows.append(chosen)
        numbers.append(np.full(len(chosen), len(names), np.int64))
        names.append(name)
    return np.concatenate(rows).astype(np.int64), np.concatenate(numbers), names


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that overlap, as stages of one name do that are nested in one another."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined
