"""Curves and what lies in segments, event by event: what ``native.sweeps`` returns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import START
from snapreport.model.snapshot import NO_ID

Column = NDArray[np.int64]


def sum_live(weight: Column, begin: Column, end: Column, events: int) -> Column:
    """Add up weights over ``begin <= event < end``; sums wrap around at 64 bits."""
    sums = np.zeros(events + 1, np.int64)
    for bytes_, first, last in zip(weight, begin.tolist(), end.tolist(), strict=True):
        if not (START <= first <= events and START <= last <= events):
            raise ValueError("an event is out of range")
        sums[first + 1 :] += bytes_
        sums[last + 1 :] -= bytes_
    return sums


def weigh(values: Column, times: Column) -> tuple[int, int, int]:
    """Return the least, the most, and the sum of values times how long they last."""
    if not len(times):
        raise ValueError("there are no times")
    weighted, now = 0, int(times[0])
    for value, time in zip(values[1:].tolist(), times[1:].tolist(), strict=False):
        weighted += value * (max(time, now) - now)
        now = max(time, now)
    return int(values.min()), int(values.max()), weighted


def locate(
    lives: tuple[Column, Column, Column, Column], ends_first: Column, events: Column, wanted: Column
) -> NDArray[np.int32]:
    """Return the life that holds each address after its event, -1 where none does."""
    address, size, start, end = (column.tolist() for column in lives)
    # At one event, what ends goes before what begins.
    changes = [(end[row], 0, k, row) for k, row in enumerate(ends_first.tolist())]
    changes += [(event, 1, row, row) for row, event in enumerate(start)]
    changes.sort(reverse=True)
    there: list[int] = []
    starts: list[int] = []
    found = []
    for event, one in zip(events.tolist(), wanted.tolist(), strict=True):
        while changes and changes[-1][0] <= event:
            _, begins, _, row = changes.pop()
            place = bisect_left(starts, address[row])
            if begins:
                starts.insert(place, address[row])
                there.insert(place, row)
            else:
                del starts[place], there[place]
        place = bisect_right(starts, one) - 1
        row = there[place] if place >= 0 else NO_ID
        found.append(row if place >= 0 and one < address[row] + size[row] else NO_ID)
    return np.array(found, np.int32)


def fragmentation(
    rows: tuple[Column, Column, Column],
    places: tuple[NDArray[np.int32], NDArray[np.int32]],
    lives: tuple[Column, Column, Column, Column],
    events: int,
) -> Column:
    """Add up what segments waste after each event: what is not used of those in use."""
    start, end, size, used = (column.tolist() for column in lives)
    sums = np.zeros(events + 2, np.int64)

    def waste(segment: int) -> int:
        return size[segment] - used[segment] if used[segment] > 0 else 0

    def change(segment: int, event: int, by: int) -> None:
        before = waste(segment)
        used[segment] += by
        sums[event + 1 :] += waste(segment) - before

    for segment in range(len(size)):
        sums[start[segment] + 1 :] += waste(segment)
    moves = []
    for row, (born, freed, block) in enumerate(zip(*(c.tolist() for c in rows), strict=True)):
        if freed > born and places[0][row] != NO_ID:
            moves.append((born, 0, row, int(places[0][row]), block))
        if born < freed < events and places[1][row] != NO_ID:
            moves.append((freed, 1, row, int(places[1][row]), -block))
    for event, _, _, segment, by in sorted(moves):
        change(segment, event, by)
    for segment in range(len(size)):
        sums[end[segment] + 1 :] -= waste(segment)
    return sums[: events + 1]
