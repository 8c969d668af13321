"""PyTorch's caching allocator, rule by rule, on plain sorted lists: slow, and to be read.

Source: DeviceCachingAllocator in c10/cuda/CUDACachingAllocator.cpp; each function names the one
that it stands for. It replays a tape, and is what the product's model is compared with.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from snapreport.figures.allocator.tape import (
    ALLOCATE,
    AWAIT,
    EMPTY_CACHE,
    FAIL,
    FREE,
    MADE,
    MAPPED,
    RETURNED,
    UNMAPPED,
    ReplayTape,
)
from snapreport.history.allocator_settings import AllocatorSettings
from snapreport.history.block_sizes import round_sizes
from tests.reference.allocator_heap import DEFAULT, Heap, by_address, size_and_address
from tests.reference.allocator_parts import MIB, NEVER, Bin, Block, Conf, Range, Rules


class Replay(Heap):
    """A replay of a tape; what came of it is in its fields."""

    def __init__(self, tape: ReplayTape, conf: Conf, rules: Rules | None = None) -> None:
        super().__init__(tape, conf)
        self.rules = rules or Rules()
        self.retries = 0
        self.failed_op = -1
        self._settings = AllocatorSettings(roundup_power2_divisions=conf.divisions)
        self._rounded = round_sizes(tape.size, self._settings).tolist()

    def run(self) -> Replay:
        """Do all operations, or those up to the first that cannot be done."""
        tape = self.tape
        failed = round_sizes(np.maximum(tape.failed_size, 1), self._settings).tolist()
        for self._op, (op, row) in enumerate(zip(tape.op.tolist(), tape.row.tolist(), strict=True)):
            if op == ALLOCATE:
                block = self._malloc(self._rounded[row], int(tape.lane[row]))
                if block is not None:
                    self.address[row], self.size[row] = block.address, block.size
                    self._blocks[row] = block
            elif op == FAIL:
                block = self._malloc(failed[self._op], int(tape.failed_lane[self._op]))
                if block is not None:
                    self._free(block)
            elif op == FREE and row in self._blocks:
                self._free(self._blocks.pop(row))
            elif op == AWAIT and row in self._blocks:
                block = self._blocks[row]
                block.allocated, block.pending = False, True
                self._pending.append(row)
            elif op == EMPTY_CACHE:
                self._release_cached()
            if self.failed_op >= 0 and self.conf.stop:
                break
        return self

    def blocks_in_use(self) -> list[Block]:
        """Return the blocks that are allocated, or await their free."""
        return list(self._blocks.values())

    def _round_segment(self, size: int) -> int:
        """``get_allocation_size``."""
        if size <= self.rules.small_up_to:
            return 2 * MIB
        if size < 10 * MIB and self.rules.medium_segments:
            return self.conf.large_segment
        return -(-size // (2 * MIB)) * 2 * MIB

    def _malloc(self, size: int, lane: int) -> Block | None:
        """``malloc``: from the cache, from the driver, and from it after giving memory back."""
        bin_ = self._bins[2 * lane + (size > self.rules.small_up_to)]
        block = self._from_cache(bin_, size)
        if block is None:
            if self.conf.limit < NEVER and self.conf.gc_threshold > 0:
                self._collect_garbage()
            block = self._from_driver(bin_, size)
        if block is None and self._release_available(bin_, size):
            block = self._from_driver(bin_, size)
        if block is None and bin_.pool == DEFAULT:
            self._release_cached()
            self.retries += 1
            block = self._from_driver(bin_, size)
        if block is None:
            if self.failed_op < 0:
                self.failed_op = self._op
            return None
        rest = block.size - size
        if not bin_.large or self.conf.expandable:
            splits = rest >= 512
        else:
            splits = size < self.conf.max_split and rest >= self.rules.large_remainder
        if splits:
            other = Block(block.address + size, rest, bin_, block.expandable, block, block.next)
            if block.next:
                block.next.prev = other
            block.next, block.size = other, size
            self._insert(other)
        block.allocated = True
        return block

    def _from_cache(self, bin_: Bin, size: int) -> Block | None:
        """``get_free_block``."""
        conf = self.conf
        bin_.calls[0] += 1
        found = bin_.free
        at = bisect_left(found, (size, 0), key=size_and_address)
        if not self.rules.best_fit and at < len(found):
            at = min(range(at, len(found)), key=lambda each: found[each][1])
        elif not self.rules.lowest_address_wins and at < len(found):
            at = bisect_left(found, (found[at][0] + 1, 0), key=size_and_address) - 1
        if at == len(found):
            return None
        if found[at][2].expandable:
            if conf.expandable:
                while (
                    found[at][2].expandable
                    and at + 1 < len(found)
                    and _could_grow(found[at + 1][2]) < _could_grow(found[at][2])
                ):
                    at += 1
            else:
                while at < len(found) and found[at][2].expandable:
                    at += 1
                if at == len(found):
                    return None
        block = found[at][2]
        if size < conf.max_split <= block.size:
            return None
        if size >= conf.max_split and block.size >= size + conf.max_rounding:
            return None
        self._remove(block)
        return block

    def _from_driver(self, bin_: Bin, size: int) -> Block | None:
        """``alloc_block``."""
        segment = self._round_segment(size)
        if self.reserved + segment > self.conf.limit:
            return None
        if self.conf.expandable:
            return self._grow(bin_, size)
        if self.reserved + segment > self.conf.capacity:
            return None
        address = self._place(segment)
        self._count(MADE, address, segment)
        return Block(address, segment, bin_)

    def _grow(self, bin_: Bin, size: int) -> Block | None:
        """``try_allocate_expandable_block``."""
        block = self._find_room(bin_, size)
        if not block.mapped and not self._map(block, min(block.size, size)):
            if block.expandable and not block.expandable.base:  # nobody saw it
                self._remove(block)
            return None
        while block.size < size:
            following = block.next
            assert following is not None
            if not self._map(following, min(size - block.size, following.size)):
                return None
            block = following
        self._remove(block)
        return block

    def _find_room(self, bin_: Bin, size: int) -> Block:
        """``find_expandable_block``."""
        for _, block in bin_.unmapped:
            start = block.prev if block.prev and block.prev.free else block
            room = 0
            each: Block | None = start
            while room < size and each is not None and each.free:
                room += each.size
                each = each.next
            if room >= size:
                return start
        granule = self._granule(bin_)
        room = -(-max(self.conf.room, size) // granule) * granule
        whole = Range(0, room, granule)
        block = Block(0, room, bin_, whole, mapped=False)
        insort(bin_.unmapped, (0, block), key=by_address)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """``map_block``."""
        whole, bin_ = block.expandable, block.bin
        assert whole is not None
        size = min(-(-size // whole.granule) * whole.granule, block.size)
        if self.reserved + size > self.conf.capacity:
            return False
        bin_.unmapped = [each for each in bin_.unmapped if each[1] is not block]
        if not whole.base:  # its addresses are known once the first of them is mapped
            whole.base = block.address = self._place(whole.size)
        block.mapped = True
        if size < block.size:
            rest = Block(block.address + size, block.size - size, bin_, whole, block, block.next)
            rest.mapped = False
            if block.next:
                block.next.prev = rest
            block.next, block.size = rest, size
            insort(bin_.unmapped, (rest.address, rest), key=by_address)
        whole.mapped += size
        address = block.address
        self._merge(block, block.prev)
        self._merge(block, block.next)
        self._insert(block)
        self._count(MAPPED, address, size)
        return True

    def _release_available(self, bin_: Bin, size: int) -> bool:
        """``release_available_cached_blocks``."""
        if self.conf.max_split == NEVER:
            return False
        key, found = max(size, self.conf.max_split), bin_.free
        at = bisect_left(found, (key, 0), key=size_and_address)
        if at < len(found) and not found[at][2].expandable and not found[at][2].split:
            self._return(found[at][2])
            return True
        released = 0
        for _, _, block in found[:at][::-1]:
            if released >= key or block.size < self.conf.max_split:
                break
            if not block.expandable and not block.split:
                released += block.size
                self._return(block)
        return released >= key

    def _release_cached(self) -> None:
        """``release_cached_blocks``."""
        waiting, self._pending = self._pending, []
        for row in waiting:
            if row in self._blocks:
                self._free(self._blocks.pop(row))
        self._release_pool(DEFAULT, large=True)
        self._release_pool(DEFAULT, large=False)
        for bit, pool in enumerate(self._private):
            if int(self.tape.freeable[self._op]) >> bit & 1:
                self._release_pool(pool, large=False)
                self._release_pool(pool, large=True)

    def _release_pool(self, pool: tuple[int, int], *, large: bool) -> None:
        """``release_blocks``: plain segments first, expandable ones afterwards."""
        bins = [each for each in self._bins if each.pool == pool and each.large == large]
        found = [block for each in bins for _, _, block in each.free]
        for block in found:
            if not block.expandable and not block.split:
                self._return(block)
        for block in found:
            if block.expandable:
                self._unmap(block)

    def _return(self, block: Block) -> None:
        """``release_block``."""
        self._remove(block)
        self._segments.remove((block.address, block.size))
        self._count(RETURNED, block.address, -block.size)

    def _unmap(self, block: Block) -> None:
        """``unmap_block``: the whole granules inside."""
        whole, bin_ = block.expandable, block.bin
        assert whole is not None
        first = -(-(block.address - whole.base) // whole.granule) * whole.granule + whole.base
        end = (block.address + block.size - whole.base) // whole.granule * whole.granule
        end += whole.base
        if first >= end:
            return
        self._remove(block)
        before, after = first - block.address, block.address + block.size - end
        if before:
            kept = Block(block.address, before, bin_, whole, block.prev, block)
            if block.prev:
                block.prev.next = kept
            block.prev = kept
            self._insert(kept)
        if after:
            kept = Block(end, after, bin_, whole, block, block.next)
            if block.next:
                block.next.prev = kept
            block.next = kept
            self._insert(kept)
        block.address, block.size, block.mapped = first, end - first, False
        self._merge(block, block.prev)
        self._merge(block, block.next)
        whole.mapped -= end - first
        if whole.mapped:
            insort(bin_.unmapped, (block.address, block), key=by_address)
        else:
            self._segments.remove((whole.base, whole.size))
        self._count(UNMAPPED, first, first - end)

    def _collect_garbage(self) -> None:
        """``garbage_collect_cached_blocks``."""
        conf = self.conf
        threshold = int(conf.gc_threshold * conf.limit)
        if self.reserved <= threshold:
            return
        target, reclaimed = self.reserved - threshold, 0
        found = [
            block
            for each in self._bins
            if each.large and each.pool == DEFAULT
            for _, _, block in each.free
            if not block.split and not block.expandable
        ]
        freed = True
        ages = {id(block): block.bin.calls[0] - block.age_base for block in found}
        while found and freed and reclaimed < target:
            average = sum(ages[id(block)] for block in found) / len(found)
            old = [block for block in found if ages[id(block)] >= average]
            freed = bool(old)
            found = [block for block in found if block not in old]
            for block in old:
                reclaimed += block.size
                self._return(block)

    def _free(self, block: Block) -> None:
        """``free_block``."""
        block.allocated = block.pending = False
        self._merge(block, block.prev)
        self._merge(block, block.next)
        self._insert(block)


def _could_grow(block: Block) -> int:
    """``expandable_size``: its bytes with the unmapped ones behind it."""
    following = block.next
    return block.size + (following.size if following and not following.mapped else 0)


def recorded_events(tape: ReplayTape) -> Iterator[tuple[int, int, int, int]]:
    """Yield the segment events that were recorded, as ``Replay.events`` has them."""
    of = tape.recorded
    columns = (of.op.tolist(), of.kind.tolist(), of.address.tolist(), of.size.tolist())
    yield from zip(*columns, strict=True)
