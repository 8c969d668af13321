"""Call what was compiled from ``sweeps.c``: sweeps over the steps of a recording.

The library is an option: each function returns None where there is none, or where something
unusual is met, and its caller then does the same in Python, more slowly.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapreport.history.action_codes import code_actions
from snapreport.libraries import Shape, open_library
from snapreport.model.history import Events
from snapreport.model.segment_lives import SegmentLives
from snapreport.sorting import distinct, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEGMENT_COLUMNS = 8
"""Of a segment's life: address, its end, start, end, stream, family, final row, expandable."""
_SEGMENT_KINDS = {"segment_alloc": 1, "segment_free": 2, "segment_map": 3, "segment_unmap": 4}
_MOST = 2**62
"""Addresses and sizes below it have sums that fit."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return the library made from ``sweeps.c``, None where there is none to use."""
    p, n, done = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    shapes: dict[str, Shape] = {
        "snapreport_sum_live": (done, p, p, p, n, n, p),
        "snapreport_weigh": (None, p, p, n, p),
        "snapreport_peak_without": (done, p, n, p, p, p, n, p, p),
        "snapreport_peaks_without": (done, p, n, p, p, p, p, n, p, n, p, p, p),
        "snapreport_locate": (done, p, p, p, p, p, n, p, p, n, p),
        "snapreport_fragmentation": (done, p, p, p, p, p, n, n, p, p, p, p, n, p, p, p, p),
        "snapreport_segments": (n, p, n, p, p, p, p, p, n, p, n, p),
        "snapreport_holes": (done, p, n, p, p, p, p, p, n, p, p, p, p, p, p, n, p, p, p),
    }
    path = Path(__file__).with_name("_sweeps.so")
    library: ctypes.CDLL | None = open_library(
        ctypes.CDLL, path, "snapreport_sweeps_version", shapes
    )
    return library


def sum_live(
    weight: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64], events: int
) -> NDArray[np.int64] | None:
    """Do as ``curves.sum_live``."""
    library = _library()
    if library is None:
        return None
    kept = _int64(weight, begin, end)
    sums = np.zeros(events + 2, np.int64)
    done = library.snapreport_sum_live(*map(_at, kept), len(kept[0]), events, _at(sums))
    return sums[: events + 1] if done else None


def weigh(
    curve: NDArray[np.int64], times: NDArray[np.int64]
) -> tuple[int, int, tuple[int, int]] | None:
    """Do as ``statistics.weigh``."""
    library = _library()
    if library is None or not len(times) or len(curve) != len(times) + 1:
        return None
    kept, found = _int64(curve, times), np.empty(4, np.int64)
    library.snapreport_weigh(*map(_at, kept), len(times), _at(found))
    least, most, low, high = found.tolist()
    return least, most, (low, high)


def peak_without(
    curve: NDArray[np.int64],
    weight: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
) -> tuple[int, int] | None:
    """Do as ``curves.peak_without``."""
    library = _library()
    if library is None:
        return None
    points, *kept = _int64(curve, weight, begin, end)
    sums, found = np.zeros(len(points) + 1, np.int64), np.empty(2, np.int64)
    done = library.snapreport_peak_without(
        _at(points), len(points), *map(_at, kept), len(kept[0]), _at(sums), _at(found)
    )
    return (int(found[0]), int(found[1])) if done else None


