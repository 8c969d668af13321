"""The caching allocator of one device: requests, frees, streams, private pools, retries."""

from __future__ import annotations

from collections import deque

from dev.simulator.blocks import Block, BlockPool, PrivatePool, Stack, try_merge
from dev.simulator.driver import Driver
from dev.simulator.expandable import ExpandableSegments
from dev.simulator.recorder import ALL, STATE, DeviceTrace, Recorder
from dev.simulator.settings import (
    UNLIMITED,
    AllocatorSettings,
    is_small,
)
from dev.simulator.truth import Counters, Life


class OutOfMemoryError(Exception):
    """The device has too little memory, and returning cached segments did not help."""


class DeviceAllocator:
    """Serves requests as ``DeviceCachingAllocator`` in ``c10/cuda/CUDACachingAllocator.cpp``."""

    def __init__(self, settings: AllocatorSettings, driver: Driver, recorder: Recorder) -> None:
        self.settings = settings
        self.driver = driver
        self.recorder = recorder
        self.trace = DeviceTrace(recorder)
        self.lives: list[Life] = []
        """Every allocation ever made."""
        self.active: dict[int, Block] = {}
        """Blocks that are allocated or pending, by address."""
        self.small = BlockPool(small=True)
        self.large = BlockPool(small=False)
        self.private: dict[tuple[int, int], PrivatePool] = {}
        self.limit: int | None = None
        """The most that may be reserved, in bytes: ``set_per_process_memory_fraction()``."""
        self.retries = 0
        """``num_alloc_retries``: how often all that is cached was returned to serve a request."""
        self._requested = self._allocated = self._active = self._reserved = 0
        self._routes: list[PrivatePool] = []
        self._deferred: list[Block] = []
        """Freed while a private pool was in use: their events are recorded afterwards."""
        self._events: dict[int, deque[Block]] = {}
        """By stream, oldest first: blocks that wait until the stream has got there."""
        self._passed: dict[int, int] = {}
        """By stream: how many of its events have passed and were not yet noticed."""
        self._expandable = ExpandableSegments(driver, settings.large_segment_size, self._on_mapping)

    @property
    def counters(self) -> Counters:
        """``memory_stats()``: requested, allocated, active and reserved bytes."""
        return Counters(self._requested, self._allocated, self._active, self._reserved)

    def malloc(self, requested: int, stream: int = 0) -> Block:
        """Hand out a block of at least ``requested`` bytes.

        Raises:
            OutOfMemoryError: the device has too little memory; an ``oom`` event tells of it.
        """
        if requested <= 0:
            raise ValueError("PyTorch allocates nothing for zero bytes")
        context = self.recorder.gather(STATE)
        if not self._routes:
            self._process_events(context)
        size = self.settings.round_size(requested)
        pool = self._pool_for(size)
        block = (
            self._cached(pool, stream, size)
            or self._after_garbage_collection(pool, stream, size, context)
            or self._after_oversize_release(pool, stream, size, context)
            or self._after_release(pool, stream, size, context)
        )
        if block is None:
            self._record("oom", self.driver.free_bytes, size, stream, pool, context)
            raise OutOfMemoryError(f"tried to allocate {size} bytes")
        return self._hand_out(block, requested, size, context)

    def free(self, block: Block) -> None:
        """Take a block back; it stays pending while other streams may use it."""
        if not block.allocated or block.life is None:
            raise ValueError(f"block {block.address:#x} is not allocated")
        context = self.recorder.gather(ALL)
        block.allocated = False
        self._allocated -= block.size
        block.life.free_requested = self._record(
            "free_requested",
            block.address,
            block.requested,
            block.stream,
            block.pool,
            block.context if context is None else context,
        )
        if not block.stream_uses:
            self._free_block(block, context)
        elif self._routes:
            self._deferred.append(block)
        else:
            self._insert_events(block)

    def record_stream(self, block: Block, stream: int) -> None:
        """Note that another stream uses a block, as ``Tensor.record_stream()``."""
        if stream != block.stream and stream not in block.stream_uses:
            block.stream_uses.append(stream)

    def pass_events(self, stream: int, count: int | None = None) -> None:
        """Let a stream pass ``count`` more of its events (None for all); noticed later."""
        waiting = len(self._events.get(stream, ()))
        passed = self._passed.get(stream, 0)
        self._passed[stream] = waiting if count is None else min(waiting, passed + count)

    def empty_cache(self) -> None:
        """Return unused segments, and unused granules of expandable ones, to the driver."""
        if not self._routes:
            self._release_cached(self.recorder.gather(ALL))

    def begin_pool(self, pool_id: tuple[int, int], *, no_split: bool = False) -> None:
        """Serve requests from a private pool until ``end_pool``."""
        pool = self.private.setdefault(pool_id, PrivatePool(pool_id, no_split=no_split))
        pool.users += 1
        self._routes.append(pool)

    def end_pool(self) -> None:
        """Stop serving from the private pool begun last."""
        self._routes.pop()

    def release_pool(self, pool_id: tuple[int, int]) -> None:
        """Drop one user; without any, the pool's unused segments can be returned."""
        self.private[pool_id].users -= 1

    def mark_snapshot(self) -> None:
        """Leave the marker of an earlier ``_snapshot()`` call: all active bytes, no stack."""
        self._record("snapshot", 0, self._active, 0, self.small, None)

    def unknown_event(self, action: str, addr: int, size: int, stream: int = 0) -> None:
        """Record an event of a kind that moves no bytes."""
        self._record(action, addr, size, stream, self.small, self.recorder.gather(ALL))

    def internal_pair(self, size: int) -> None:
        """Take some free memory and give it back, as ``mallocWithAddress`` does in one call.

        Nothing counts it: no tensor is ever there. Older versions do not have such events.
        """
        free = [*self.large.all_free(), *self.small.all_free()]
        if free and "internal_metadata" in self.recorder.optional_keys:
            context, pool = self.recorder.gather(STATE), free[0].pool.pool_id
            place = free[0].address, min(size, free[0].size), free[0].stream, pool, context
            for action in ("alloc", "free_requested", "free_completed"):
                self.trace.record(action, *place, self.counters, "mallocWithAddress")

    def heads(self) -> list[Block]:
        """Return the first block of every run of mapped blocks, in address order."""
        pools = [self.small, self.large]
        for private in self.private.values():
            pools += [private.small, private.large]
        blocks = list(self.active.values())
        for pool in pools:
            blocks += pool.all_free()
        heads = [block for block in blocks if block.prev is None or not block.prev.mapped]
        return sorted(heads, key=lambda block: block.address)

    def _pool_for(self, size: int) -> BlockPool:
        route = self._routes[-1] if self._routes else self
        return route.small if is_small(size) else route.large

    def _record(
        self,
        action: str,
        addr: int,
        size: int,
        stream: int,
        pool: BlockPool,
        context: Stack | None,
    ) -> int:
        if not self.recorder.on:
            return -1
        after = Counters(self._requested, self._allocated, self._active, self._reserved)
        return self.trace.record(action, addr, size, stream, pool.pool_id, context, after)

    def _on_mapping(
        self, action: str, block: Block, addr: int, size: int, context: Stack | None
    ) -> None:
        self._reserved += size if action == "segment_map" else -size
        self._record(action, addr, size, block.stream, block.pool, context)

    def _cached(self, pool: BlockPool, stream: int, size: int) -> Block | None:
        """Take the best fitting free block. Source: ``get_free_block``."""
        pool.searches += 1
        found, position = pool.from_size(stream, size)
        if position == len(found):
            return None
        block = found[position][2]
        if block.virtual is not None:
            # What it can grow to counts as its size, so the block at the end is spared.
            for other in range(position + 1, len(found)):
                if block.virtual is None or _could_grow_to(found[other][2]) >= _could_grow_to(
                    block
                ):
                    break
                block = found[other][2]
        oversize = self.settings.is_oversize(size)
        if not oversize and self.settings.is_oversize(block.size):
            return None
        if oversize and block.size >= size + self.settings.rounding:
            return None
        pool.remove(block)
        return block

    def _from_driver(
        self, pool: BlockPool, stream: int, size: int, context: Stack | None
    ) -> Block | None:
        """Get a new segment, or grow an expandable one. Source: ``alloc_block``."""
        total = self.settings.segment_size(size)
        if self.limit is not None and self._reserved + total > self.limit:
            return None
        if self.settings.expandable_segments:
            return self._expandable.allocate(pool, stream, size, context)
        address = self.driver.cuda_malloc(total)
        if address is None:
            return None
        block = Block(stream, total, pool, address)
        block.segment_context = context
        self._reserved += total
        self._record("segment_alloc", address, total, stream, pool, context)
        return block

    def _after_garbage_collection(
        self, pool: BlockPool, stream: int, size: int, context: Stack | None
    ) -> Block | None:
        """Return what is long unused where too much is reserved, then ask the driver."""
        threshold = self.settings.garbage_collection_threshold
        if self.limit is not None and threshold > 0:
            self._collect_garbage(int(threshold * self.limit), context)
        return self._from_driver(pool, stream, size, context)

    def _collect_garbage(self, threshold: int, context: Stack | None) -> None:
        """Return the segments that are unused for longer than the average, until it is enough.

        Source: ``garbage_collect_cached_blocks``. Private pools and small segments stay.
        """
        wanted, collected = self._reserved - threshold, 0
        pool = self.large
        idle = [
            block
            for block in pool.all_free()
            if block.virtual is None and block.prev is None and block.next is None
        ]
        while idle and collected < wanted:
            ages = [pool.searches - block.idle_since for block in idle]
            average = sum(ages) / len(ages)
            old = [block for block, age in zip(idle, ages, strict=True) if age >= average]
            idle = [block for block, age in zip(idle, ages, strict=True) if age < average]
            for block in old:
                collected += block.size
                self._release(block, context)

    def _after_oversize_release(
        self, pool: BlockPool, stream: int, size: int, context: Stack | None
    ) -> Block | None:
        """Return oversize blocks, then ask again. Source: ``release_available_cached_blocks``."""
        limit = self.settings.max_split_size
        if limit == UNLIMITED:
            return None
        wanted = max(size, limit)
        found, position = pool.from_size(stream, wanted)
        if position < len(found) and found[position][2].virtual is None:
            self._release(found[position][2], context)
        else:
            released = 0
            for _, _, block in reversed(found[:position]):
                if released >= wanted or block.size < limit:
                    break
                if block.virtual is None:
                    released += block.size
                    self._release(block, context)
            if released < wanted:
                return None
        return self._from_driver(pool, stream, size, context)

    def _after_release(
        self, pool: BlockPool, stream: int, size: int, context: Stack | None
    ) -> Block | None:
        """Return all that is cached, then ask again."""
        if self._routes:
            return None
        self._release_cached(context)
        self.retries += 1
        return self._from_driver(pool, stream, size, context)

    def _hand_out(self, block: Block, requested: int, size: int, context: Stack | None) -> Block:
        """Split a block that is in no pool, and make it the caller's. ``alloc_found_block``."""
        pool, stream = block.pool, block.stream
        whole = pool.owner is not None and pool.owner.no_split
        if not whole and self.settings.should_split(block.size, size, small=pool.small):
            rest = block
            block = Block(stream, size, pool, rest.address, rest.virtual)
            block.segment_context, rest.segment_context = rest.segment_context, None
            rest.address += size
            rest.size -= size
            block.splice(rest.prev, rest)
            pool.insert(rest)
        block.allocated = True
        block.requested = requested
        block.context = context
        self.active[block.address] = block
        self._requested += requested
        self._allocated += block.size
        self._active += block.size
        number = self._record("alloc", block.address, requested, stream, pool, context)
        block.life = Life(
            block.address,
            requested,
            block.size,
            stream,
            pool.pool_id,
            context,
            small=pool.small,
            expandable=block.virtual is not None,
            alloc=number,
        )
        self.lives.append(block.life)
        return block

    def _free_block(self, block: Block, context: Stack | None) -> None:
        """Put a block back among the free ones. Source: ``free_block``."""
        if block.life is None:
            raise RuntimeError("a block without a life cannot be freed")
        self._active -= block.size
        self._requested -= block.requested
        del self.active[block.address]
        block.life.free = self._record(
            "free_completed",
            block.address,
            block.requested,
            block.stream,
            block.pool,
            block.context if context is None else context,
        )
        block.life = None
        block.context = None
        try_merge(block, block.prev)
        try_merge(block, block.next)
        block.pool.insert(block)

    def _insert_events(self, block: Block) -> None:
        for stream in block.stream_uses:
            self._events.setdefault(stream, deque()).append(block)
            block.awaited_events += 1
        block.stream_uses = []

    def _insert_deferred(self) -> None:
        for block in self._deferred:
            self._insert_events(block)
        self._deferred = []

    def _process_events(self, context: Stack | None) -> None:
        """Free the blocks that all other streams are done with. Source: ``process_events``.

        They carry the stack of the request that looked, not of whoever freed them.
        """
        if self._deferred:
            self._insert_deferred()
        for stream, passed in self._passed.items():
            for _ in range(passed):
                block = self._events[stream].popleft()
                block.awaited_events -= 1
                if not block.awaited_events:
                    self._free_block(block, context)
            self._passed[stream] = 0

    def _release_cached(self, context: Stack | None) -> None:
        """Wait for all streams, then return what is unused. ``release_cached_blocks``."""
        self._insert_deferred()
        for stream in self._events:
            self.pass_events(stream)
        self._process_events(context)
        self._release_pool(self.large, context)
        self._release_pool(self.small, context)
        for private in self.private.values():
            if not private.users:
                self._release_pool(private.small, context)
                self._release_pool(private.large, context)

    def _release_pool(self, pool: BlockPool, context: Stack | None) -> None:
        """Return whole free segments and free granules. Source: ``release_blocks``."""
        unmap = []
        for block in pool.all_free():
            if block.virtual is not None:
                unmap.append(block)
            elif block.prev is None and block.next is None:
                self._release(block, context)
        for block in unmap:
            self._expandable.unmap(block, context)

    def _release(self, block: Block, context: Stack | None) -> None:
        """Return one free segment. Source: ``release_block``."""
        block.pool.remove(block)
        self.driver.cuda_free(block.address, block.size)
        self._reserved -= block.size
        self._record(
            "segment_free",
            block.address,
            block.size,
            block.stream,
            block.pool,
            block.segment_context if context is None else context,
        )


def _could_grow_to(block: Block) -> int:
    """Return a free block's size with the unmapped addresses behind it."""
    following = block.next
    return block.size + (following.size if following and not following.mapped else 0)
