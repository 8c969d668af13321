"""The peak of a curve without each of many groups of allocations, and where it is.

Taking a group away changes where the peak is. Between two changes of the group its bytes stay
the same, so the rest is highest where the full curve is: one maximum for each change.

Most of that can be skipped. The new peak is at least the peak minus what the group holds there, so
events where the curve is lower than that cannot be the new peak, and a group that holds nothing at
the peak leaves it where it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.curves import peak_without
from snapreport.figures.range_maxima import range_maxima
from snapreport.native.sorting import stable_order

_LARGE, _FEW = 16, 24
"""For groups that hold more than one part in _LARGE of the peak, little of the curve can be
skipped: up to _FEW of them are each added up over the entire recording instead."""


def peaks_without(
    curve: NDArray[np.int64],
    group: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    weight: NDArray[np.int64],
    held: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of a curve without each group, and the first event that has it.

    Args:
        curve: int64, shape (n_events + 1,); index 0 is the start.
        group: int64, shape (n,): the number of each member's group.
        begin, end: int64, shape (n,): a member is live after event s if ``begin <= s < end``.
        weight: int64, shape (n,): its bytes in the curve, none of them negative.
        held: int64, shape (n_groups,): bytes of each group that are live at the curve's first
            maximum.

    Returns:
        int64, shape (n_groups,), in bytes, and int64, shape (n_groups,), events.
    """
    top = int(curve.argmax())
    whole = int(curve[top])
    peaks, events = np.full(len(held), whole, np.int64), np.full(len(held), top - 1, np.int64)
    large = np.flatnonzero(held > whole // _LARGE)[:_FEW]
    for one in large.tolist():
        own = np.flatnonzero(group == one)
        peaks[one], events[one] = peak_without(curve, weight[own], begin[own], end[own])
    left = held > 0
    left[large] = False
    if not left.any():
        return peaks, events
    # Only where the curve is high enough: events are renumbered.
    high = curve >= whole - int(held[left].max())
    at = np.flatnonzero(high)
    before = np.zeros(len(curve) + 1, np.int64)  # how many such events come before each place
    np.cumsum(high, out=before[1:])
    own = np.flatnonzero(left[group])
    number = np.cumsum(left) - 1
    first, last = (before[np.clip(column[own] + 1, 0, len(curve))] for column in (begin, end))
    lowest, place = _peaks_without_all(
        curve[at], number[group[own]], int(left.sum()), first, last, weight[own]
    )
    peaks[left], events[left] = lowest, at[place] - 1
    return peaks, events


def _peaks_without_all(
    curve: NDArray[np.int64],
    group: NDArray[np.int64],
    groups: int,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    weight: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of a curve without each of some groups, and the first place that has it.

    Args:
        curve: int64, shape (n,), never empty.
        group: int64, shape (m,): a number below ``groups`` for each member.
        groups: how many there are, at least one.
        begin, end: int64, shape (m,): a member counts at the places ``begin <= place < end``.
        weight: int64, shape (m,).
    """
    points = len(curve)
    there = np.flatnonzero(begin < end)
    ends = there[end[there] < points]
    # Each group is there from the start, with nothing, so that it has a span of its own.
    key = np.concatenate(
        [
            np.arange(groups, dtype=np.int64) * points,
            group[there] * points + begin[there],
            group[ends] * points + end[ends],
        ]
    )
    change = np.concatenate([np.zeros(groups, np.int64), weight[there], -weight[ends]])
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
