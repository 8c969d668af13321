"""Which call sites a request that failed would have needed to do without.

All else stays where it was: with less memory in use the allocator would have put some of it
elsewhere, so this says what makes room for certain, not all that could.
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
"""So many sites are tried by themselves, the largest: beyond them they hold next to nothing."""
_PAIRED = 12
"""All pairs of so many are tried."""
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
        the sets, those of the least bytes first; and how many sites were tried by themselves.
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
    # What is free in any form, and the site's own: if that is too little there is no need to look.
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
    """Take the largest away one after the other until it is enough; then leave out what is idle."""
    low, high = 3, len(order)
    if high < low or not serves(tuple(order)):
        return []
    while low < high:  # the more is taken away, the more room there is
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
