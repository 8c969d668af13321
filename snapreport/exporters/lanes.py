"""Lays overlapping spans side by side: each on the lowest lane that is free when it begins."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


def lanes(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return each span's lane, from 0.

    Args:
        spans: begin and end of each, in order of their begin; a lane is free again at the end.
    """
    found = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for begin, end in spans:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found
