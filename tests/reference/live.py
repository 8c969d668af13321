"""A tape through the live allocator, one operation at a time, and what must hold meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from snapreport.figures.allocator.live import UPWARDS, LiveAllocator, NoRoomError
from snapreport.figures.allocator.replaying import Addresses, AllocatorModel
from snapreport.figures.allocator.tape import (
    ALLOCATE,
    AWAIT,
    DEFAULT_POOL,
    EMPTY_CACHE,
    FAIL,
    FREE,
    SEGMENT_CODES,
    ReplayTape,
    SegmentEvents,
)
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings

MIB = 1 << 20


@dataclass
class Driven:
    """What came of a tape."""

    allocator: LiveAllocator
    placed: list[int]
    sizes: list[int]
    events: list[list[int]] = field(default_factory=list)
    failed_op: int = -1
    rows: dict[int, int] = field(default_factory=dict)
    """The allocations that are not freed, and the row of each in the live allocator."""


def drive(
    tape: ReplayTape,
    settings: AllocatorSettings,
    capacity: int = UNLIMITED,
    addresses: Addresses = UPWARDS,
    *,
    checks: int = 20,
) -> Driven:
    """Ask a live allocator for all that a tape asks for, which begins with empty memory.

    Args:
        tape: from ``in_the_default_pool()``.
        settings, capacity, addresses: the allocator's.
        checks: how often its segments are looked at.
    """
    live = LiveAllocator(settings, capacity, addresses)
    found = Driven(live, [0] * len(tape.size), [0] * len(tape.size))
    pages = set[int]()
    every = max(len(tape) // checks, 1)
    for at, (op, row) in enumerate(zip(tape.op.tolist(), tape.row.tolist(), strict=True)):
        try:
            if op == ALLOCATE:
                there = live.allocate(int(tape.size[row]), int(tape.lane[row]))
                found.rows[row] = there
                found.placed[row], found.sizes[row] = live.address(there), live.block_size(there)
            elif op == FREE and row in found.rows:
                live.free(found.rows.pop(row))
            elif op == AWAIT and row in found.rows:
                live.await_free(found.rows[row])
            elif op == EMPTY_CACHE:
                live.empty_cache()
            elif op == FAIL:
                live.free(live.allocate(int(tape.failed_size[at]), int(tape.failed_lane[at])))
        except NoRoomError:
            if found.failed_op < 0:
                found.failed_op = at
        for action, address, size in live.new_segment_events():
            found.events.append([at, SEGMENT_CODES[action], address, size])
            these = range(address // MIB, (address + size) // MIB)
            if action in ("segment_alloc", "segment_map"):
                pages.update(these)
            else:
                pages.difference_update(these)
        if at % every == 0 or at == len(tape) - 1:
            check_segments(found)
            assert pages == {
                page
                for segment in live.segments()
                for page in range(
                    segment.address // MIB, (segment.address + segment.total_size) // MIB
                )
            }
    return found


def check_segments(found: Driven) -> None:
    """Hold the segments of a live allocator to what it says of itself and of its allocations."""
    live, used, waiting, blocks = found.allocator, 0, 0, dict[int, tuple[int, int]]()
    segments = live.segments()
    for one, other in pairwise(segments):
        assert one.address + one.total_size <= other.address
    for segment in segments:
        at = segment.address
        for block in segment.blocks:
            assert block.address == at
            assert block.size > 0
            at += block.size
            assert (block.row is None) == (block.state == "inactive")
            used += block.size * (block.state == "active_allocated")
            waiting += block.size * (block.state == "active_pending_free")
            if block.row is not None:
                blocks[block.row] = block.address, block.size
        assert at == segment.address + segment.total_size
        for one_block, next_block in pairwise(segment.blocks):
            assert {one_block.state, next_block.state} != {"inactive"}  # they had been merged
    assert live.allocated == used
    assert live.reserved == sum(segment.total_size for segment in segments)
    assert live.allocated + waiting <= live.reserved <= live.peak_reserved
    assert live.peak_allocated <= live.peak_reserved
    # Of what waited, some may have been freed for a request that lacked memory.
    told = {row: (live.address(row), live.block_size(row)) for row in found.rows.values()}
    assert blocks.items() <= told.items()


def same_as_at_once(
    tape: ReplayTape,
    settings: AllocatorSettings,
    capacity: int = UNLIMITED,
    addresses: Addresses = UPWARDS,
) -> Driven:
    """Hold what comes of a tape, operation by operation, to the replay of all of it."""
    found = drive(tape, settings, capacity, addresses)
    most = len(found.events) + 1
    whole = AllocatorModel(tape).replay(settings, capacity, addresses, most_events=most)
    assert whole.placed.tolist() == found.placed
    assert whole.events.tolist() == found.events
    live = found.allocator
    outcome = (live.reserved, live.peak_reserved, live.retries, found.failed_op)
    assert (whole.reserved, whole.peak, whole.retries, whole.failed_op) == outcome
    return found


def tape_of(program: list[tuple[int, int, int]]) -> ReplayTape:
    """Return the tape of a program that begins with empty memory.

    Args:
        program: operations and two numbers: of ``ALLOCATE`` the bytes and the stream, of ``FREE``
            and ``AWAIT`` which of the allocations until then, modulo their number.
    """
    op, row, size, lane = list[int](), list[int](), list[int](), list[int]()
    for kind, number, stream in program:
        if kind in (FREE, AWAIT) and not size:
            continue
        op.append(kind)
        row.append(len(size) if kind == ALLOCATE else number % max(len(size), 1))
        if kind == ALLOCATE:
            size.append(number)
            lane.append(stream)
    of_ops, of_rows = np.zeros(len(op), np.int64), np.zeros(len(size), np.int64)
    empty = np.zeros(0, np.int64)
    return in_the_default_pool(
        ReplayTape(
            lanes=[(DEFAULT_POOL, stream) for stream in range(max(lane, default=0) + 1)],
            op=np.array(op, np.int64),
            row=np.array(row, np.int64),
            event=np.arange(len(op)),
            given=of_ops,
            freeable=of_ops,
            failed_size=of_ops,
            failed_lane=of_ops,
            size=np.array(size, np.int64),
            lane=np.array(lane, np.int64),
            address=of_rows,
            block=of_rows,
            segments=np.zeros((0, 6), np.int64),
            recorded=SegmentEvents(empty, empty, empty, empty),
            room=0,
            undecided=0,
            retried=empty,
            collected=empty,
            waited=of_ops,
        )
    )


def in_the_default_pool(tape: ReplayTape) -> ReplayTape:
    """Return a tape whose lanes are streams of one pool, in the order in which they are used."""
    asked = tape.failed_lane.copy()
    made = tape.op == ALLOCATE
    asked[made] = tape.lane[tape.row[made]]
    used = asked[made | (tape.op == FAIL)]
    order = list(dict.fromkeys([*used.tolist(), *range(len(tape.lanes))]))
    number = np.argsort(np.array(order, np.int64))
    return replace(
        tape,
        lanes=[(DEFAULT_POOL, stream) for stream in range(len(order))],
        size=np.maximum(tape.size, 1),
        lane=number[tape.lane],
        failed_lane=number[tape.failed_lane],
        limited=False,
    )
