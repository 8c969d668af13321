"""How unlike ranks are, and which belong together: single linkage, cut where a gap is wide.

Two ranks are as far apart as the bytes that call sites hold on one and not on the other, or as
their curves, whichever is more, as a share of the larger peak. A curve counts by its quantiles:
recordings seldom begin at the same moment of a step, and a quantile does not see where they begin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.model.run.rank_facts import DeviceFacts

FLOOR = 0.03
"""Share of the peak that is no gap. Of eight runs' worth of ranks that do the same work on other
data, requests differ by 1 to 2 %, and an allocator's unsplit blocks by up to 1 MiB each."""
MEGABYTE = 1 << 20
"""Bytes that are no difference: a block that was left unsplit has up to so much more."""
_TIMES_NEAREST = 5
"""A gap is as many times as wide as the usual way to the nearest other rank."""
_QUANTILES = 17
_STILL = 0.001
"""Of the largest peak: a column that varies by less tells no ranks apart."""


class Distances:
    """Measures ranks against one another; a table for each of the two measures."""

    def __init__(
        self, devices: Sequence[DeviceFacts], sites: NDArray[np.int64], allocated: NDArray[np.int64]
    ) -> None:
        self._peaks = np.maximum(allocated, 1).astype(np.float32)
        rest = allocated - sites.sum(axis=1)
        table = np.column_stack([sites, rest])
        moving = np.ptp(table, axis=0) > _STILL * allocated.max(initial=0)
        self._sites = table[:, moving].astype(np.float32)
        share = np.linspace(0, 1, _QUANTILES)
        self._curves = np.array(
            [np.quantile(d.by_event.allocated, share) for d in devices], np.float32
        )

    def from_one(self, row: int) -> NDArray[np.float32]:
        """Return how far each rank is from one; float32, shape (n,), a share of the peak."""
        apart = np.abs(self._sites - self._sites[row]).sum(axis=1)
        curves = np.abs(self._curves - self._curves[row]).mean(axis=1)
        larger = np.maximum(self._peaks, self._peaks[row])
        found: NDArray[np.float32] = np.maximum(apart, curves) / larger
        return found

    def between(self, some: Sequence[int], others: Sequence[int]) -> float:
        """Return how far the medians of two sets of ranks are from each other."""
        apart = np.abs(self._middle(self._sites, some) - self._middle(self._sites, others)).sum()
        curves = np.abs(
            self._middle(self._curves, some) - self._middle(self._curves, others)
        ).mean()
        larger = max(np.median(self._peaks[list(some)]), np.median(self._peaks[list(others)]))
        return float(max(apart, curves) / larger)

    def within(self, some: Sequence[int]) -> float:
        """Return how far ranks are from their median, at the median."""
        rows = list(some)
        apart = np.abs(self._sites[rows] - self._middle(self._sites, rows)).sum(axis=1)
        curves = np.abs(self._curves[rows] - self._middle(self._curves, rows)).mean(axis=1)
        return float(np.median(np.maximum(apart, curves) / self._peaks[rows]))

    @staticmethod
    def _middle(table: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.float32]:
        middle: NDArray[np.float32] = np.median(table[list(rows)], axis=0)
        return middle


def part(distances: Distances, count: int) -> list[list[int]]:
    """Part ranks where there are gaps; each part ascending, and the parts by their first rank.

    The shortest tree that joins all of them is grown from the first (Prim's way), and its long
    edges are cut: the same as single linkage, in memory for one row.
    """
    best = np.full(count, np.inf, np.float32)
    origin = np.zeros(count, np.int64)
    nearest = np.full(count, np.inf, np.float32)
    inside = np.zeros(count, bool)
    edges: list[tuple[float, int, int]] = []  # each to a rank that the tree has already
    row = 0
    for turn in range(count):
        inside[row] = True
        away = distances.from_one(row)
        away[row] = np.inf
        nearest[row] = away.min(initial=np.inf)
        closer = (away < best) & ~inside
        best[closer], origin[closer] = away[closer], row
        if turn == count - 1:
            break
        row = int(np.where(inside, np.inf, best).argmin())
        edges.append((float(best[row]), int(origin[row]), row))
    usual = float(np.median(nearest)) if count > 1 else 0.0
    gap = max(FLOOR, _TIMES_NEAREST * usual)
    first = dict.fromkeys(range(count), 0)
    for length, a, b in edges:
        first[b] = first[a] if length <= gap else b
    parts: dict[int, list[int]] = {}
    for row in range(count):
        parts.setdefault(first[row], []).append(row)
    return list(parts.values())
