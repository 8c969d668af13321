"""Sorts long columns of integers, tells them apart and sweeps over them faster than NumPy alone.

Columns here have small numbers (call sites, kinds), or numbers of fewer than 64 bits (events,
addresses). NumPy has a radix sort for up to 16 bits, and sorts integers much faster than it finds
their order; and small numbers can be told apart without sorting. Some of its functions (``unique``,
``isin``, ``median``) import masked arrays first, which takes longer than most recordings do here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.library import NO_ROOM, address, checked, library, taken

Column: TypeAlias = NDArray[np.int64]
Spans: TypeAlias = tuple[Column, Column, Column]
"""Weights, each over ``begin <= event < end``; int64, shape (n,): weights, begins and ends."""

_BITS = 63
_SPREAD = 4
"""Numbers whose range is more than this many times their count are sorted, not counted."""


def stable_order(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order that sorts integers, equal ones as they come: a stable argsort.

    Args:
        keys: integers, shape (n,).
    """
    n = len(keys)
    if n < 2:
        return np.arange(n, dtype=np.int64)
    if (keys[1:] >= keys[:-1]).all():  # such as events, of which each came after the one before
        return np.arange(n, dtype=np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low <= np.iinfo(np.uint16).max:
        wide = keys.dtype.itemsize > 1 or low < 0
        keys = (np.subtract(keys, low, dtype=np.int64) if wide else keys).astype(np.uint16)
    bits = _bits(n)
    if keys.dtype == np.uint16 or (high - low).bit_length() + bits > _BITS:
        order: NDArray[np.int64] = np.argsort(keys, kind="stable")
        return order
    # The key and then the place in one number: they all differ, and sorting keeps both.
    packed: NDArray[np.int64] = np.subtract(keys, low, dtype=np.int64)
    packed <<= bits
    packed |= np.arange(n, dtype=np.int64)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def _bits(n: int) -> int:
    """Return how many bits the numbers below ``n`` need."""
    return (n - 1).bit_length()


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct integers of a column, ascending, and the place of each value among them.

    Like ``np.unique(values, return_inverse=True)``.

    Args:
        values: integers, shape (n,).

    Returns:
        of the same type, shape (m,); and int64, shape (n,).
    """
    if not len(values):
        return values[:0].copy(), np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1].copy(), np.zeros(len(values), np.int64)
    if (numbered := _numbered(values)) is not None:
        return numbered
    if high - low < _SPREAD * len(values):
        above, there = _there(values, low, high)
        found = np.flatnonzero(there)
        number = np.cumsum(there, dtype=np.int64)
        number -= 1
        return (found + low).astype(values.dtype), number[above]
    order = stable_order(values)
    sorted_ = values[order]
    first = begins_run(sorted_)
    number = np.cumsum(first, dtype=np.int64)
    number -= 1
    place = np.empty(len(values), np.int64)
    place[order] = number
    return sorted_[first], place


_LONG = 4096
"""Shorter arrays are not worth calling the library."""
_FEW = 1 << 16
"""More distinct numbers than this are sorted: a table of them does not fit in a fast cache."""


def _numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """Do as ``distinct()`` if a column is long and has few distinct values; else return None."""
    if len(values) < _LONG or values.dtype == np.uint64:
        return None
    found = number(values, min(_FEW, 1 << _bits(len(values))))
    if found is None:
        return None
    met, place = found
    order = np.argsort(met)
    rank = np.empty(len(met), np.int64)
    rank[order] = np.arange(len(met))
    return met[order].astype(values.dtype), rank.take(place)


def number(
    values: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Number distinct values in order of first appearance.

    Args:
        values: int64, shape (n,).
        most: how many there may be.

    Returns:
        int64, shape (m,), the values; and int64, shape (n,), the number of each. None if there
        are more than ``most``, or they were chosen to take long.
    """
    (column,) = taken(np.int64, len(values), values)
    met, place = np.empty(most, np.int64), np.empty(len(column), np.int64)
    table = np.empty(2 << most.bit_length(), np.int32)
    n = library().number(column, len(column), table, len(table), met, most, place)
    return None if n == NO_ROOM else (met[: checked(n)], place)


def alike(
    columns: Sequence[NDArray[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Number rows in order of first appearance, with one number for those alike in all columns.

    Args:
        columns: of integers, at least one, each of shape (n,).

    Returns:
        int64, shape (m,), ascending: the first row of each number; and int64, shape (n,): the
        number of each row. None if they were chosen to take long.
    """
    n = len(columns[0])
    taking = taken(np.int64, n, *columns)
    places = np.array([address(column) for column in taking], np.uintp)
    first, place = np.empty(n, np.int64), np.empty(n, np.int64)
    table = np.empty(2 << n.bit_length(), np.int32)
    found = library().alike(address(places), len(taking), n, table, len(table), first, place)
    return None if found == NO_ROOM else (first[: checked(found)].copy(), place)


def appear(values: NDArray[np.int32], most: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number small integers in order of first appearance; -1 stays.

    Args:
        values: int32, shape (n,), from -1 on.
        most: all are less than this.

    Returns:
        int32, shape (m,), the values; and int32, shape (n,), the number of each.

    Raises:
        ValueError: a value is out of range.
    """
    (column,) = taken(np.int32, len(values), values)
    table, met, place = (np.empty(n, np.int32) for n in (most, most, len(column)))
    n = checked(library().appear(column, len(column), table, most, met, place))
    return met[:n], place


def begins_run(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Say for each number whether it differs from the one before it; bool, shape (n,)."""
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def unique(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct integers of a column, ascending.

    Args:
        values: integers, shape (n,).
    """
    if len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < _SPREAD * len(values):
            return (np.flatnonzero(_there(values, low, high)[1]) + low).astype(values.dtype)
    ordered = np.sort(values)
    found: NDArray[Any] = ordered[begins_run(ordered)]
    return found


def _there(
    values: NDArray[Any], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return each value less the lowest, and bool: which of these differences occur."""
    above = np.subtract(values, low, dtype=np.int64)  # a narrow type may not hold it
    there = np.zeros(high - low + 1, np.bool_)
    there[above] = True
    return above, there


def is_among(values: NDArray[Any], others: NDArray[Any] | Sequence[int]) -> NDArray[np.bool_]:
    """Say for each integer whether it is one of the others; bool, shape of ``values``."""
    if not len(others):
        return np.zeros(len(values), np.bool_)
    ordered = np.sort(np.asarray(others))
    if len(ordered) == 1:
        alone: NDArray[np.bool_] = values == ordered[0]
        return alone
    place = np.searchsorted(ordered, values)
    found: NDArray[np.bool_] = ordered[np.minimum(place, len(ordered) - 1)] == values
    return found


def count_until(bounds: Column, events: int) -> NDArray[np.int32]:
    """Count the bounds up to each event, so that no row has to search for its own.

    Args:
        bounds: int64, ascending, none before -1, the start, or after ``events``.
        events: how many events there are.

    Returns:
        int32, shape (events + 2,): for the start, each event, and the one after the last.
    """
    lengths = np.diff(bounds, prepend=-1, append=events + 1)
    return np.repeat(np.arange(len(bounds) + 1, dtype=np.int32), lengths)


def sum_groups(group: NDArray[Any], weights: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Add up the weights of each group.

    Args:
        group: integers, shape (n,): which group each weight belongs to.
        weights: int64, shape (n,).
        groups: how many there are.

    Returns:
        int64, shape (groups,).
    """
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, group, weights)  # not bincount, which adds floats
    return sums


def median(values: NDArray[Any]) -> float:
    """Return the middle number, or the mean of the two in the middle.

    Args:
        values: shape (n,), never empty.
    """
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    low, high = np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1].tolist()
    return (float(low) + float(high)) / 2


def whole_median(values: NDArray[np.int64] | Sequence[int]) -> int:
    """Return the middle integer, or the mean of the two in the middle, rounded down.

    Args:
        values: shape (n,), never empty.
    """
    middle = [(len(values) - 1) // 2, len(values) // 2]
    low, high = np.partition(np.asarray(values, np.int64), middle)[middle].tolist()
    return int(low + high) // 2


def medians(values: NDArray[np.int64], group: NDArray[Any], groups: int) -> NDArray[np.int64]:
    """Return the median of each group, rounded down, 0 for an empty group.

    Args:
        values: int64, shape (n,), none negative.
        group: integers, shape (n,): which group each value belongs to.
        groups: how many there are.

    Returns:
        int64, shape (groups,).
    """
    above = int(values.max(initial=0)) + 1
    if above * groups < 1 << _BITS:  # both in one number
        ordered = np.sort(group.astype(np.int64) * above + values) % above
    else:
        order = stable_order(values)
        ordered = values[order[stable_order(group[order])]]
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    some = count > 0
    found = np.zeros(groups, np.int64)
    low = ordered[(first + (count - 1) // 2)[some]]
    found[some] = low + (ordered[(first + count // 2)[some]] - low) // 2
    return found


# Sweeps over the events of a recording: curves, and segments with what lies in them.

SEGMENT_COLUMNS = 8
"""Of a segment's life: address, its end, start, end, stream, family, final row, expandable."""

SEGMENT_KINDS = {"segment_alloc": 1, "segment_free": 2, "segment_map": 3, "segment_unmap": 4}
"""The number of each of these events in ``undo_segments``."""

_STRETCH = 256
"""Values of a curve that ``Outline`` has one top of, as in sweeps.c."""


ODD = 4
"""Kinds of events that do not fit: an alloc of live memory, a free of dead memory, a second
request, and a completion without a request."""


def pair(
    action: NDArray[np.int16], place: Column, size: Column, code: NDArray[np.int8], places: int
) -> tuple[Column, Column, Column]:
    """Pair allocations with their frees.

    Args:
        action, place, size: of each event; shape (n_events,). A place says which address it is.
        code: int8: which actions are allocs (0), requests (1) and completions (2); else -1.
        places: how many addresses there are.

    Returns:
        int64, shape (4, n): the place, alloc, request and completion of each allocation, those from
        before the recording first, then in the order of allocs; the last three are events, -1 for
        none. int64: events of frees that fit none. And int64: how many frees are of another size
        than their alloc; how many events have each code; and for each of ODD how many there are,
        and the place and event of the first one at the first place.

    Raises:
        ValueError: an action or a place is out of range.
    """
    n = len(action)
    rows, leftover = np.empty((4, places + n), np.int64), np.empty(n, np.int64)
    live, found = np.empty(places, np.int32), np.empty(7 + 3 * ODD, np.int64)
    events = (*taken(np.int16, n, action), *taken(np.int64, n, place, size))
    checked(library().pair(*events, n, code, len(code), places, live, rows, leftover, found))
    before, others, left = found[:3].tolist()
    return rows[:, places - before : places + others], leftover[:left], found[3:]


def count_before(group: Column, groups: int) -> NDArray[np.int32]:
    """Count how many rows before each one are of its group; int32, shape (n,).

    Raises:
        ValueError: a group is out of range.
    """
    counts, before = np.empty(groups, np.int32), np.empty(len(group), np.int32)
    (column,) = taken(np.int64, len(group), group)
    checked(library().count_before(column, len(group), counts, groups, before))
    return before


def by_kind(values: Column, events: Sequence[Column], group: NDArray[np.int32]) -> Column:
    """Order one number per event by what happened there and at the event before.

    Args:
        values: int64, shape (n_events,).
        events: at which each row was born, requested and freed; int64, shape (n,). Where two meet,
            the first of these decides.
        group: int32, shape (n,), none negative: of rows to which alike things happen.

    Returns:
        int64, shape (n_events,): those of equal pairs of kinds and group together, in event order.

    Raises:
        ValueError: a group is negative.
    """
    n, groups = len(values), int(group.max(initial=0)) + 1
    what, ordered = np.empty(n, np.int32), np.empty(n, np.int64)
    starts = np.empty(_KINDS_OF_EVENTS**2 * groups + 1, np.int32)
    (column,), (of_rows,) = taken(np.int64, n, values), taken(np.int32, len(group), group)
    rows = (*taken(np.int64, len(group), *events), of_rows, len(group), groups)
    checked(library().by_kind(column, n, *rows, what, starts, ordered))
    return ordered


_KINDS_OF_EVENTS = 4
"""Of ``by_kind``: birth, request, free, and any other."""


def sum_live(weight: Column, begin: Column, end: Column, events: int) -> Column:
    """Add up weights over ``begin <= event < end``.

    Args:
        weight, begin, end: int64, shape (n,); events from -1 to ``events``.
        events: how many events there are.

    Returns:
        int64, shape (events + 1,); index 0 is the start.

    Raises:
        ValueError: an event is out of range.
    """
    sums = np.zeros(events + 2, np.int64)
    columns = taken(np.int64, len(weight), weight, begin, end)
    checked(library().sum_live(*columns, len(weight), events, sums))
    return sums[: events + 1]


class Outline:
    """A curve with the tops of its stretches, from which a peak without some weights is found."""

    def __init__(self, curve: Column) -> None:
        """Find the tops.

        Args:
            curve: int64, shape (n_events + 1,), index 0 is the start.
        """
        (self.curve,) = taken(np.int64, len(curve), curve)
        self._tops = np.empty(-(-len(curve) // _STRETCH), np.int64)
        self._far = checked(library().tops(self.curve, len(curve), self._tops))

    @property
    def top(self) -> int:
        """The first event that has the most."""
        return int(self._tops[self.curve[self._tops].argmax()]) - 1

    def peak_without(self, *spans: Spans) -> tuple[int, int]:
        """Return the peak of the curve minus some weights, and the first event that has it.

        Args:
            spans: the weights; events from -1 to ``n_events``.

        Raises:
            ValueError: an event is out of range.
        """
        weight, begin, end = spans[0] if len(spans) == 1 else _joined(spans)
        n, found = len(weight), np.empty(2, np.int64)
        columns = (*taken(np.int64, n, weight, begin, end), n, found)
        curve = (self.curve, len(self.curve), self._tops, self._far)
        checked(library().peak_without(*curve, *columns))
        return int(found[0]), int(found[1]) - 1


def _joined(spans: Sequence[Spans]) -> Spans:
    none = np.empty(0, np.int64)
    weight, begin, end = map(np.concatenate, zip((none,) * 3, *spans, strict=True))
    return weight, begin, end


def weigh(values: Column, times: Column) -> tuple[int, int, int]:
    """Return the least and the most of a curve, and the sum of its values times how long they last.

    A time before the latest so far counts as the latest: no event has a negative duration.

    Args:
        values: int64, shape (n + 1,).
        times: int64, shape (n,).

    Raises:
        ValueError: there are no times.
    """
    n, found = len(times), np.empty(4, np.int64)
    columns = (*taken(np.int64, n + 1, values), *taken(np.int64, n, times))
    checked(library().weigh(*columns, n, found))
    # Bytes times microseconds pass 2**63 within minutes of 100 GB, so in two halves.
    least, most, low, high = found.tolist()
    return least, most, (high << 20) + low


def locate(
    lives: tuple[Column, Column, Column, Column], ends_first: Column, events: Column, wanted: Column
) -> NDArray[np.int32]:
    """Return the life that holds each address after its event.

    Args:
        lives: the address, size, start and end of each; int64, shape (n,), in order of starts.
        ends_first: int64, shape (n,): their rows in order of ends.
        events, wanted: int64, shape (m,): events, ascending, and addresses.

    Returns:
        int32, shape (m,): rows of the lives, -1 for none.

    Raises:
        ValueError: a life ends before it begins, or a row is out of range.
    """
    n, m = len(ends_first), len(events)
    found = np.empty(m, np.int32)
    columns, asked = taken(np.int64, n, *lives, ends_first), taken(np.int64, m, events, wanted)
    checked(library().locate(*columns, n, *asked, m, found))
    return found


def fragmentation(
    rows: tuple[Column, Column, Column],
    places: tuple[NDArray[np.int32], NDArray[np.int32]],
    lives: tuple[Column, Column, Column, Column],
    events: int,
) -> Column:
    """Add up what segments waste after each event.

    Args:
        rows: the event of each allocation's birth and of its end, and its block's bytes; int64,
            shape (n,), in birth order.
        places: the segment of each one at its birth, and at its end; int32, shape (n,).
        lives: the start, end and size of each segment, and the bytes used in it just before it
            began; int64, shape (m,).
        events: how many events there are.

    Returns:
        int64, shape (events + 1,), in bytes.

    Raises:
        ValueError: an event or segment is out of range, or births are not in order.
    """
    n, n_lives = len(rows[0]), len(lives[0])
    used, sums = np.empty(n_lives, np.int64), np.zeros(events + 2, np.int64)
    head, following = np.empty(events, np.int32), np.empty(n, np.int32)
    done = library().fragmentation(
        *(*taken(np.int64, n, *rows), *taken(np.int32, n, *places), n, events),
        *(*taken(np.int64, n_lives, *lives), n_lives, used, head, following, sums),
    )
    checked(done)
    return sums[: events + 1]


def undo_segments(
    final: Column, families: int, events: tuple[NDArray[np.int8], Column, Column, Column, Column]
) -> tuple[Column, int, int]:
    """Undo the events of segments, the last first.

    Args:
        final: int64, shape (n, SEGMENT_COLUMNS): the segments at the end, in address order, no two
            of which overlap.
        families: the first number that is not the family of any.
        events: kind, as of SEGMENT_KINDS, event, address, size and stream of each, the last first;
            int8 and int64, shape (m,).

    Returns:
        int64, shape (k, SEGMENT_COLUMNS): the lives; how many families they have, and how many
        events did not fit.

    Raises:
        ValueError: a segment lies beyond any memory.
    """
    n, m = len(final), len(events[0])
    (ends,) = taken(np.int64, n * SEGMENT_COLUMNS, final.ravel())
    room = n + 2 * m
    found, counts = np.empty((room, SEGMENT_COLUMNS), np.int64), np.array([families, 0], np.int64)
    made = library().segments(
        *(ends, n, *taken(np.int8, m, events[0]), *taken(np.int64, m, *events[1:]), m),
        *(found, room, counts),
    )
    return found[: checked(made)], int(counts[0]), int(counts[1])


def holes(
    at: Column,
    blocks: tuple[Column, Column, Column, Column, Column],
    segments: tuple[Column, Column, Column, Column, Column, Column],
) -> tuple[Column, Column]:
    """Find the hole that each block was placed in.

    Args:
        at: int64, shape (k,): distinct addresses, ascending: all at which blocks begin, and any.
        blocks: the place in ``at`` of each, its birth and its death; and the rows in the order of
            births and of deaths. int64, shape (n,).
        segments: the address of each and its end in memory, its birth and its death; and the rows
            in the order of births and of deaths. int64, shape (m,).

    Returns:
        int64, shape (n,): each block's hole, 0 for those from before the recording; and int64,
        shape (n,): for those the least distance to what is above, 0 for the others.

    Raises:
        ValueError: a place or a row is out of range.
    """
    n, m = len(blocks[0]), len(segments[0])
    hole, bound = np.zeros(n, np.int64), np.zeros(n, np.int64)
    count, ranged = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    done = library().holes(
        *(*taken(np.int64, len(at), at), len(at), *taken(np.int64, n, *blocks), n),
        *(*taken(np.int64, m, *segments), m, count, ranged, hole, bound),
    )
    checked(done)
    return hole, bound
