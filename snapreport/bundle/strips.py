"""Lays out the strips of a device and writes them: the rows of ``allocations.json``.

A strip lies on those that were born before it and are still live, so its offset falls whenever
one of them is freed. The points of exact strips would grow with frees times live allocations. So a
trace of more than EXACT_UP_TO events is sampled, at one event in each of COLUMNS columns of events,
or of fewer columns if so much is live at once that even these would be large.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.ground.native.columns import sum_live
from snapreport.ground.native.library import Marked, StripRows
from snapreport.model.history import DeviceHistory, Drawn

EXACT_UP_TO = 4096
COLUMNS = 384
FEWEST_COLUMNS = 16
_LIVE_SAMPLES = 2_000_000
_LIVE_SAMPLES_EACH = 8
"""Live strips in all samples, and for each allocation; beyond both, fewer events are sampled."""

RULE = (
    f"Strips of requested bytes in birth order. Traces of up to {EXACT_UP_TO} events are exact at"
    f" every event. Longer ones are divided into {COLUMNS} columns of events, or fewer if very"
    " much is live at once (strips_columns), and sampled at the event with the most requested bytes"
    " in each column; every birth and death, and the last event, are exact too. Between its points"
    " a strip is straight."
)


def count_columns(history: DeviceHistory) -> int:
    """Return how many columns of events a trace is divided into, by the manifest's rule."""
    events, rows = history.events, history.allocations
    if events <= EXACT_UP_TO:
        return events
    freed = rows.free_event < events
    # Strips below the first one that is ever freed never move.
    moving = slice(int(freed.argmax()) if freed.any() else len(rows), None)
    lives = rows.free_event[moving] - np.maximum(rows.alloc_event[moving], 0)
    at_once = max(int(lives.sum()) // events, 1)
    samples = max(_LIVE_SAMPLES, _LIVE_SAMPLES_EACH * len(rows))
    return min(max(samples // at_once, FEWEST_COLUMNS), COLUMNS)


def sampled_events(history: DeviceHistory, columns: int | None = None) -> NDArray[np.int64]:
    """Return the events at which every live strip is exact; int64, ascending."""
    events = history.events
    if columns is None:
        columns = count_columns(history)
    if events <= columns:
        return np.arange(events, dtype=np.int64)
    rows = history.allocations
    curve = sum_live(rows.size, rows.alloc_event, rows.free_event, events)[1:]
    edges = np.arange(columns + 1, dtype=np.int64) * events // columns
    return np.array(
        [
            low + int(curve[low:high].argmax())
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ],
        np.int64,
    )


def with_last_event(history: DeviceHistory, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the last event, which is always exact, to the sampled events."""
    last = max(history.events, 1) - 1
    return events if len(events) and events[-1] >= last else np.append(events, last)


_Strip = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""Size, timesteps and offsets of a strip."""

CUT_RULE = (
    "Allocations that were cut keep their rows, with a size of 0. Rows after the last allocation"
    " are the sum of those, drawn on top of the others; it is exact at the sampled events."
)


def lay_rest(history: DeviceHistory, drawn: Drawn, events: NDArray[np.int64]) -> Iterator[_Strip]:
    """Lay out the sum of the allocations that are not drawn, on top of those that are.

    A strip lasts as long as the sum is the same at the sampled events.
    """
    if not len(events):
        return
    end, rows = max(history.events, 1), history.allocations
    rest = drawn.rest
    height = rest.requested[np.searchsorted(rest.event, events, side="right") - 1]
    size, born, freed = (
        column[drawn.rows] for column in (rows.size, rows.alloc_event, rows.free_event)
    )
    below = sum_live(size, born, freed, history.events)[events + 1]
    until = np.append(events[1:], end)
    begin = np.concatenate(([0], events[1:]))  # the first strip begins at the left edge
    runs = np.flatnonzero(np.diff(height, prepend=-1))
    for low, high in zip(runs.tolist(), np.append(runs[1:], len(events)).tolist(), strict=True):
        stop = int(until[high - 1])
        if height[low] and stop > begin[low]:
            # It lasts from its first sample on, and keeps the offset of its last one to the end.
            at = np.append(begin[low:high], stop)
            offsets = np.append(below[low:high], below[high - 1])
            turns = np.diff(offsets) != 0
            point = np.concatenate(([True], turns)) | np.concatenate((turns, [True]))
            yield int(height[low]), at[point], offsets[point]


POINTS_AT_ONCE = 1 << 14
"""How many points are yielded at a time, if no row has more."""


def strips_text(
    history: DeviceHistory,
    first_id: int = 0,
    drawn: Drawn | None = None,
    columns: int | None = None,
) -> Iterator[Marked]:
    """Yield a JSON array with a row for each strip, in parts: one is packed while the next is made.

    The native library lays out the strips as it writes them, with no array of their points.

    Args:
        history: the device.
        first_id: the first row's ``elem``.
        drawn: the allocations that are drawn one by one; None for all.
        columns: the most events to sample; None for the manifest's rule.
    """
    events = sampled_events(history, columns)
    mask = None
    if drawn is not None:
        mask = np.zeros(len(history.allocations), np.bool_)
        mask[drawn.rows] = True
    all_of_them, n = history.allocations, len(history.allocations)
    rows = StripRows(
        (all_of_them.alloc_event, all_of_them.free_event, all_of_them.size),
        mask,
        with_last_event(history, events),
        history.events,
        first_id,
        POINTS_AT_ONCE,
    )
    yield from rows.up_to(n)
    rest = b"" if drawn is None else _rows(list(lay_rest(history, drawn, events)), first_id + n)
    before = b"," if n and rest else b"" if n else b"["
    yield Marked(before + rest + b"]", np.zeros(0, np.uint32))


def _rows(strips: list[_Strip], first_id: int) -> bytes:
    """Return rows as JSON, with commas between them."""
    return orjson.dumps(
        [
            {"elem": i, "size": size, "timesteps": events, "offsets": offsets, "color": i}
            for i, (size, events, offsets) in enumerate(strips, start=first_id)
        ],
        option=orjson.OPT_SERIALIZE_NUMPY,
    )[1:-1]
