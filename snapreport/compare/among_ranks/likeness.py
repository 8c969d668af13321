"""Measure how unlike ranks are, and cluster them: single linkage, cut where a gap is wide.

The distance of two ranks is the sum of differences between their call sites, or the difference of
their curves, whichever is larger, as a share of the larger peak. Curves are compared by quantiles:
recordings seldom begin at the same moment of a step, and quantiles do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.model.run.rank_facts import DeviceFacts

FLOOR = 0.03
"""Smaller distances, as a share of the peak, are not a gap. In eight runs, ranks that do the same
work on other data differ by 1 to 2 % in their requests, and by up to 1 MiB per unsplit block."""
MEGABYTE = 1 << 20
"""Smaller differences in bytes do not count: an unsplit block is larger by up to this much."""
_TIMES_NEAREST = 5
"""A gap is at least this many times the median distance to the nearest other rank."""
_QUANTILES = 17
_STILL = 0.001
"""A column that varies by at most this part of the largest peak is left out of distances."""


class Distances:
    """Distances between ranks, by call sites and by curves."""

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
        """Return each rank's distance from one; float32, shape (n,), as shares of the peak."""
        apart = np.abs(self._sites - self._sites[row]).sum(axis=1)
        curves = np.abs(self._curves - self._curves[row]).mean(axis=1)
        larger = np.maximum(self._peaks, self._peaks[row])
        found: NDArray[np.float32] = np.maximum(apart, curves) / larger
        return found

    def between(self, some: Sequence[int], others: Sequence[int]) -> float:
        """Return the distance between the medians of two sets of ranks."""
        apart = np.abs(self._middle(self._sites, some) - self._middle(self._sites, others)).sum()
        curves = np.abs(
            self._middle(self._curves, some) - self._middle(self._curves, others)
        ).mean()
        larger = max(np.median(self._peaks[list(some)]), np.median(self._peaks[list(others)]))
        return float(max(apart, curves) / larger)

    def within(self, some: Sequence[int]) -> float:
        """Return the median distance of ranks from their own median."""
        rows = list(some)
        apart = np.abs(self._sites[rows] - self._middle(self._sites, rows)).sum(axis=1)
        curves = np.abs(self._curves[rows] - self._middle(self._curves, rows)).mean(axis=1)
        return float(np.median(np.maximum(apart, curves) / self._peaks[rows]))

    @staticmethod
    def _middle(table: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.float32]:
        middle: NDArray[np.float32] = np.median(table[list(rows)], axis=0)
        return middle


def part(distances: Distances, count: int) -> list[list[int]]:
    """Split ranks where there are gaps; each part is ascending, parts are ordered by first rank.

    Grows the minimum spanning tree from the first rank (Prim's algorithm) and cuts its long edges:
    the same as single linkage, with memory for one row of distances.
    """
    best = np.full(count, np.inf, np.float32)
    origin = np.zeros(count, np.int64)
    nearest = np.full(count, np.inf, np.float32)
    inside = np.zeros(count, bool)
    edges: list[tuple[float, int, int]] = []  # length, a rank already in the tree, the new one
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
