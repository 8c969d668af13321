"""Number the actions of events; their names are compared once, for all callers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_each, shared
from snapreport.model.history import Events


def code_actions(other: Events, codes: Mapping[str, int], unknown: int) -> NDArray[np.int64]:
    """Return a number for the action of each event.

    Args:
        other: the events.
        codes: the numbers, by action.
        unknown: the number for all other actions.

    Returns:
        int64, shape (len(other),).
    """
    names, place = _distinct(other)
    return np.array([codes.get(name, unknown) for name in names], np.int64)[place]


@once_for_each
def _distinct(other: Events) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct actions, and which of them each event has."""
    number = {name: i for i, name in enumerate(dict.fromkeys(other.action))}
    place = np.fromiter(map(number.__getitem__, other.action), np.int64, len(other.action))
    return list(number), shared(place)
