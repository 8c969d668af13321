"""Make stages of annotations: pair START and END markers, place them on events, and nest them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import START, Stages
from snapreport.model.snapshot import NO_TIME, Annotation

_FOREVER = 2**62


def build_stages(annotations: Sequence[Annotation], time_us: NDArray[np.int64]) -> Stages:
    """Pair one device's markers and place them among its events.

    An END belongs to the latest open START of its name. At equal times a START counts as before
    and an END as after the events: a convention, the file does not say.

    Args:
        annotations: in recorded order.
        time_us: int64, shape (n_events,); without times stages cannot be placed, and none are.
    """
    spans = _pair(annotations)
    if len(time_us) and (time_us == NO_TIME).all():
        spans = []
    # Stages in order of their start, an outer one before what begins with it.
    spans.sort(key=lambda span: (span[1] if span[1] != NO_TIME else -1, -(_end(span))))
    # A lower max_entries in mid-recording can put times out of order; the index is the clock.
    clock = np.maximum.accumulate(time_us) if len(time_us) else time_us
    starts = np.array([span[1] for span in spans], np.int64)
    ends = np.array([span[2] for span in spans], np.int64)
    start_event = np.searchsorted(clock, starts, side="left").astype(np.int64)
    end_event = np.searchsorted(clock, ends, side="right").astype(np.int64)
    first = int(clock[0]) if len(clock) else 0
    start_event[(starts == NO_TIME) | ((starts < first) & (len(clock) > 0))] = START
    end_event[ends == NO_TIME] = len(time_us)
    end_event[(ends != NO_TIME) & (ends < first)] = START
    parent, depth = _nest(spans)
    return Stages(
        name=[span[0] for span in spans],
        parent=np.array(parent, np.int32),
        depth=np.array(depth, np.int32),
        start_event=start_event,
        end_event=np.maximum(end_event, start_event),
        start_time_us=starts,
        end_time_us=ends,
    )


_Span = tuple[str, int, int]
"""Name, start and end in microseconds, NO_TIME where the marker is not there."""


def _end(span: _Span) -> int:
    return span[2] if span[2] != NO_TIME else _FOREVER


def _pair(annotations: Sequence[Annotation]) -> list[_Span]:
    names: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    opened: dict[str, list[int]] = {}
    for marker in annotations:
        if marker.start:
            opened.setdefault(marker.name, []).append(len(names))
        elif opened.get(marker.name):
            ends[opened[marker.name].pop()] = marker.time_us
            continue
        names.append(marker.name)
        # An END alone: its START was overwritten in the ring.
        starts.append(marker.time_us if marker.start else NO_TIME)
        ends.append(NO_TIME if marker.start else marker.time_us)
    return list(zip(names, starts, ends, strict=True))


def _nest(spans: list[_Span]) -> tuple[list[int], list[int]]:
    """Return each stage's parent, the innermost stage that contains it entirely, and its depth."""
    parent: list[int] = []
    depth: list[int] = []
    # Stages that none after them outlasts, so that each ends before the one before it; and their
    # ends, negative, as bisect wants them to grow.
    around: list[int] = []
    ends: list[int] = []
    for index, span in enumerate(spans):
        # The latest that is still on and lasts as long. Threads can overlap without nesting: such
        # a stage stays open, but is no parent.
        holder = bisect_right(ends, -max(_end(span), span[1] + 1)) - 1
        parent.append(around[holder] if holder >= 0 else -1)
        depth.append(depth[around[holder]] + 1 if holder >= 0 else 0)
        while ends and ends[-1] >= -_end(span):
            ends.pop()
            around.pop()
        ends.append(-_end(span))
        around.append(index)
    return parent, depth
