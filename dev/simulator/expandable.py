"""Expandable segments: address ranges that get and lose memory granule by granule."""

from __future__ import annotations

from collections.abc import Callable

from dev.simulator.blocks import Block, BlockPool, Stack, VirtualRange, try_merge
from dev.simulator.driver import Driver
from dev.simulator.settings import SMALL_SEGMENT, round_up

Report = Callable[[str, Block, int, int, "Stack | None"], None]
"""Called with action, block, address, size in bytes and context, once memory came or went."""


class ExpandableSegments:
    """Maps and unmaps memory for the pools of one device."""

    def __init__(self, driver: Driver, large_page: int, report: Report) -> None:
        self._driver = driver
        self._large_page = large_page
        self._report = report

    def allocate(
        self, pool: BlockPool, stream: int, size: int, context: Stack | None
    ) -> Block | None:
        """Return a free block, in no pool, of at least ``size`` bytes; None if memory is short.

        What was mapped before memory ran out stays mapped, as in PyTorch.

        Source: ``DeviceCachingAllocator::try_allocate_expandable_block``.
        """
        candidate = self._find(pool, stream, size)
        if not candidate.mapped and not self._map(candidate, min(candidate.size, size), context):
            return None
        while candidate.size < size:
            unmapped = candidate.next
            if unmapped is None:
                raise RuntimeError("a candidate has to be followed by unmapped addresses")
            wanted = min(size - candidate.size, unmapped.size)
            if not self._map(unmapped, wanted, context):
                return None
            candidate = unmapped  # which merged with the free block before it
        pool.remove(candidate)
        return candidate

    def unmap(self, block: Block, context: Stack | None) -> None:
        """Return the whole granules inside a free block to the driver.

        Source: ``DeviceCachingAllocator::unmap_block``.
        """
        virtual, pool = block.virtual, block.pool
        if virtual is None:
            raise RuntimeError("only blocks of expandable segments can be unmapped")
        first = round_up(block.address - virtual.address, virtual.granule)
        end = (block.address + block.size - virtual.address) // virtual.granule * virtual.granule
        if first >= end:
            return
        start, size = virtual.address + first, end - first
        pool.remove(block)
        before, after = start - block.address, block.address + block.size - (start + size)
        if before:
            kept = Block(block.stream, before, pool, block.address, virtual)
            kept.splice(block.prev, block)
            kept.segment_context, block.segment_context = block.segment_context, None
            pool.insert(kept)
        if after:
            kept = Block(block.stream, after, pool, start + size, virtual)
            kept.splice(block, block.next)
            pool.insert(kept)
        block.address, block.size, block.mapped = start, size, False
        try_merge(block, block.prev)
        try_merge(block, block.next)
        pool.insert(block)
        self._driver.give_back(size)
        stack = block.segment_context if context is None else context
        self._report("segment_unmap", block, start, size, stack)
        if block.prev is None and block.next is None:
            pool.remove(block)
            self._driver.addresses.give_back(virtual.address, virtual.size)

    def _find(self, pool: BlockPool, stream: int, size: int) -> Block:
        """Return a free or unmapped block that begins ``size`` bytes of usable addresses."""
        for _, block in pool.unmapped.get(stream, ()):
            start = block.prev if block.prev and block.prev.is_inactive else block
            if _room_from(start, size) >= size:
                return start
        granule = SMALL_SEGMENT if pool.small else self._large_page
        room = round_up(self._driver.capacity * 9 // 8, granule)
        virtual = VirtualRange(self._driver.addresses.reserve(room), room, granule)
        block = Block(stream, room, pool, virtual.address, virtual)
        block.mapped = False
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int, context: Stack | None) -> bool:
        """Give memory to the front of an unmapped block; False if there is not enough."""
        virtual, pool = block.virtual, block.pool
        if virtual is None:
            raise RuntimeError("only blocks of expandable segments can be mapped")
        mapped = round_up(size, virtual.granule)
        if not self._driver.take(mapped):
            return False
        pool.remove(block)
        block.mapped = True
        if mapped < block.size:
            rest = Block(block.stream, block.size - mapped, pool, block.address + mapped, virtual)
            rest.mapped = False
            rest.splice(block, block.next)
            pool.insert(rest)
            block.size = mapped
        start = block.address
        try_merge(block, block.prev)
        try_merge(block, block.next)
        pool.insert(block)
        if block.prev is None and block.segment_context is None:
            block.segment_context = context
        self._report("segment_map", block, start, mapped, context)
        return True


def _room_from(block: Block | None, enough: int) -> int:
    """Add up free and unmapped bytes from a block on, until there is enough."""
    room = 0
    while room < enough and block is not None and block.is_inactive:
        room += block.size
        block = block.next
    return room
