"""Segments as bars of cells: how much of each is allocated, awaits its free, or is inactive."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.explorer.parts.chart_cells import Cell, in_line
from snapreport.explorer.parts.inking import Run
from snapreport.figures.heap import Heap

_ROWS = 30
"""Before zooming all segments together take at most about this many rows, or one row each."""
_LEAST_CELL = 512
_MOST_ROWS = 200_000
"""Rows of all bars: zooming in ends there."""


class Cells:
    """Bars of segments, in rows of ``width`` cells."""

    def __init__(self, heap: Heap, width: int, size: int) -> None:
        """``size``: bytes of a cell."""
        self.heap, self.width, self.bytes = heap, width, size
        self._rows = -(-heap.size // (width * size))
        self.segment: NDArray[np.int64] = np.repeat(np.arange(len(heap.size)), self._rows)
        """The segment of each row; int64, shape (n_rows,)."""
        self._first = np.cumsum(self._rows) - self._rows
        self._ends = heap.start + heap.bytes
        # Bytes in use, and bytes awaiting their free, before each block; the last is the total.
        self._used = np.concatenate([[0], np.cumsum(heap.bytes)])
        self._pending = np.concatenate([[0], np.cumsum(np.where(heap.pending, heap.bytes, 0))])

    def is_first(self, place: int) -> bool:
        """Say whether a row is the first of its segment."""
        return bool(self._first[self.segment[place]] == place)

    def place_of(self, segment: int, address: int) -> int:
        """Return the row that shows an address of a segment."""
        offset = address - int(self.heap.address[segment])
        return int(self._first[segment]) + offset // (self.width * self.bytes)

    def edges(self, place: int) -> NDArray[np.int64]:
        """Return the addresses at which the cells of a row begin, and the last one's end."""
        segment = int(self.segment[place])
        low = int(self.heap.address[segment])
        begin = low + (place - int(self._first[segment])) * self.width * self.bytes
        high = low + int(self.heap.size[segment])
        count = min(-(-(high - begin) // self.bytes), self.width)
        return np.minimum(begin + np.arange(count + 1, dtype=np.int64) * self.bytes, high)

    def amounts(self, place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many bytes of each cell of a row are in use, and how many await their free."""
        edges = self.edges(place)
        whole = np.searchsorted(self._ends, edges, side="right")
        starts = np.append(self.heap.start, np.iinfo(np.int64).max)[whole]
        part = np.maximum(edges - starts, 0)  # of the block that contains an edge
        waits = np.append(self.heap.pending, False)[whole]
        used = self._used[whole] + part
        pending = self._pending[whole] + np.where(waits, part, 0)
        return np.diff(used), np.diff(pending)

    def row(self, place: int, block: int) -> tuple[Run, ...]:
        """Return a row's cells; those of one block are highlighted."""
        edges = self.edges(place)
        size = np.diff(edges)
        used, pending = self.amounts(place)
        low = high = -1
        if block >= 0:
            low, high = int(self.heap.start[block]), int(self._ends[block])
        cells = []
        for k in range(len(size)):
            letter, role = _cell(int(used[k]), int(pending[k]), int(size[k]))
            if low < edges[k + 1] and edges[k] < high:
                role = "bar.cursor"
            cells.append((letter, role))
        return in_line(cells)


def _cell(used: int, pending: int, size: int) -> Cell:
    """Return a cell, fuller the more is in use; only one entirely in use is full."""
    if not used:
        return "░", "inactive"
    role = "pending" if pending * 2 > used else "bar"
    if used == size:
        return ("▒" if role == "pending" else "█"), role
    return "▁▂▃▄▅▆▇"[min(used * 7 // size, 6)], role


def lay_segments(heap: Heap, width: int, zoom: int) -> Cells:
    """Lay out segments; ``zoom`` is how often a cell's bytes are halved, or doubled if negative."""
    total = int(heap.size.sum())
    size = _LEAST_CELL
    while total > size * width * _ROWS:
        size *= 2
    size = max(size >> zoom if zoom > 0 else size << -zoom, _LEAST_CELL)
    while total // (size * width) > _MOST_ROWS:
        size *= 2
    return Cells(heap, width, size)
