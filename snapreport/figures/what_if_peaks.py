"""How far the peak falls when some allocations are taken away: exactly, for every group at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites
from snapreport.figures.curves import peak_without
from snapreport.figures.grouping import (
    BEFORE_RECORDING,
    OUTSIDE_STAGES,
    group_up,
    label_allocations,
)
from snapreport.figures.peaks_without import peaks_without
from snapreport.ground.errors import NotEnoughMemoryError, PatternError
from snapreport.ground.patterns import compile_pattern
from snapreport.ground.units import format_count
from snapreport.model.answer_tables import Group
from snapreport.model.category_rules import Rule
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.stacks import StackTable
from snapreport.model.what_if import WHAT_IF_GROUPINGS, WhatIf
from snapreport.native.sorting import stable_order, sum_groups, unique

_MOST_AROUND = 64
"""Stages around an allocation, on average, that a what-if of stages takes in."""
_ALWAYS_AROUND = 2**22
"""Pairs of an allocation and a stage that it takes in, however few allocations there are."""

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
        rules: for ``category``, instead of the built-in ones.

    Raises:
        NotEnoughMemoryError: by stage, and far too many are around each other.
        ValueError: ``by`` is not one of them.
    """
    if by not in WHAT_IF_GROUPINGS:
        raise ValueError(f"by is {by!r}, not one of {', '.join(WHAT_IF_GROUPINGS)}")
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
    """Return the peak without each of some groups; the group that lowers it most comes first.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        curve: int64, shape (n_events + 1,), index 0 is the start.
        name: of the curve: ``allocated``, ``requested`` or ``active``.
    """
    row, group, names = members
    begin, end, weight = _spans(history, row, name)
    top = int(curve.argmax()) - 1
    live = (begin <= top) & (top < end)
    held = sum_groups(group[live], weight[live], len(names))
    count = np.bincount(group, minlength=len(names))
    whole = int(curve[top + 1])
    peaks, events = peaks_without(curve, group, begin, end, weight, held)
    order = np.lexsort((-held, peaks))
    return tuple(
        WhatIf(names[i], int(peaks[i]), int(events[i]), whole - int(peaks[i]), int(held[i]), n)
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
    """Return the peak without all groups that match a pattern.

    Args:
        history: the device.
        members: the groups, as from ``find_members``.
        curve: int64, shape (n_events + 1,), index 0 is the start.
        patterns: parts of names, globs, or ``/regex/``.
        name: of the curve: ``allocated``, ``requested`` or ``active``.

    Raises:
        PatternError: one of them is not a regular expression, or matches nothing.
    """
    row, group, names = members
    taken = dict.fromkeys(matching_names(names, patterns))
    rows = unique(row[np.array([text in taken for text in names], np.bool_)[group]])
    begin, end, weight = _spans(history, rows, name)
    peak, event = peak_without(curve, weight, begin, end)
    top = int(curve.argmax()) - 1
    return WhatIf(
        name=", ".join(taken),
        peak_bytes=peak,
        peak_event=event,
        falls=int(curve[top + 1]) - peak,
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
    if len(row) == len(rows) and (np.diff(row) == 1).all():  # all rows: no copy needed
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
