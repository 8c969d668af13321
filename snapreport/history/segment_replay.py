"""Which segments existed at each step: the final ones with the trace's segment events undone.

Source: snapshot-format notes 5.2, step 8. Walking backwards needs no start state, and the final
state is always complete, whatever the ring lost.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from snapreport.analyse import sweeps
from snapreport.ground.memoize import once_for_each, shared
from snapreport.history.action_codes import code_actions
from snapreport.model.history import START, DeviceHistory, Events
from snapreport.model.segment_lives import LARGE, SMALL, SegmentLives
from snapreport.model.snapshot import NO_ID, Segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def reserved_changes(
    other: Events, segments: Segments
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the reserved curve as changes.

    Returns:
        steps, int64, shape (k,): the first is -1; and reserved bytes from each of them on.
    """
    signs = code_actions(other, _GROWS, 0)
    moves = np.flatnonzero(signs)
    deltas = signs[moves] * other.size[moves]
    end = int(segments.size.sum())
    values = end - int(deltas.sum()) + np.concatenate([[0], np.cumsum(deltas)])
    steps = np.concatenate([[-1], other.step[moves]])
    return steps.astype(np.int64), values.astype(np.int64)


def segment_lives(other: Events, segments: Segments, events: int) -> tuple[SegmentLives, int]:
    """Return the life of every segment, and how many events did not fit.

    Pool and kind are those of the final segments; ``figures.fragmentation`` finds
    some of the others.
    """
    final = _final_rows(segments, events)
    found = sweeps.segments(final, len(segments), other)
    rows, families, misfits = _replayed(other, final) if found is None else found
    return _as_columns(rows, families, segments), misfits


def _final_rows(segments: Segments, events: int) -> NDArray[np.int64]:
    """Return the segments at the end in address order, in the columns of ``sweeps.segments``."""
    order = np.lexsort((segments.size, segments.address))
    low = segments.address[order]
    high = low + segments.size[order]
    high[:-1] = np.minimum(high[:-1], low[1:])  # two that overlap: memory is in one of them
    rows = np.empty((len(order), sweeps.SEGMENT_COLUMNS), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = low, high, START, events
    rows[:, 4], rows[:, 7] = segments.stream[order], segments.expandable[order]
    rows[:, 5] = rows[:, 6] = order  # each is a family of its own
    return rows


def _replayed(other: Events, final: NDArray[np.int64]) -> tuple[NDArray[np.int64], int, int]:
    """Do as ``sweeps.segments``."""
    replay = _Replay(final)
    relevant = [i for i, name in enumerate(other.action) if name in _GROWS][::-1]
    columns = (other.step, other.addr, other.size, other.stream)
    rows = zip(relevant, *(column[relevant].tolist() for column in columns), strict=True)
    for i, step, low, size, stream in rows:
        span = _Span(low, low + size, step, stream)
        match other.action[i]:
            case "segment_alloc":
                replay.undo_alloc(span)
            case "segment_free":
                replay.undo_free(span)
            case "segment_map":
                replay.undo_map(span)
            case "segment_unmap":
                replay.undo_unmap(span)
    return replay.lives(), replay.families, replay.misfits


def _as_columns(rows: NDArray[np.int64], families: int, segments: Segments) -> SegmentLives:
    """Lay lives, in the columns of ``sweeps.segments``, out by start, then address."""
    table = rows.T[:, np.lexsort((rows[:, 0], rows[:, 2]))]
    family = table[5].astype(np.int32)
    pool = np.full(families, NO_ID, np.int32)
    pool[: len(segments)] = segments.pool
    kind = np.full(families, NO_ID, np.int8)
    kind[: len(segments)] = np.where(segments.large, LARGE, SMALL)
    return SegmentLives(
        address=table[0],
        size=table[1] - table[0],
        start_step=table[2],
        end_step=table[3],
        stream=table[4],
        pool=pool[family],
        kind=kind[family],
        expandable=table[7] == 1,
        family=family,
        final=table[6].astype(np.int32),
    )


def segments_at(lives: SegmentLives, step: int) -> NDArray[np.int64]:
    """Return the rows of the segments after one step, in address order."""
    there = np.flatnonzero((lives.start_step <= step) & (step < lives.end_step))
    return there[np.argsort(lives.address[there], kind="stable")]


@once_for_each
def lives_of(history: DeviceHistory) -> SegmentLives:
    """Return the segments of a history over time."""
    lives, _ = segment_lives(history.other, history.segments, history.events)
    for column in fields(lives):
        shared(getattr(lives, column.name))
    return lives


@dataclass(slots=True)
class _Span:
    """A range of addresses, and the step at which it ends, looking backwards."""

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

    def __init__(self, final: NDArray[np.int64]) -> None:
        fixed: list[_Span] = []
        mapped: list[_Span] = []
        for low, high, _, end, stream, family, row, expandable in final.tolist():
            span = _Span(low, high, end, stream, family, row, bool(expandable))
            (mapped if expandable else fixed).append(span)
        self._fixed, self._mapped = _Spans(fixed), _Spans(mapped)
        self.families = len(final)
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
        return np.array(self._rows, np.int64).reshape(-1, sweeps.SEGMENT_COLUMNS)

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
        """Let what stands there begin at a step, and others stand there before it."""
        for old in there.replace(first, last, spans):
            if old.end > start:
                row = (old.low, old.high, start, old.end, old.stream, old.family, old.final)
                self._rows.append((*row, old.expandable))
