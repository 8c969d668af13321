"""Find the values that stand out from the others.

A value stands out if its distance from the median is large by three measures at once: it is worth
acting on, it is five times the usual spread (a normal distribution has one value in two million
beyond that), and it is twice that of the furthest value that does not stand out. The third measure
is for long tails, as with uneven experts: there the largest of a thousand values is far from the
median, but so is the next. The spread of few values is not well known, so the second and third
measures then ask for more: with eight values, 7.5 times the spread and three times the next value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPREADS = 5
_AS_FAR = 2
_OF_FEW = 4
"""With this many values the second and third measures double; with many more they hardly change."""
_MOST = 4
"""At most one in this many values stands out: more of them are a group."""
TO_NORMAL = 1.4826
"""Factor from the median absolute deviation to a normal distribution's standard deviation."""


def spread_of(values: NDArray[Any]) -> float:
    """Return a robust estimate of the standard deviation, from the median absolute deviation."""
    middle = np.median(values)
    return TO_NORMAL * float(np.median(np.abs(values - middle)))


def stand_out(
    values: NDArray[np.int64], floor: float | NDArray[np.float64], judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Say which values stand out: 1 above the others, -1 below, 0 not.

    Args:
        values: int64, shape (n,).
        floor: the least distance from the median; one for all values, or one for each.
        judged: bool, shape (n,): the values to judge; the median is of these.
    """
    found = np.zeros(len(values), np.int8)
    known = values[judged]
    if len(known) < 3:
        return found
    away = values - np.sort(known)[(len(known) - 1) // 2]
    few = _OF_FEW / len(known)
    spreads = SPREADS * (1 + few) * spread_of(known)
    least = np.maximum(np.broadcast_to(floor, values.shape), spreads)
    for sign in (1, -1):
        rows = np.flatnonzero(judged)
        rows = rows[np.argsort(-sign * away[rows], kind="stable")]
        far = sign * away[rows]
        beyond = far >= np.maximum(least[rows], 1)
        for count in range(min(max(len(rows) // _MOST, 1), len(rows) - 2), 0, -1):
            if beyond[:count].all() and far[count - 1] >= _AS_FAR * (1 + few) * far[count]:
                found[rows[:count]] = sign
                break
    return found
