"""Positions of events along the timeline: evenly, or by time. The page has the same rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.snapshot import NO_TIME

_MARGIN = 0.008
"""Room before the start and after the last event, as a share of the recording."""


class EventScale:
    """One unit per event; the start covers -1 to 0.

    The state after an event covers the range from its own x to the next event's.
    """

    def __init__(self, events: int) -> None:
        """Take the number of events."""
        self.events = events
        self.whole = (-1.0, float(max(events, 1)))

    def x_of(self, event: int) -> float:
        """Return the x at which an event begins; -1 is the start, ``events`` the end."""
        return float(event)

    def spans(self, edges: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the events that begin in each column; if none does, the one still in effect.

        Args:
            edges: of columns; float64, shape (m + 1,), ascending.

        Returns:
            twice int64, shape (m,): ``first <= event < end``, never empty; -1 is the start.
        """
        begins = np.ceil(edges).astype(np.int64)
        some = begins[1:] > begins[:-1]
        first = np.where(some, begins[:-1], np.floor(edges[:-1]).astype(np.int64))
        first = np.clip(first, -1, self.events - 1)
        return first, np.maximum(np.minimum(begins[1:], self.events), first + 1)


class TimeScale:
    """One unit per microsecond since the first event, otherwise like ``EventScale``.

    If the clock steps back, x stays at the latest time so far.
    """

    def __init__(self, times: NDArray[np.int64]) -> None:
        """Take each event's time, NO_TIME where unknown; int64, shape (events,), one known."""
        self.events = len(times)
        known = np.where(times == NO_TIME, np.iinfo(np.int64).min, times)
        held = np.maximum.accumulate(known)
        first = int(times[(times != NO_TIME).argmax()])
        self._edges = np.maximum(held - first, 0) if len(held) else held
        last = float(self._edges[-1])
        margin = max(last * _MARGIN, 1.0)
        self.whole = (-margin, last + margin)

    def x_of(self, event: int) -> float:
        """Return the event's time."""
        if event < 0:
            return self.whole[0]
        return self.whole[1] if event >= self.events else float(self._edges[event])

    def spans(self, edges: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the events of each column, and the one whose state lasts into it."""
        at = np.searchsorted(self._edges, edges[:-1], side="left").astype(np.int64)
        begins = np.append(self._edges, np.iinfo(np.int64).max)[at] == edges[:-1]
        first = np.where(begins, at, at - 1)
        first = np.clip(first, -1, self.events - 1)
        end = np.searchsorted(self._edges, edges[1:], side="left").astype(np.int64)
        return first, np.maximum(end, first + 1)


Scale = EventScale | TimeScale


def scale_of(axis: str, times: NDArray[np.int64]) -> Scale:
    """Return the scale of an axis, ``events`` or ``time``."""
    return TimeScale(times) if axis == "time" else EventScale(len(times))


def has_times(times: NDArray[np.int64]) -> bool:
    """Say whether a recording has times."""
    return bool((times != NO_TIME).any())
