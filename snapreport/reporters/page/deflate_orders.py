"""Orders in which long columns of the page's data compress best; the page restores the original.

``templates/app/lib/data/orders.ts`` does the reverse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import Allocations
from snapreport.native.sorting import stable_order

Ids = NDArray[np.int64]

_KINDS = 4
"""Kinds of events: other than an allocation's, alloc, free_requested, free_completed."""


def by_kind(values: NDArray[np.int64], allocations: Allocations) -> NDArray[np.int64]:
    """Order one number per event by what happened there and at the event before.

    The time between two events depends on their kinds, so gzip does better if equal pairs of kinds
    are together, in event order. That made the times of real recordings an eighth smaller.

    Args:
        values: int64, shape (n_events,).
    """
    kinds = np.zeros(len(values), dtype=np.uint8)
    # If an event is in two columns, the later column decides.
    columns = (
        (2, allocations.free_requested_event),
        (3, allocations.free_event),
        (1, allocations.alloc_event),
    )
    for kind, events in columns:
        kinds[events[(events >= 0) & (events < len(values))]] = kind
    both = kinds * np.uint8(_KINDS)
    both[1:] += kinds[:-1]
    ordered: NDArray[np.int64] = values[stable_order(both)]
    return ordered


def by_last_use(ids: Ids) -> tuple[Ids, Ids]:
    """Return how many places back each id was last used; freed addresses are soon used again.

    Args:
        ids: shape (n,).

    Returns:
        The distances, 0 at the first use of an id, and the ids in order of first use.
    """
    order = stable_order(ids)
    same = np.zeros(len(ids), dtype=bool)
    ordered = ids[order]
    np.equal(ordered[1:], ordered[:-1], out=same[1:])
    back = np.zeros(len(ids), dtype=np.int64)
    back[order[same]] = (order - np.roll(order, 1))[same]
    return back, ids[back == 0]
