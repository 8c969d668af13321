"""The most of a curve over many spans at once, and where it is first attained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.native.sorting import stable_order


def range_maxima(
    values: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of each span of a curve, and the first place that has it.

    Args:
        values: int64, shape (n,).
        low, high: int64, shape (m,): the span is ``low <= place < high``, never empty.

    Returns:
        int64, shape (m,): the maxima; and int64, shape (m,): their places.

    Each span is covered by two that are 2**k long. The maxima of all such spans come from those
    half as long, so one array is enough if the spans are answered in order of their length.
    """
    most, place = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
    if not len(low):
        return most, place
    power = np.frexp((high - low).astype(np.float64))[1] - 1  # the largest that fits
    order = stable_order(power)
    bounds = np.searchsorted(power[order], np.arange(int(power.max()) + 2))
    longest = values.copy()
    first = np.arange(len(values), dtype=np.int64)
    for k in range(int(power.max()) + 1):
        if k:
            half = 1 << (k - 1)
            later = longest[half:] > longest[:-half]
            first = np.where(later, first[half:], first[:-half])
            longest = np.maximum(longest[half:], longest[:-half])
        asked = order[bounds[k] : bounds[k + 1]]
        left, right = low[asked], high[asked] - (1 << k)
        # The two may overlap: then of equal maxima that of the left one comes first.
        at = np.where(longest[right] > longest[left], right, left)
        most[asked], place[asked] = longest[at], first[at]
    return most, place


class Heights:
    """Answers which is the most of a curve over spans, in a bounded number of steps for each.

    Within a span whole blocks of the curve are known already, so that a span of a long recording
    takes about as long as one of a short recording.
    """

    BLOCK = 1024

    def __init__(self, values: NDArray[np.int64]) -> None:
        """Take a curve; int64, shape (n,), n > 0."""
        self.values = values
        self._blocks = np.maximum.reduceat(values, np.arange(0, len(values), self.BLOCK))

    def most(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most of each span ``low <= place < high``, none empty; int64, shape (m,)."""
        spans = zip(low.tolist(), high.tolist(), strict=True)
        return np.array([self._most(first, end) for first, end in spans], np.int64)

    def first(self, low: int, high: int) -> int:
        """Return the first place of a span that has its most."""
        most = self._most(low, high)
        for block in range(low // self.BLOCK, len(self._blocks)):
            begin = max(block * self.BLOCK, low)
            end = min((block + 1) * self.BLOCK, high)
            if self._blocks[block] >= most and (self.values[begin:end] == most).any():
                return begin + int(self.values[begin:end].argmax())
        raise AssertionError("the most of a span is somewhere in it")

    def _most(self, low: int, high: int) -> int:
        begin, end = -(-low // self.BLOCK), high // self.BLOCK
        if end <= begin:
            return int(self.values[low:high].max())
        parts = (
            self.values[low : begin * self.BLOCK],
            self._blocks[begin:end],
            self.values[end * self.BLOCK : high],
        )
        return max(int(part.max()) for part in parts if len(part))
