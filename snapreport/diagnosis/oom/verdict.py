"""Judge why a request for memory failed, from the state at the failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.oom.failed_request import Request, Room, find_room
from snapreport.diagnosis.oom.removals import find_removals
from snapreport.diagnosis.oom.verdict_types import Cause, OomVerdict, PoolUse, Removal
from snapreport.figures.callsites import label_sites
from snapreport.figures.heap import Heap, find_holes, heap_at, returnable_bytes, whole_bytes
from snapreport.frames.missing_stacks import HAS_FRAMES
from snapreport.ground.memoize import once_for_both
from snapreport.history.allocator_settings import AllocatorSettings, possible_settings
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.recording_facts import OomEvent
from snapreport.model.segment_lives import LARGE, SMALL
from snapreport.model.snapshot import NO_ID
from snapreport.native.sorting import sum_groups

_GIANT = 0.5
"""A request for at least this part of the ceiling is called giant: little else fits beside it."""
_DEFAULT_POOL = (0, 0)
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
    pool = NO_ID if recorded == NO_ID or tables.pools[recorded] == _DEFAULT_POOL else recorded
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
    pools = find_pools(heap, tables.pools, request)
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
    removals, checked = _removals(tables, device, heap, request, oom.device_free)
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


def find_pools(heap: Heap, pools: list[tuple[int, int]], request: Request) -> tuple[PoolUse, ...]:
    """Add up what each pool holds on each stream, by kind of segments; most reserved first."""
    holes = find_holes(heap)
    returnable = returnable_bytes(heap, holes)
    serves = request.sources(heap)
    keys = np.stack([np.where(heap.private, heap.pool, NO_ID), heap.stream, heap.kind])
    used, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.reshape(-1)

    def total(of: NDArray[np.int64], values: NDArray[np.int64]) -> list[int]:
        sums: list[int] = sum_groups(group[of], values, used.shape[1]).tolist()
        return sums

    largest = np.zeros(used.shape[1], np.int64)
    np.maximum.at(largest, group[holes.segment], holes.size)
    columns = zip(
        used.T.tolist(),
        total(np.arange(len(heap.size)), heap.size),
        total(heap.segment[~heap.pending], heap.bytes[~heap.pending]),
        total(heap.segment[heap.pending], heap.bytes[heap.pending]),
        total(holes.segment, holes.size),
        largest.tolist(),
        total(holes.segment, returnable),
        total(holes.segment, whole_bytes(heap, holes)),
        strict=True,
    )
    found = [
        PoolUse(
            pool=_pool_name(pools, pool),
            stream=stream,
            kind=_KINDS.get(kind, "unknown"),
            reserved=reserved,
            allocated=allocated,
            pending=pending,
            inactive=inactive,
            largest_hole=hole,
            returnable=back,
            whole=whole,
            serves=bool(serves[group == k].any()),
        )
        for k, (
            (pool, stream, kind),
            reserved,
            allocated,
            pending,
            inactive,
            hole,
            back,
            whole,
        ) in enumerate(columns)
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
        if pool != NO_ID and tables.pools[pool] != _DEFAULT_POOL:
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


def _removals(
    tables: History, device: DeviceFigures, heap: Heap, request: Request, device_free: int
) -> tuple[tuple[Removal, ...], int]:
    """Find the call sites whose removal would make room, and how many were tried."""
    number, names = label_sites(device.history, tables.stacks)
    known = np.zeros(len(names), np.bool_)
    known[number[device.missing == HAS_FRAMES]] = True
    return find_removals(heap, request, device_free, number[heap.row], names, known)
