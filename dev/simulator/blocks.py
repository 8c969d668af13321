"""Blocks, the pools they are served from, and how free neighbours merge."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

from dev.simulator.truth import Life

Stack = list[dict[str, Any]]
"""Frames, innermost first. One list per gathered context, shared as PyTorch shares it."""


@dataclass(eq=False)
class VirtualRange:
    """The reserved addresses of one expandable segment."""

    address: int
    size: int
    granule: int


@dataclass(eq=False)
class BlockPool:
    """The free blocks of one kind (small or large), by stream."""

    small: bool
    owner: PrivatePool | None = None
    free: dict[int, list[tuple[int, int, Block]]] = field(default_factory=dict)
    """By stream, sorted by size, then address: the order of best fit."""
    unmapped: dict[int, list[tuple[int, Block]]] = field(default_factory=dict)
    """By stream, sorted by address: parts of expandable segments without memory."""
    searches: int = 0
    """How often a free block was looked for: the clock of garbage collection."""

    def __post_init__(self) -> None:
        self.pool_id: tuple[int, int] = self.owner.pool_id if self.owner else (0, 0)
        """``segment_pool_id`` of its segments."""

    def insert(self, block: Block) -> None:
        """Add a free block."""
        if block.mapped:
            block.idle_since = self.searches
            insort(self.free.setdefault(block.stream, []), (block.size, block.address, block))
        else:
            insort(self.unmapped.setdefault(block.stream, []), (block.address, block))

    def remove(self, block: Block) -> None:
        """Take out a free block; its size and address must be those it was added with."""
        if block.mapped:
            found = self.free[block.stream]
            del found[bisect_left(found, (block.size, block.address))]
        else:
            ranges = self.unmapped[block.stream]
            del ranges[bisect_left(ranges, (block.address,))]

    def from_size(self, stream: int, size: int) -> tuple[list[tuple[int, int, Block]], int]:
        """Return a stream's free blocks and the position of the first at least ``size`` large."""
        found = self.free.get(stream, [])
        return found, bisect_left(found, (size,))

    def all_free(self) -> list[Block]:
        """Return the free mapped blocks by stream, size and address."""
        return [entry[2] for stream in sorted(self.free) for entry in self.free[stream]]


@dataclass(eq=False)
class PrivatePool:
    """A pool of its own, for a CUDA graph or a ``torch.cuda.MemPool``."""

    pool_id: tuple[int, int]
    users: int = 0
    no_split: bool = False
    """Every block is an entire segment: ``MemPool(no_split=True)``."""
    small: BlockPool = field(init=False)
    large: BlockPool = field(init=False)

    def __post_init__(self) -> None:
        self.small = BlockPool(small=True, owner=self)
        self.large = BlockPool(small=False, owner=self)


class Block:
    """A slice of a segment; ``prev`` and ``next`` are its neighbours there."""

    __slots__ = (
        "address",
        "allocated",
        "awaited_events",
        "context",
        "idle_since",
        "life",
        "mapped",
        "next",
        "pool",
        "prev",
        "requested",
        "segment_context",
        "size",
        "stream",
        "stream_uses",
        "virtual",
    )

    def __init__(
        self,
        stream: int,
        size: int,
        pool: BlockPool,
        address: int,
        virtual: VirtualRange | None = None,
    ) -> None:
        self.stream = stream
        self.size = size
        self.pool = pool
        self.address = address
        self.virtual = virtual
        self.requested = 0
        self.allocated = False
        self.mapped = True
        self.awaited_events = 0
        self.idle_since = 0
        self.stream_uses: list[int] = []
        self.prev: Block | None = None
        self.next: Block | None = None
        self.context: Stack | None = None
        self.segment_context: Stack | None = None
        self.life: Life | None = None

    @property
    def is_inactive(self) -> bool:
        """Whether nobody uses it."""
        return not (self.allocated or self.awaited_events or self.stream_uses)

    def splice(self, before: Block | None, after: Block | None) -> None:
        """Put it between two neighbours."""
        self.prev, self.next = before, after
        if before:
            before.next = self
        if after:
            after.prev = self


def try_merge(into: Block, other: Block | None) -> None:
    """Let a block that is in no pool take in a neighbour, if that is free and mapped alike.

    Source: ``DeviceCachingAllocator::try_merge_blocks``.
    """
    if other is None or not other.is_inactive or into.mapped != other.mapped:
        return
    other.pool.remove(other)
    if into.prev is other:
        into.address = other.address
        into.prev = other.prev
        if into.prev:
            into.prev.next = into
        into.segment_context = other.segment_context
    else:
        into.next = other.next
        if into.next:
            into.next.prev = into
    into.size += other.size
