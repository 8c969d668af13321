"""How the size of each allocation depends on the batch: fixed, even, or with the square of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SizeLaws:
    """The requested sizes of allocations at several sizes of the batch; (n,) unless stated."""

    batches: NDArray[np.int64]
    """Ascending, at least two; shape (k,)."""
    sizes: NDArray[np.int64]
    """In bytes; shape (k, n)."""
    even: NDArray[np.bool_]
    """Whether a line with a whole number of bytes for each sample leads through all of them."""
    curved: NDArray[np.bool_]
    """Whether ``a * batch + c * batch ** 2`` does, in whole numbers, and no line from above 0."""
    square: NDArray[np.bool_]
    """Which of the curved are expected to be so: some may be lines from just below 0, too."""
    each: NDArray[np.int64]
    """Of the curved: ``a``; else 0. Likewise ``c``."""
    squared: NDArray[np.int64]

    @property
    def regular(self) -> NDArray[np.bool_]:
        """Which sizes follow a law."""
        return self.even | self.curved

    def expected(self, batch: int) -> NDArray[np.int64]:
        """Return the sizes at a batch."""
        return np.where(self.square, self._curve(batch), self._line(batch))

    def bounds(self, batch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the most sizes, over all laws that each may follow."""
        line, curve = self._line(batch), self._curve(batch)
        one = np.where(self.curved & ~self.even, curve, line)
        other = np.where(self.curved, curve, line)
        return np.minimum(one, other), np.maximum(one, other)

    def coefficients(self, batch: int) -> tuple[NDArray[np.float64], ...]:
        """Return what is fixed, what each sample adds, and what its square does, near a batch."""
        low = self._piece(batch)
        slope = np.diff(self.sizes[low : low + 2], axis=0)[0] / np.diff(self.batches[low : low + 2])
        each = np.where(self.square, self.each, slope)
        squared = np.where(self.square, self.squared, 0).astype(np.float64)
        fixed = np.where(self.square, 0, self.sizes[low] - slope * self.batches[low])
        return fixed, each, squared

    def _piece(self, batch: int) -> int:
        place = int(np.searchsorted(self.batches, batch)) - 1
        return min(max(place, 0), len(self.batches) - 2)

    def _line(self, batch: int) -> NDArray[np.int64]:
        low = self._piece(batch)
        rise, run = self.sizes[low + 1] - self.sizes[low], self.batches[low + 1] - self.batches[low]
        found = self.sizes[low] + np.rint(rise * ((batch - self.batches[low]) / run))
        sizes: NDArray[np.int64] = np.maximum(found, 0).astype(np.int64)
        return sizes

    def _curve(self, batch: int) -> NDArray[np.int64]:
        return self.each * batch + self.squared * batch**2


def find_laws(batches: NDArray[np.int64], sizes: NDArray[np.int64]) -> SizeLaws:
    """Tell which law each allocation follows.

    A line through two points that begins below 0 is no size that has a fixed part: it grows faster
    than the batch, or, as of sequences of which the last token is cut off, by one sample less.

    Args:
        batches: int64, shape (k,), ascending, k at least 2.
        sizes: int64, shape (k, n), in bytes.
    """
    first, last = batches[0], batches[-1]
    run = last - first
    rise = sizes[-1] - sizes[0]
    slope = rise // run
    begin = sizes[0] - slope * first
    even = (rise % run == 0) & (rise >= 0) & (begin >= -slope)
    even &= (sizes == begin + slope * batches[:, None]).all(axis=0)
    # s / batch = a + c * batch is a line, too.
    products = sizes[-1] * first - sizes[0] * last
    whole = (products > 0) & (products % (first * last * run) == 0)
    squared = np.where(whole, products // (first * last * run), 0)
    each = np.where(whole, sizes[0] // first - squared * first, 0)
    points = batches[:, None]
    curved = whole & (each >= 0) & (sizes == each * points + squared * points**2).all(axis=0)
    each, squared = np.where(curved, each, 0), np.where(curved, squared, 0)
    return SizeLaws(batches, sizes, even, curved, curved & (~even | (each == 0)), each, squared)
