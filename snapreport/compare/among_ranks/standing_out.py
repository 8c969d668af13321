"""Which of several values stand out from the others.

A value stands out if it is far from the median by three measures at once: by a share that someone
would act on, by five times the usual spread (a normal spread leaves one value in two million beyond
it), and by twice as much as the furthest value that does not stand out. The third is for
spreads with long tails, such as uneven experts: there the largest of a thousand values is far from
the median, but so is the next. Of few values the spread is not well known, so the second and third
ask for more: of eight values for 7.5 times the spread, and for three times as much as the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SPREADS = 5
_AS_FAR = 2
_OF_FEW = 4
"""How many values double what is asked for; of many more there is next to no change."""
_MOST = 4
"""One in so many values stands out at most: more of them are a group."""
TO_NORMAL = 1.4826
"""Turns the median of the distances from the median into a normal spread's standard deviation."""


def spread_of(values: NDArray[Any]) -> float:
    """Return how far values lie from their median, as a standard deviation would be, robustly."""
    middle = np.median(values)
    return TO_NORMAL * float(np.median(np.abs(values - middle)))


def stand_out(
    values: NDArray[np.int64], floor: float | NDArray[np.float64], judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Say which values stand out: 1 above the others, -1 below, 0 not.

    Args:
        values: int64, shape (n,).
        floor: what a value has to be from the median at least; also one for each.
        judged: bool, shape (n,): those that are judged and that the median is taken of.
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