def peaks_without(
    curve: NDArray[np.int64],
    spans: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    group: NDArray[np.int64],
    groups: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Do as ``curves.peak_without`` for each of some groups.

    Args:
        curve: int64, shape (n_events + 1,).
        spans: the weight, begin and end of each member; int64, shape (n,).
        group: int64, shape (n,): the number of each member's group.
        groups: int64, shape (n_groups,): the numbers that are asked for.

    Returns:
        int64, shape (n_groups,), the peaks and their steps; None where it has to be done in Python.
    """
    library = _library()
    if library is None:
        return None
    points, *kept, asked = _int64(curve, *spans, group, groups)
    sums = np.zeros(len(points) + 1, np.int64)
    peaks, places = np.empty(len(asked), np.int64), np.empty(len(asked), np.int64)
    done = library.snapreport_peaks_without(
        _at(points),
        len(points),
        *map(_at, kept),
        len(group),
        _at(asked),
        len(asked),
        *map(_at, (sums, peaks, places)),
    )
    return (peaks, places - 1) if done else None


def locate(
    lives: SegmentLives, steps: NDArray[np.int64], addresses: NDArray[np.int64]
) -> NDArray[np.int32] | None:
    """Do as ``allocator.locate``."""
    library = _library()
    if library is None:
        return None
    spans = _int64(lives.address, lives.size, lives.start_step, lives.end_step)
    ends_first = stable_order(spans[3])
    asked = _int64(steps, addresses)
    found = np.empty(len(steps), np.int32)
    done = library.snapreport_locate(
        *map(_at, (*spans, ends_first)), len(lives), *map(_at, asked), len(steps), _at(found)
    )
    return found if done else None


def fragmentation(
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    places: tuple[NDArray[np.int32], NDArray[np.int32]],
    lives: SegmentLives,
    before: NDArray[np.int64],
    events: int,
) -> NDArray[np.int64] | None:
    """Add up what segments waste after each step, as ``allocator.fragmentation_of`` does.

    Args:
        rows: the step of each allocation's birth and of its end, and its block's bytes; int64,
            shape (n,), in birth order.
        places: the segment of each one at its birth, and at its end; int32, shape (n,).
        lives: the segments.
        before: int64, shape (len(lives),), bytes used in each just before it began.
        events: how many steps there are.

    Returns:
        int64, shape (events + 1,), in bytes; None where it has to be done in Python.
    """
    library = _library()
    if library is None:
        return None
    n, n_lives = len(rows[0]), len(lives)
    of_rows: list[NDArray[Any]] = [*_int64(*rows)]
    of_rows += [np.ascontiguousarray(place, np.int32) for place in places]
    of_lives = _int64(lives.start_step, lives.end_step, lives.size, before)
    room: list[NDArray[Any]] = [np.empty(n_lives, np.int64), np.empty(events, np.int32)]
    room.append(np.empty(n, np.int32))
    sums = np.zeros(events + 2, np.int64)
    done = library.snapreport_fragmentation(
        *map(_at, of_rows), n, events, *map(_at, of_lives), n_lives, *map(_at, (*room, sums))
    )
    return sums[: events + 1] if done else None


def segments(
    final: NDArray[np.int64], families: int, other: Events
) -> tuple[NDArray[np.int64], int, int] | None:
    """Undo the events of segments, the last first, as ``segment_replay`` does.

    Args:
        final: int64, shape (n, SEGMENT_COLUMNS): the segments at the end, in address order.
        families: the first number that none of them has.
        other: the events, of which all but four kinds are left out.

    Returns:
        int64, shape (n, SEGMENT_COLUMNS): the lives; how many families they have, and how many
        events did not fit. None where it has to be done in Python.
    """
    library = _library()
    if library is None:
        return None
    kind = code_actions(other, _SEGMENT_KINDS, 0).astype(np.int8)
    chosen = np.flatnonzero(kind)[::-1]
    columns = _int64(other.step, other.addr, other.size, other.stream)
    kind, events = kind[chosen], [column[chosen] for column in columns]
    if not _all_small(events[1], events[2], final[:, 0], final[:, 1]):
        return None
    room = len(final) + 2 * len(chosen)
    found, counts = np.empty((room, SEGMENT_COLUMNS), np.int64), np.array([families, 0], np.int64)
    final = np.ascontiguousarray(final)
    n = library.snapreport_segments(
        _at(final),
        len(final),
        _at(kind),
        *map(_at, events),
        len(chosen),
        _at(found),
        room,
        _at(counts),
    )
    return None if n < 0 else (found[:n], int(counts[0]), int(counts[1]))


def holes(
    addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Do as ``holes.find_holes``; None also where two blocks are at one address at a time."""
    library = _library()
    if library is None:
        return None
    at, place = distinct(addr)
    blocks = _int64(place, born, died)
    ends = spans.address + spans.size
    around = _int64(spans.address, ends, spans.start_step, spans.end_step)
    if not _all_small(at, *around[:2]):
        return None
    orders = [stable_order(steps) for steps in (*blocks[1:], *around[2:])]
    hole, bound = np.zeros(len(addr), np.int64), np.zeros(len(addr), np.int64)
    owner = np.empty(len(at), np.int32)
    done = library.snapreport_holes(
        _at(at),
        len(at),
        *map(_at, (*blocks, *orders[:2])),
        len(addr),
        *map(_at, (*around, *orders[2:])),
        len(spans),
        _at(owner),
        *map(_at, (hole, bound)),
    )
    return (hole, bound) if done else None


def _all_small(*columns: NDArray[np.int64]) -> bool:
    """Say whether sums of two numbers are sure to fit, and none is below zero."""
    return all(0 <= int(c.min()) <= int(c.max()) < _MOST for c in columns if len(c))


def _int64(*columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return columns as they have to lie in memory."""
    return tuple(np.ascontiguousarray(column, np.int64) for column in columns)


def _at(array: NDArray[Any]) -> int:
    """Return where an array lies; whoever calls holds on to it."""
    return array.ctypes.data
