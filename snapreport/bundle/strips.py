"""Chooses the events at which strips, the rows of ``allocations.json``, are exact.

A strip lies on those that were born before it and are still live, so its offset falls whenever
one of them is freed. The points of exact strips would grow with frees times live allocations. So a
trace of more than EXACT_UP_TO events is sampled, at one event in each of COLUMNS columns of events,
or of fewer columns if so much is live at once that even these would be large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import DeviceHistory
from snapreport.native.sweeps import sum_live

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
