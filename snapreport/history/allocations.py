"""Build the allocations of a device from pairs of events and final blocks, in birth order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import count_before, is_among, stable_order, unique
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import AllocatorSettings
from snapreport.history.block_sizes import (
    find_unsplit_pools,
    recover_block_sizes,
    round_sizes,
)
from snapreport.history.pairing import ABSENT, Pairs
from snapreport.model.history import START, Allocations
from snapreport.model.replays import SegmentLives
from snapreport.model.snapshot import (
    INACTIVE,
    NO_ID,
    NO_STACK,
    NO_TIME,
    PENDING,
    Segments,
    StackTable,
    Trace,
)


@dataclass(frozen=True, eq=False)
class Held:
    """Which allocation each final block holds."""

    row: NDArray[np.int32]
    """int32, shape (n_blocks,): rows of the pairs, NO_ID where none."""
    untouched: NDArray[np.int64]
    """Blocks in use whose address no allocation event names: baseline to the end."""


def match_blocks(pairs: Pairs, segments: Segments, trace: Trace, anomalies: dict[str, int]) -> Held:
    """Join the final blocks in use to the pairs still open, by address."""
    in_use = np.flatnonzero(segments.block_state != INACTIVE)
    row = np.full(len(segments.block_state), NO_ID, np.int32)
    open_rows = np.flatnonzero(pairs.completed == ABSENT)
    order = open_rows[stable_order(pairs.addr[open_rows])]
    place = np.searchsorted(pairs.addr[order], segments.block_address[in_use])
    place_or_0 = np.minimum(place, max(len(order) - 1, 0))
    if len(order):
        hit = pairs.addr[order][place_or_0] == segments.block_address[in_use]
        row[in_use[hit]] = order[place_or_0[hit]]
    touched = is_among(segments.block_address[in_use], pairs.taken)
    untouched = in_use[~touched]
    freed = int((touched & (row[in_use] == NO_ID)).sum())
    found = np.zeros(len(pairs.addr) + 1, np.bool_)  # the last is for NO_ID, -1
    found[row] = True
    lost = int((~found[open_rows]).sum())
    sized = in_use[row[in_use] != NO_ID]
    size = trace.size[pairs.first[row[sized]]] if len(sized) else np.empty(0, np.int64)
    counts = {
        "block in use at the end that the trace frees": freed,
        "allocation never freed that is not a block at the end": lost if len(segments) else 0,
        "block of another requested size than its alloc": int(
            (size != segments.block_requested[sized]).sum()
        ),
    }
    anomalies.update({what: count for what, count in counts.items() if count})
    return Held(row, untouched)


def build_allocations(
    pairs: Pairs,
    held: Held,
    trace: Trace,
    segments: Segments,
    spans: SegmentLives,
    stacks: StackTable,
    rules: AllocatorSettings | None,
) -> tuple[Allocations, NDArray[np.int32], dict[str, int]]:
    """Join pairs and untouched blocks into one table in birth order.

    Args:
        pairs, held, trace, segments, spans: the parts of one device.
        stacks: to tell an empty stack from one with frames.
        rules: the allocator's settings; None where no caching allocator rounds (profiler files).

    Returns:
        the allocations; the allocation of each final block; and how many block sizes known from
        the end the hole rule gave as well (``agreed``) or differently (``disagreed``).
    """
    n_events, n_blocks = len(trace), len(held.untouched)
    # In the baseline untouched blocks come first; the pairs are in order.
    blocks = held.untouched[stable_order(segments.block_address[held.untouched])]
    first = pairs.first
    never = np.int64(n_events)

    def joined(of_blocks: NDArray[Any] | int, of_pairs: NDArray[Any]) -> NDArray[Any]:
        head = np.full(n_blocks, of_blocks) if isinstance(of_blocks, int) else of_blocks
        return np.concatenate([head.astype(of_pairs.dtype), of_pairs])

    alloc = joined(START, pairs.alloc)  # START is ABSENT
    free = joined(n_events, np.where(pairs.completed == ABSENT, never, pairs.completed))
    # A lone free_completed: requested before the recording, so pending from the start.
    asked = np.where(
        pairs.requested == ABSENT,
        np.where(pairs.completed == ABSENT, never, START),
        pairs.requested,
    )
    pending = segments.block_state[blocks] == PENDING
    requested = joined(np.where(pending, START, never), asked)
    addr = joined(segments.block_address[blocks], pairs.addr)
    size = joined(segments.block_requested[blocks], trace.size.take(first))

    block_allocation = np.full(len(held.row), NO_ID, np.int32)
    held_rows = held.row != NO_ID
    block_allocation[held_rows] = n_blocks + held.row[held_rows]
    block_allocation[blocks] = np.arange(n_blocks)

    segment_of_block = segments.block_segment[blocks]
    pool = joined(segments.pool[segment_of_block], trace.pool.take(first))
    addresses = unique(np.concatenate([segments.block_address[blocks], pairs.addresses]))
    place = joined(
        np.searchsorted(addresses, segments.block_address[blocks]),
        np.searchsorted(addresses, pairs.addresses)[pairs.place],
    )
    places = addresses, place
    pools = _pools(pool, places, alloc, segments, spans)
    low, high, checks = _block_sizes(
        places, size, alloc, free, spans, rules, block_allocation, segments, pools
    )
    alloc_stack, free_stack = _stacks(pairs, trace, stacks)

    time_us = np.append(trace.time_us, NO_TIME)  # at -1, the start, and after the last event

    allocations = Allocations(
        addr=addr,
        version=count_before(place, len(addresses)),
        size=size,
        block_size=low,
        block_size_max=high,
        alloc_event=alloc,
        free_requested_event=requested,
        free_event=free,
        alloc_time_us=time_us.take(alloc),
        free_requested_time_us=time_us.take(requested),
        free_time_us=time_us.take(free),
        stream=joined(segments.stream[segment_of_block], trace.stream.take(first)),
        pool=pools,
        stack=joined(segments.block_stack[blocks], alloc_stack),
        free_stack=joined(NO_STACK, free_stack),
        category=joined(NO_ID, trace.category.take(first)),
        compile_context=joined(NO_ID, trace.compile_context.take(first)),
        metadata=joined(NO_ID, trace.metadata.take(first)),
    )
    return allocations, block_allocation, checks


def _block_sizes(
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    size: NDArray[np.int64],
    alloc: NDArray[np.int64],
    free: NDArray[np.int64],
    spans: SegmentLives,
    rules: AllocatorSettings | None,
    block_row: NDArray[np.int32],
    segments: Segments,
    pools: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, int]]:
    """Recover every block size, prefer those of the final state, and compare both."""
    if rules is None:
        return size, size.copy(), {}
    unsplit = is_among(pools, find_unsplit_pools(segments, rules))
    rounded = round_sizes(size, rules)
    low, high = recover_block_sizes(places, rounded, alloc, free, spans, rules, unsplit)
    known = np.flatnonzero(block_row != NO_ID)
    rows, actual = block_row[known], segments.block_size[known]
    in_trace = (alloc[rows] != START) & (not rules.unknown)
    agreed = int((low[rows] == actual)[in_trace].sum())
    checks = {"agreed": agreed, "disagreed": int(in_trace.sum()) - agreed}
    low[rows] = high[rows] = actual
    return low, high, checks


def _stacks(
    pairs: Pairs, trace: Trace, stacks: StackTable
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the stacks of allocation and of free.

    With ``context="alloc"`` a free event repeats the allocation's stack: it then says nothing
    about where it was freed, but gives baseline blocks the stack that their lost alloc had.
    """
    born = pairs.alloc != ABSENT
    freed_at = np.where(pairs.requested == ABSENT, pairs.completed, pairs.requested)
    stack = np.append(trace.stack, np.int32(NO_STACK))  # at ABSENT, -1
    alloc_stack, free_stack = stack.take(pairs.alloc), stack.take(freed_at)
    both = (freed_at != ABSENT) & (alloc_stack != NO_STACK)
    both[both] = stacks.stack_node[alloc_stack[both]] >= 0
    if both.any() and (alloc_stack[both] == free_stack[both]).all():
        alloc_stack[~born] = free_stack[~born]
        free_stack[:] = NO_STACK
    return alloc_stack, free_stack


