"""Which call sites would have to go for a failed request to be served.

All other blocks stay where they were. With less memory in use the allocator would have placed some
of them elsewhere, so this finds what certainly makes room, not all that could.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.oom.failed_request import Request, find_room
from snapreport.diagnosis.oom.verdict_types import Removal
from snapreport.figures.heap import Heap

_ALONE = 150
"""How many of the largest sites are tried alone: the others hold next to nothing."""
_PAIRED = 12
"""Of how many of the largest sites all pairs are tried."""
_SHOWN = 6


def find_removals(
    heap: Heap,
    request: Request,
    device_free: int,
    site: NDArray[np.int64],
    names: list[str],
    removable: NDArray[np.bool_],
) -> tuple[tuple[Removal, ...], int]:
    """Return the smallest sets of call sites without which a request would be served.

    Args:
        heap: the state in which it failed.
        request: what was asked for.
        device_free: bytes free on the device.
        site: int64, shape (n_blocks,): each block's call site.
        names: of the sites.
        removable: bool, shape (len(names),): the sites that may be taken away.

    Returns:
        the sets, those with the fewest bytes first; and how many sites were tried alone.
    """
    held = np.bincount(site, weights=heap.bytes, minlength=len(names)).astype(np.int64)
    order = [i for i in np.argsort(-held, kind="stable").tolist() if held[i] and removable[i]]

    def serves(chosen: tuple[int, ...]) -> bool:
        gone = np.zeros(len(names), np.bool_)
        gone[list(chosen)] = True
        return find_room(heap, request, ~gone[site]).serves(device_free)

    def sets(found: Sequence[tuple[int, ...]]) -> tuple[Removal, ...]:
        made = [
            Removal(tuple(names[i] for i in chosen), int(held[list(chosen)].sum()))
            for chosen in found
        ]
        return tuple(sorted(made, key=lambda each: each.bytes)[:_SHOWN])

    tried = order[:_ALONE]
    # All that is free in any form: if that and a site's own bytes are too few, do not try it.
    free = int(heap.size.sum() - heap.bytes.sum()) + device_free
    alone = [(i,) for i in tried if held[i] + free >= request.size and serves((i,))]
    if alone:
        return sets(alone), len(tried)
    pairs = [
        pair
        for pair in combinations(order[:_PAIRED], 2)
        if held[list(pair)].sum() + free >= request.size and serves(pair)
    ]
    if pairs:
        return sets(pairs), len(tried)
    return sets(_grown(order, serves)), len(tried)


def _grown(order: list[int], serves: Callable[[tuple[int, ...]], bool]) -> list[tuple[int, ...]]:
    """Remove the largest sites until the request is served, then put back those not needed."""
    low, high = 3, len(order)
    if high < low or not serves(tuple(order)):
        return []
    while low < high:  # the more is removed, the more room there is
        middle = (low + high) // 2
        if serves(tuple(order[:middle])):
            high = middle
        else:
            low = middle + 1
    chosen = order[:low]
    if len(chosen) <= _PAIRED:
        for i in list(reversed(chosen)):
            rest = tuple(other for other in chosen if other != i)
            if rest and serves(rest):
                chosen = list(rest)
    return [tuple(chosen)]
