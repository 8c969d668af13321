"""Which segments existed at each step: the final ones with the trace's segment events undone.

Source: snapshot-format notes 5.2, step 8. Walking backwards needs no start state, and the final
state is always complete, whatever the ring lost.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.history import DeviceHistory, Events
from snapreport.model.snapshot import NO_ID, Segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


@dataclass(frozen=True, eq=False)
class SegmentSpans:
    """Non-expandable segments over their lives; arrays of shape (n,)."""

    address: NDArray[np.int64]
    size: NDArray[np.int64]
    start_step: NDArray[np.int64]
    """The step of ``segment_alloc``, -1 if from before the recording."""
    end_step: NDArray[np.int64]
    """The step of ``segment_free``, n_events if never."""
    final: NDArray[np.int32]
    """Row of the final segments, NO_ID if freed before the end."""


def reserved_changes(
    other: Events, segments: Segments
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the reserved curve as changes.

    Returns:
        steps, int64, shape (k,): the first is -1; and reserved bytes from each of them on.
    """
    signs = np.array([_GROWS.get(action, 0) for action in other.action], np.int64)
    moves = np.flatnonzero(signs)
    deltas = signs[moves] * other.size[moves]
    end = int(segments.size.sum())
    values = end - int(deltas.sum()) + np.concatenate([[0], np.cumsum(deltas)])
    steps = np.concatenate([[-1], other.step[moves]])
    return steps.astype(np.int64), values.astype(np.int64)


def segment_spans(other: Events, segments: Segments, events: int) -> tuple[SegmentSpans, int]:
    """Return the life of every non-expandable segment, and how many events did not fit."""
    live: dict[int, list[int]] = {}
    rows: list[list[int]] = []
    misfits = 0
    for row in np.flatnonzero(~segments.expandable).tolist():
        record = [int(segments.address[row]), int(segments.size[row]), -1, events, row]
        live[record[0]] = record
        rows.append(record)
    relevant = [
        i for i, name in enumerate(other.action) if name in ("segment_alloc", "segment_free")
    ]
    for i in reversed(relevant):
        step, addr, size = int(other.step[i]), int(other.addr[i]), int(other.size[i])
        if other.action[i] == "segment_free":
            if addr in live:
                misfits += 1
            record = [addr, size, -1, step, NO_ID]
            live[addr] = record
            rows.append(record)
        else:
            born = live.pop(addr, None)
            if born is None or born[1] != size:
                misfits += 1
            if born is not None:
                born[2] = step
    table = np.array(rows, np.int64).reshape(-1, 5).T
    spans = SegmentSpans(table[0], table[1], table[2], table[3], table[4].astype(np.int32))
    return spans, misfits


def segments_at(history: DeviceHistory, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the segments after one step, in address order.

    An expandable segment counts as its runs of mapped memory, as in PyTorch's own snapshots.

    Returns:
        addresses and sizes, int64, each of shape (n_segments,).
    """
    spans, _ = segment_spans(history.other, history.segments, history.events)
    there = (spans.start_step <= step) & (step < spans.end_step)
    starts, ends = _mapped_runs(history, step)
    address = np.concatenate([spans.address[there], np.array(starts, np.int64)])
    size = np.concatenate(
        [spans.size[there], np.array(ends, np.int64) - np.array(starts, np.int64)]
    )
    order = np.argsort(address, kind="stable")
    return address[order], size[order]


def _mapped_runs(history: DeviceHistory, step: int) -> tuple[list[int], list[int]]:
    """Undo map and unmap events after a step; returns the runs' starts and ends, in order."""
    segments, other = history.segments, history.other
    rows = np.flatnonzero(segments.expandable)
    starts: list[int] = segments.address[rows].tolist()
    ends: list[int] = (segments.address[rows] + segments.size[rows]).tolist()
    for i in range(len(other) - 1, -1, -1):
        if int(other.step[i]) <= step:
            break
        low, high = int(other.addr[i]), int(other.addr[i] + other.size[i])
        if other.action[i] == "segment_map":
            _cut(starts, ends, low, high)
        elif other.action[i] == "segment_unmap":
            _join(starts, ends, low, high)
    return starts, ends


def _cut(starts: list[int], ends: list[int], low: int, high: int) -> None:
    """Take the range out of the runs."""
    first, last = bisect_right(ends, low), bisect_left(starts, high)
    left = [(starts[first], low)] if first < last and starts[first] < low else []
    right = [(high, ends[last - 1])] if first < last and ends[last - 1] > high else []
    starts[first:last] = [run[0] for run in left + right]
    ends[first:last] = [run[1] for run in left + right]


def _join(starts: list[int], ends: list[int], low: int, high: int) -> None:
    """Add the range to the runs, joining those that it touches."""
    first, last = bisect_left(ends, low), bisect_right(starts, high)
    if first < last:
        low, high = min(low, starts[first]), max(high, ends[last - 1])
    starts[first:last] = [low]
    ends[first:last] = [high]
