"""Judge why a request for memory failed, from the state at the failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites
from snapreport.figures.segments import (
    Heap,
    Holes,
    find_holes,
    heap_at,
    returnable_bytes,
    whole_bytes,
)
from snapreport.ground.memoize import once_for_both
from snapreport.ground.native.columns import sum_groups
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import (
    SMALL_SEGMENT,
    AllocatorSettings,
    possible_settings,
    segment_sizes,
)
from snapreport.history.block_sizes import SMALL_SIZE
from snapreport.model.diagnoses import OomEvent
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.replays import LARGE, SMALL
from snapreport.model.snapshot import NO_ID
from snapreport.roles.stack_kinds import HAS_FRAMES

Cause = Literal[
    "full",
    "fragmented",
    "stranded",
    "locked",
    "waiting",
    "other-stream",
    "giant",
    "foreign",
    "limit",
    "unclear",
]
"""Why a request failed; ``CAUSES`` has the words."""


CAUSES: dict[Cause, str] = {
    "full": "too much was live",
    "fragmented": "enough was free, but in pieces",
    "stranded": "enough was free, but in whole segments that a private pool keeps",
    "locked": "enough was free, but in another pool",
    "waiting": "enough was freed, but another stream might still use it",
    "other-stream": "enough was free, but for another stream",
    "giant": "the request was too large for the device",
    "foreign": "something outside PyTorch took it",
    "limit": "refused although the device had room",
    "unclear": "a free piece would have served it; the recording does not show why it did not",
}


@dataclass(frozen=True)
class PoolUse:
    """What one pool holds on one stream, in bytes."""

    pool: str
    """``default``, or ``private 1,0`` with PyTorch's two numbers."""
    stream: int
    """As in the recording; 0 is the default stream."""
    kind: str
    """``small`` serves requests up to 1 MiB, ``large`` the others; or ``unknown``."""
    reserved: int
    allocated: int
    pending: int
    """Freed by the program, but another stream may still use it."""
    inactive: int
    """Free for requests of this pool, stream and kind."""
    largest_hole: int
    returnable: int
    """The part of ``inactive`` that could go back to the driver: whole segments, or whole pages of
    expandable ones. 0 for a private pool."""
    whole: int
    """The same, but for a private pool what it would give back if nothing used the pool."""
    serves: bool
    """Whether the failed request could have been served from here."""


@dataclass(frozen=True)
class Removal:
    """Call sites without which the request would have been served."""

    sites: tuple[str, ...]
    bytes: int
    """Block bytes that they hold."""


@dataclass(frozen=True)
class OomVerdict(OomEvent):
    """A request that failed, and the state at that moment; all sizes in bytes."""

    reserved: int
    cause: Cause
    alone: bool
    """Whether the bytes of this cause alone would have been enough. If several causes are enough
    only together, ``cause`` is the largest."""
    stream: int
    pool: str
    """The pool that the request was for, as far as is known; named as in ``PoolUse``."""
    needed: int
    """What the driver would have had to give: whole segments or pages."""
    needed_most: int
    """An upper bound of ``needed``: which expandable segment would have grown is not recorded."""
    missing: int
    """needed - device_free; 0 or less if the device had room."""
    slack: int
    pending: int
    inactive: int
    pools: tuple[PoolUse, ...]
    """Most reserved first."""
    hole: int
    """The largest hole in segments of the request's pool, stream and kind."""
    pieces: int
    """Inactive bytes of the request's pool and stream that could not be returned, small and large
    segments together, without ``stranded``."""
    stranded: int
    """Inactive bytes of the request's pool and stream in whole segments or pages that nothing used,
    if the pool is private: such a pool gives none back while it lives."""
    locked: int
    """Inactive bytes of other pools that could not be returned."""
    other_streams: int
    """Inactive bytes of the request's pool on other streams that could not be returned."""
    returnable: int
    """Inactive bytes that the allocator could have given back to the driver, but had not."""
    foreign: int
    """The least that memory outside PyTorch's allocator had grown: PyTorch could have had more
    earlier than at the failure. 0 if that does not show."""
    ceiling: int
    """reserved + device_free: all that the process could have had at that moment."""
    most_reserved: int
    """The most reserved up to the failure: a limit of the process cannot be lower."""
    expandable: bool
    """Whether the request would have come from an expandable segment."""
    limits: tuple[str, ...]
    """Recorded settings, as NAME:VALUE, because of which a request may fail on a free device."""
    removals: tuple[Removal, ...]
    """The smallest sets found, all of as many sites; those with the fewest bytes first."""
    checked: int
    """How many call sites were tried alone."""
    recovered: bool
    """Whether the program went on to allocate at least as much as the request."""