def _pools(
    pool: NDArray[np.int32],
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    alloc: NDArray[np.int64],
    segments: Segments,
    spans: SegmentLives,
) -> NDArray[np.int32]:
    """Fill in pools that the events do not name from the final segment around the address.

    Args:
        pool: int32, shape (n,): pools that the events name; changed.
        places: addresses, ascending, and which of them each allocation is at.
        alloc: int64, shape (n,): the event of each one's birth.
        segments: those at the end.
        spans: the same and others over their lives.
    """
    if not len(segments):
        return pool
    addresses, place = places
    around = np.searchsorted(segments.address, addresses, side="right") - 1
    inside = (around >= 0) & (addresses < segments.address[around] + segments.size[around])
    fill = np.flatnonzero((pool == NO_ID) & inside[place])
    row = around[place[fill]]
    since = np.full(len(segments), START, np.int64)
    since[spans.final[spans.final != NO_ID]] = spans.start_event[spans.final != NO_ID]
    # An older segment at the same place may have been of another pool.
    same = alloc[fill] >= since[row]
    pool[fill[same]] = segments.pool[row[same]]
    return pool


def match_profiler_blocks(pairs: Pairs, segments: Segments, trace: Trace) -> Held:
    """Join the final blocks to the pairs still open, by size and stack, in order.

    A snapshot made of a profile has no allocator, and its blocks are listed in the order in which
    the tensors were met, so their running sum is no address. Those of our own recorder have
    addresses: of pairs of one size and stack, the one at a block's address comes first.

    Source: torch/cuda/_memory_viz.py, ``_profile_to_snapshot``.
    """
    open_rows: dict[int, tuple[int, int]] = {}  # size and stack of each, the last one first
    # An empty list of frames is NO_STACK on a block, and a stack of no frames on an event.
    known = set(segments.block_stack.tolist())
    still = np.flatnonzero(pairs.completed == ABSENT)
    for row in still[stable_order(pairs.addr[still])].tolist()[::-1]:
        event = pairs.first[row]
        stack = int(trace.stack[event])
        open_rows[row] = int(trace.size[event]), stack if stack in known else NO_STACK
    blocks = {
        block: (int(segments.block_requested[block]), int(segments.block_stack[block]))
        for block in np.flatnonzero(segments.block_state != INACTIVE).tolist()
    }
    of_block = np.full(len(segments.block_state), NO_ID, np.int32)
    home = {(*key, int(pairs.addr[row])): row for row, key in open_rows.items()}
    for block, key in blocks.items():
        row = home.pop((*key, int(segments.block_address[block])), NO_ID)
        of_block[block] = row
        open_rows.pop(row, None)
    left: dict[tuple[int, int], list[int]] = {}
    for row, key in open_rows.items():
        left.setdefault(key, []).append(row)
    for block, key in blocks.items():
        if of_block[block] == NO_ID and left.get(key):
            of_block[block] = left[key].pop()
    untouched = [block for block in blocks if of_block[block] == NO_ID]
    return Held(of_block, np.array(untouched, np.int64))
