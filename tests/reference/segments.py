"""Segments over their lives, event by event: what ``native.sweeps.undo_segments`` returns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import SEGMENT_COLUMNS
from snapreport.model.history import START
from snapreport.model.snapshot import NO_ID


def undo_segments(
    final: NDArray[np.int64], families: int, events: tuple[NDArray[Any], ...]
) -> tuple[NDArray[np.int64], int, int]:
    """Do as ``native.sweeps.undo_segments``."""
    replay = _Replay(final, families)
    for kind, event, low, size, stream in zip(*(each.tolist() for each in events), strict=True):
        undo = (replay.undo_alloc, replay.undo_free, replay.undo_map, replay.undo_unmap)[kind - 1]
        undo(_Span(low, low + size, event, stream))
    return replay.lives(), replay.families, replay.misfits


@dataclass(slots=True)
class _Span:
    """A range of addresses, and the event at which it ends, looking backwards."""

    low: int
    high: int
    end: int
    stream: int
    family: int = NO_ID
    final: int = NO_ID
    expandable: bool = False


class _Spans:
    """Ranges in address order, no two of which overlap."""

    def __init__(self, spans: list[_Span]) -> None:
        self.all = spans
        self._starts = [span.low for span in spans]

    def overlapping(self, span: _Span) -> tuple[int, int]:
        """Return the first place that a range overlaps, and the one behind the last."""
        first = bisect_right(self._starts, span.low)
        if first and self.all[first - 1].high > span.low:
            first -= 1
        return first, max(first, bisect_left(self._starts, span.high))

    def starting_at(self, low: int) -> tuple[int, int]:
        """Return the place of the range that starts there, and the next; the same for none."""
        place = bisect_left(self._starts, low)
        return place, place + (self._starts[place : place + 1] == [low])

    def replace(self, first: int, last: int, spans: list[_Span]) -> list[_Span]:
        """Put others in some places, and return what was there."""
        gone = self.all[first:last]
        self.all[first:last] = spans
        self._starts[first:last] = [span.low for span in spans]
        return gone


class _Replay:
    """The segments that are there while the events are undone.

    Those that were allocated whole and those that were mapped lie apart, so that each event looks
    only at what it takes away: else a stranger's file could let every one look at all of them.
    """

    def __init__(self, final: NDArray[np.int64], families: int) -> None:
        fixed: list[_Span] = []
        mapped: list[_Span] = []
        for low, high, _, end, stream, family, row, expandable in final.tolist():
            span = _Span(low, high, end, stream, family, row, bool(expandable))
            (mapped if expandable else fixed).append(span)
        self._fixed, self._mapped = _Spans(fixed), _Spans(mapped)
        self.families = families
        self._rows: list[tuple[int, ...]] = []
        self.misfits = 0

    def undo_alloc(self, made: _Span) -> None:
        first, last = self._fixed.starting_at(made.low)
        if first == last:
            self.misfits += 1
            return
        self.misfits += self._fixed.all[first].high != made.high
        self._replace(self._fixed, first, last, made.end, [])

    def undo_free(self, gone: _Span) -> None:
        # What is there now has to have come after; the event that made it is missing.
        gone.family = self._new_family()
        self._clear(self._mapped, gone)
        self._replace(self._fixed, *self._clear(self._fixed, gone), gone.end, [gone])

    def undo_map(self, mapped: _Span) -> None:
        first, last = self._mapped.overlapping(mapped)
        covered, rest = 0, []
        for span in self._mapped.all[first:last]:
            covered += min(span.high, mapped.high) - max(span.low, mapped.low)
            if span.low < mapped.low:
                rest.append(replace(span, high=mapped.low, end=mapped.end, final=NO_ID))
            if span.high > mapped.high:
                rest.append(replace(span, low=mapped.high, end=mapped.end, final=NO_ID))
        self.misfits += covered != mapped.high - mapped.low
        self._replace(self._mapped, first, last, mapped.end, rest)

    def undo_unmap(self, gone: _Span) -> None:
        gone.expandable = True
        self._clear(self._fixed, gone)
        there = self._mapped.all
        first, last = self._mapped.overlapping(gone)
        self.misfits += last - first
        if first and self._joins(there[first - 1], gone):
            first -= 1
        if last < len(there) and self._joins(there[last], gone):
            last += 1
        for span in there[first:last]:
            gone.low, gone.high = min(gone.low, span.low), max(gone.high, span.high)
            gone.family = span.family if gone.family == NO_ID else gone.family
        if gone.family == NO_ID:
            gone.family = self._new_family()
        self._replace(self._mapped, first, last, gone.end, [gone])

    def lives(self) -> NDArray[np.int64]:
        """Close what is left, from before the recording, and return all lives."""
        for spans in (self._fixed, self._mapped):
            self._replace(spans, 0, len(spans.all), START, [])
        return np.array(self._rows, np.int64).reshape(-1, SEGMENT_COLUMNS)

    def _new_family(self) -> int:
        self.families += 1
        return self.families - 1

    @staticmethod
    def _joins(span: _Span, gone: _Span) -> bool:
        """Whether a run of mapped memory next to this range is of the same segment."""
        touches = span.high == gone.low or span.low == gone.high
        return touches and span.stream == gone.stream

    def _clear(self, spans: _Spans, gone: _Span) -> tuple[int, int]:
        """Take away what is where something else was until now, and return the place of that."""
        first, last = spans.overlapping(gone)
        if first < last:
            self.misfits += last - first
            self._replace(spans, first, last, gone.end, [])
        return first, first

    def _replace(
        self, there: _Spans, first: int, last: int, start: int, spans: list[_Span]
    ) -> None:
        """Let what stands there begin at an event, and others stand there before it."""
        for old in there.replace(first, last, spans):
            if old.end > start:
                row = (old.low, old.high, start, old.end, old.stream, old.family, old.final)
                self._rows.append((*row, old.expandable))
