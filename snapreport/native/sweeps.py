"""Sweeps over the events of a recording: curves, and segments with what lies in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.native.library import checked, library, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

SEGMENT_COLUMNS = 8
"""Of a segment's life: address, its end, start, end, stream, family, final row, expandable."""

SEGMENT_KINDS = {"segment_alloc": 1, "segment_free": 2, "segment_map": 3, "segment_unmap": 4}
"""The number of each of these events in ``undo_segments``."""


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
        at: int64, shape (k,): the distinct addresses at which blocks begin, ascending.
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