@dataclass(frozen=True)
class Request:
    """A request for memory, and what of a heap could serve it: a hole, or memory of the driver.

    Source: CUDACachingAllocator.cpp, ``get_free_block``, ``get_allocation_size``,
    ``try_allocate_expandable_block``.
    """

    size: int
    """In bytes, rounded as the allocator does."""
    stream: int
    settings: tuple[AllocatorSettings, ...]
    """What the program may have run under: several only differ in the size of large segments."""
    pool: int = NO_ID
    """Row of ``History.pools`` for a private pool, NO_ID for the default pool."""

    @property
    def kind(self) -> int:
        """The kind of segments that serve it."""
        return SMALL if self.size <= SMALL_SIZE else LARGE

    def sources(self, heap: Heap) -> NDArray[np.bool_]:
        """Say which segments could serve it; (n_segments,)."""
        pool = ~heap.private if self.pool == NO_ID else heap.private & (heap.pool == self.pool)
        same: NDArray[np.bool_] = (heap.stream == self.stream) & (heap.kind == self.kind)
        return pool & same

    def fitting(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which holes of its segments the allocator would take for it; (n,)."""
        limit = self.settings[0].max_split_size
        if self.size < limit:
            return (sizes >= self.size) & (sizes < limit)
        room = min(each.rounding for each in self.settings)
        return (sizes >= self.size) & (sizes < self.size + room)

    def from_driver(self, heap: Heap, holes: Holes) -> tuple[int, int]:
        """Return the least and the most bytes the driver has to give: a segment, or pages.

        An expandable segment grows after its last block, so the free part of a page there need not
        come from the driver. Which of several segments grows depends on the addresses they have
        left, which the recording does not show. Whole free pages are assumed to be given back.
        """
        asked = np.array([self.size])
        if not self.settings[0].expandable_segments:
            whole = [int(segment_sizes(asked, each)[0]) for each in self.settings]
            return min(whole), max(whole)
        at_end = (
            self.sources(heap)[holes.segment]
            & heap.expandable[holes.segment]
            & (holes.start + holes.size == heap.size[holes.segment])
        )
        least, most = [], []
        for each in self.settings:
            granule = SMALL_SEGMENT if self.kind == SMALL else each.large_segment_size
            rest = np.minimum(-holes.start[at_end] % granule, holes.size[at_end])
            grown = max(self.size - int(rest.max(initial=0)), 0)
            least.append(-(-grown // granule) * granule)
            most.append(-(-self.size // granule) * granule)
        return min(least), max(most)


@dataclass(frozen=True)
class Room:
    """What a heap has for a request, in bytes."""

    hole: int
    """The largest hole in segments that could serve it."""
    fits: bool
    """Whether the allocator would take one of the holes."""
    needed: int
    """The least that the driver would have to give if no hole is taken."""
    needed_most: int
    returnable: int
    """What the allocator could first give back to the driver."""

    def serves(self, device_free: int) -> bool:
        """Say whether the request would succeed for certain."""
        return self.fits or self.needed_most <= device_free + self.returnable


def find_room(heap: Heap, request: Request, kept: NDArray[np.bool_] | None = None) -> Room:
    """Return the room that a heap has for a request.

    Args:
        heap: the segments and blocks.
        request: what is asked for.
        kept: bool, shape (n_blocks,): the blocks to keep, the others being freed; None for all.
    """
    holes = find_holes(heap, kept)
    needed, needed_most = request.from_driver(heap, holes)
    own = holes.size[request.sources(heap)[holes.segment]]
    return Room(
        hole=int(own.max(initial=0)),
        fits=bool(request.fitting(own).any()),
        needed=needed,
        needed_most=needed_most,
        # While a graph is captured into a private pool the allocator gives nothing back.
        returnable=int(returnable_bytes(heap, holes).sum()) if request.pool == NO_ID else 0,
    )


_GIANT = 0.5
"""A request for at least this part of the ceiling is called giant: little else fits beside it."""
_KINDS = {SMALL: "small", LARGE: "large"}


def judge(tables: History, device: DeviceFigures, oom: OomEvent) -> OomVerdict | None:
    """Say why a request failed; None if it is not known what the allocator had.

    It is not known without an allocator (profiler files), nor where segment events are missing:
    then less is reserved than in use, or some blocks in use are in no segment.

    Before torch 2.13 the recording does not say for which pool a request was. It is assumed to be
    the default pool, unless that could have served it and an allocation nearby was in a private
    one.

    Args:
        oom: one of the device's failed requests.
    """
    known = _known(device, tables)
    if oom.event not in known:
        known[oom.event] = _judge(tables, device, oom)
    return known[oom.event]


@once_for_both
def _known(_: DeviceFigures, __: History) -> dict[int, OomVerdict | None]:
    """Cache the verdicts on a device's failed requests, by event."""
    return {}


def _judge(tables: History, device: DeviceFigures, oom: OomEvent) -> OomVerdict | None:
    if oom.reserved is None or oom.reserved < int(device.curves["active"][oom.event + 1]):
        return None
    history = device.history
    at = int(np.flatnonzero(history.other.event == oom.event)[0])
    heap = heap_at(tables, device, oom.event)
    if int(heap.bytes.sum()) != int(device.curves["active"][oom.event + 1]):
        return None
    settings = possible_settings(tables.settings, history)
    recorded = int(history.other.pool[at])
    pool = recorded if tables.private[recorded] else NO_ID
    request = Request(oom.size, int(history.other.stream[at]), settings, pool)
    room = find_room(heap, request)
    if recorded == NO_ID and room.serves(oom.device_free):
        for pool in _pools_nearby(tables, device, request.stream, oom.event):
            private = replace(request, pool=pool)
            instead = find_room(heap, private)
            if not instead.serves(oom.device_free):
                request, room = private, instead
                break
    # The request failed, so at least this much was needed.
    needed = room.needed if room.needed > oom.device_free else room.needed_most
    own_pool = _pool_name(tables.pools, request.pool)
    pools = _find_pools(heap, tables.pools, request)
    event = oom.event + 1
    active, requested = (int(device.curves[name][event]) for name in ("active", "requested"))
    reserved_before = device.reserved_bytes[device.reserved_events <= oom.event]
    ceiling = oom.reserved + oom.device_free
    foreign = max(_best_ceiling(device, oom) - ceiling, 0)
    # Returnable memory does not count as kept, but during a capture none is returned.
    kept = {
        each: each.inactive - (each.returnable if request.pool == NO_ID else 0) for each in pools
    }
    own = [each for each in pools if each.pool == own_pool]
    mine = [each for each in own if each.stream == request.stream]
    stranded = sum(each.whole for each in mine) if request.pool != NO_ID else 0
    pieces = sum(kept[each] for each in mine) - stranded
    other_streams = sum(kept[each] for each in own if each.stream != request.stream)
    locked = sum(kept[each] for each in pools if each.pool != own_pool)
    pending = int(heap.bytes[heap.pending].sum())
    cause, alone = _find_cause(
        request,
        room,
        needed,
        oom.device_free,
        ceiling,
        {
            "fragmented": pieces,
            "stranded": stranded,
            "locked": locked,
            "waiting": pending,
            "other-stream": other_streams,
            "foreign": foreign,
        },
        rejects=any(each.startswith("throw_on_cudamalloc_oom") for each in _limits(settings[0])),
    )
    removals, checked = _find_removals(tables, device, heap, request, oom.device_free)
    later = history.allocations.alloc_event > oom.event
    return OomVerdict(
        **vars(oom),
        cause=cause,
        alone=alone,
        stream=request.stream,
        pool=own_pool,
        needed=needed,
        needed_most=room.needed_most,
        missing=needed - oom.device_free,
        slack=active - requested,
        pending=active - oom.allocated,
        inactive=oom.reserved - active,
        pools=pools,
        hole=room.hole,
        pieces=pieces,
        stranded=stranded,
        locked=locked,
        other_streams=other_streams,
        returnable=room.returnable,
        foreign=foreign,
        ceiling=ceiling,
        most_reserved=int(reserved_before.max(initial=0)),
        expandable=settings[0].expandable_segments,
        limits=_limits(settings[0]),
        removals=removals if cause not in ("limit", "unclear") else (),
        checked=checked,
        recovered=int(history.allocations.size[later].sum()) >= oom.size,
    )


def _limits(settings: AllocatorSettings) -> tuple[str, ...]:
    """Return the recorded settings because of which a request may fail on a free device."""
    share = settings.memory_fraction
    fraction = (f"per_process_memory_fraction:{share:g}",) if 0 < share < 1 else ()
    return (*fraction, *settings.not_modelled)


def _find_pools(heap: Heap, pools: list[tuple[int, int]], request: Request) -> tuple[PoolUse, ...]:
    """Add up what each pool holds on each stream, by kind of segments; most reserved first."""
    holes = find_holes(heap)
    serves = request.sources(heap)
    keys = np.stack([np.where(heap.private, heap.pool, NO_ID), heap.stream, heap.kind])
    used, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.reshape(-1)

    def total(of: NDArray[np.int64], values: NDArray[np.int64]) -> list[int]:
        sums: list[int] = sum_groups(group[of], values, used.shape[1]).tolist()
        return sums

    largest = np.zeros(used.shape[1], np.int64)
    np.maximum.at(largest, group[holes.segment], holes.size)
    columns = zip(  # in the order of the fields
        total(np.arange(len(heap.size)), heap.size),
        total(heap.segment[~heap.pending], heap.bytes[~heap.pending]),
        total(heap.segment[heap.pending], heap.bytes[heap.pending]),
        total(holes.segment, holes.size),
        largest.tolist(),
        total(holes.segment, returnable_bytes(heap, holes)),
        total(holes.segment, whole_bytes(heap, holes)),
        [bool(serves[group == k].any()) for k in range(used.shape[1])],
        strict=True,
    )
    found = [
        PoolUse(_pool_name(pools, pool), stream, _KINDS.get(kind, "unknown"), *column)
        for (pool, stream, kind), column in zip(used.T.tolist(), columns, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: -each.reserved))


def _find_cause(
    request: Request,
    room: Room,
    needed: int,
    device_free: int,
    ceiling: int,
    shares: dict[Cause, int],
    *,
    rejects: bool,
) -> tuple[Cause, bool]:
    """Name the cause, and say whether that alone was enough.

    Args:
        request: what was asked for.
        room: what the heap had for it.
        needed: bytes that the driver would have had to give.
        device_free: bytes free on the device.
        ceiling: bytes free on the device plus all that PyTorch had reserved.
        shares: bytes that each cause kept from the request.
        rejects: whether requests above the limit of the process are refused before anything that is
            cached goes back to the driver.
    """
    if room.fits:
        return "unclear", False
    if needed <= device_free:
        return "limit", True
    if room.serves(device_free):
        return ("limit" if rejects else "unclear"), rejects
    if request.size > ceiling + shares["foreign"]:
        return "giant", True
    missing = needed - device_free
    most = max(shares, key=lambda cause: shares[cause])
    if shares[most] >= missing:
        return most, True
    if sum(shares.values()) >= missing:
        return most, False
    return ("giant" if request.size >= _GIANT * ceiling else "full"), True


def _pool_name(pools: list[tuple[int, int]], pool: int) -> str:
    return "default" if pool == NO_ID else f"private {pools[pool][0]},{pools[pool][1]}"


def _pools_nearby(tables: History, device: DeviceFigures, stream: int, event: int) -> Iterator[int]:
    """Yield the private pools in use around an event, the likeliest first.

    These are the pools of the last allocation on the stream, the last on any stream, and the next.
    """
    rows = device.history.allocations
    born = rows.alloc_event
    found = []
    for before in ((born < event) & (rows.stream == stream), born < event):
        places = np.flatnonzero(before)
        found += [int(rows.pool[places[born[places].argmax()]])] if len(places) else []
    after = np.flatnonzero(born > event)
    found += [int(rows.pool[after[born[after].argmin()]])] if len(after) else []
    for pool in dict.fromkeys(found):
        if tables.private[pool]:
            yield pool


def _best_ceiling(device: DeviceFigures, oom: OomEvent) -> int:
    """Return the most bytes that PyTorch could have had at any known moment up to a failure."""
    known = device.reserved_bytes[device.reserved_events <= oom.event].tolist()
    known += [
        other.reserved + other.device_free
        for other in device.ooms
        if other.event <= oom.event and other.reserved is not None
    ]
    return max(known, default=0)


_ALONE = 150
"""How many of the largest sites are tried alone: the others hold next to nothing."""
_PAIRED = 12
"""Of how many of the largest sites all pairs are tried."""
_SHOWN = 6


def _find_removals(
    tables: History, device: DeviceFigures, heap: Heap, request: Request, device_free: int
) -> tuple[tuple[Removal, ...], int]:
    """Return the smallest sets of call sites without which a request would be served.

    All other blocks stay where they were. With less memory in use the allocator would have placed
    some of them elsewhere, so this finds what certainly makes room, not all that could.

    Returns:
        the sets, those with the fewest bytes first; and how many sites were tried alone.
    """
    number, names = label_sites(device.history, tables.stacks)
    site = number[heap.row]
    removable = np.zeros(len(names), np.bool_)
    removable[number[device.missing == HAS_FRAMES]] = True
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
