"""How the size of each allocation depends on the batch size: fixed, linear or quadratic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SizeLaws:
    """The requested sizes of allocations at several batch sizes; shape (n,) unless stated."""

    batches: NDArray[np.int64]
    """Ascending, at least two; shape (k,)."""
    sizes: NDArray[np.int64]
    """In bytes; shape (k, n)."""
    regular: NDArray[np.bool_]
    """Which follow a law; the others are interpolated linearly between recorded batch sizes."""
    square: NDArray[np.bool_]
    """Which follow ``fixed + each * batch + squared * batch ** 2`` and are not linear."""
    fixed: NDArray[np.int64]
    """In bytes, as ``each`` and ``squared``; all three are 0 where ``square`` is False."""
    each: NDArray[np.int64]
    squared: NDArray[np.int64]

    def expected(self, batch: int, most: int = 1 << 62) -> NDArray[np.int64]:
        """Return the sizes at a batch size, in bytes, none above ``most``."""
        curve = self.fixed + self.each * float(batch) + self.squared * float(batch) ** 2
        found = np.rint(np.where(self.square, curve, self._line(batch)))
        sizes: NDArray[np.int64] = np.clip(found, 0, most).astype(np.int64)
        return sizes

    def coefficients(self, batch: int) -> tuple[NDArray[np.float64], ...]:
        """Return the constant, linear and quadratic coefficients near a batch size."""
        low = self._piece(batch)
        slope = np.diff(self.sizes[low : low + 2], axis=0)[0] / np.diff(self.batches[low : low + 2])
        each = np.where(self.square, self.each, slope)
        begin = self.sizes[low] - slope * self.batches[low]
        fixed = np.where(self.square, self.fixed, begin)
        return fixed, each, self.squared.astype(np.float64)

    def _piece(self, batch: int) -> int:
        place = int(np.searchsorted(self.batches, batch)) - 1
        return min(max(place, 0), len(self.batches) - 2)

    def _line(self, batch: int) -> NDArray[np.float64]:
        low = self._piece(batch)
        rise, run = self.sizes[low + 1] - self.sizes[low], self.batches[low + 1] - self.batches[low]
        line: NDArray[np.float64] = self.sizes[low] + rise * ((batch - self.batches[low]) / run)
        return line


def find_laws(batches: NDArray[np.int64], sizes: NDArray[np.int64]) -> SizeLaws:
    """Find which law each allocation follows.

    A line whose constant is negative is not linear growth with a fixed part: the size grows faster
    than the batch, or, where the last token of sequences is cut off, by one sample less. With three
    or more sizes a quadratic law may have a constant too, as for tokens put before each sequence;
    with two, that cannot be distinguished from a line.

    Args:
        batches: int64, shape (k,), ascending, k at least 2.
        sizes: int64, shape (k, n), in bytes.
    """
    points = batches[:, None]
    known = batches.tolist()
    slope = (sizes[-1] - sizes[0]) // (known[-1] - known[0])
    begin = sizes[0] - slope * known[0]
    even = (slope >= 0) & (begin >= -slope) & (sizes == begin + slope * points).all(axis=0)
    zero = np.zeros_like(sizes[0])
    curves = [_curve((0, known[0], known[-1]), (zero, sizes[0], sizes[-1]))]
    if len(known) > 2:
        middle = len(known) // 2
        curves.append(
            _curve((known[0], known[middle], known[-1]), (sizes[0], sizes[middle], sizes[-1]))
        )
    square, law = np.zeros_like(even), np.zeros((3, *even.shape), np.int64)
    for fixed, each, squared in curves:
        # It must grow from the first sample on: flat first and rising later is a threshold.
        curved = (squared > 0) & (each >= np.where(fixed == 0, 0, -2 * squared))
        curved &= fixed + each + squared >= 0
        curved &= (sizes == fixed + (each + squared * points) * points).all(axis=0)
        curved &= ~square & (~even | (each == 0))
        law[:, curved] = np.stack([fixed, each, squared])[:, curved]
        square |= curved
    return SizeLaws(batches, sizes, even | square, square, *law)


def _curve(x: Sequence[int], y: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], ...]:
    """Return constant, linear and quadratic coefficients of the curve through three points.

    They are exact only if they are whole numbers.
    """
    first, second = (y[1] - y[0]) // (x[1] - x[0]), (y[2] - y[1]) // (x[2] - x[1])
    squared = (second - first) // (x[2] - x[0])
    each = first - squared * (x[0] + x[1])
    return y[0] - (each + squared * x[0]) * x[0], each, squared
