"""Segments and blocks of the plain model of the allocator: where they lie, and which are free."""

from __future__ import annotations

from bisect import bisect_left, insort

from snapreport.figures.allocator.tape import ReplayTape
from snapreport.ground.native.allocator_replay import AS_RECORDED, DESCENDING, FIRST_FIT
from tests.reference.allocator_parts import MIB, NEVER, Bin, Block, Conf, Range

DEFAULT = (0, 0)


class Heap:
    """The blocks of a device, as they are before the first operation of a tape."""

    def __init__(self, tape: ReplayTape, conf: Conf) -> None:
        self.tape, self.conf = tape, conf
        self.address: list[int] = [0] * len(tape.size)
        """Of each allocation, 0 for those that got none."""
        self.size: list[int] = [0] * len(tape.size)
        """The bytes of the block of each that was made, likewise."""
        self.events: list[tuple[int, int, int, int]] = []
        """Segment events: operation, kind, address, size."""
        self.reserved = self.peak = tape.reserved
        self._op = -1
        self._blocks: dict[int, Block] = {}
        self._pending: list[int] = []
        """Allocations whose free is not completed."""
        self._cursor, self._lowest = conf.above, conf.below
        self._segments: list[tuple[int, int]] = []
        calls: dict[tuple[tuple[int, int], bool], list[int]] = {}
        self._bins = [
            Bin(lane, large, pool, calls=calls.setdefault((pool, large), [0]))
            for lane, (pool, _) in enumerate(tape.lanes)
            for large in (False, True)
        ]
        pools = dict.fromkeys(pool for pool, _ in tape.lanes if pool != DEFAULT)
        self._private = list(pools)
        self._lay_out_start()

    def _lay_out_start(self) -> None:
        tape = self.tape
        held: dict[int, tuple[int, int]] = {}
        for row, size in enumerate(tape.block.tolist()):
            if size:
                held[int(tape.address[row])] = (row, size)
        starts = sorted(held)
        open_range: tuple[Range, Bin] | None = None
        last: Block | None = None
        at = 0
        end = 1
        for address, size, lane, large, expandable, base in [
            *tape.segments.tolist(),
            (NEVER,) * 6,
        ]:
            base = base if expandable and end <= base <= address else address
            end = address + size
            bin_ = None if address == NEVER else self._bins[2 * lane + large]
            if open_range:
                whole, its_bin = open_range
                if (
                    bin_ is not its_bin
                    or not expandable
                    or address + size > whole.base + whole.size
                ):
                    # It ends where another segment begins, at the latest.
                    whole.size = min(whole.size, base - whole.base)
                    self._add_unmapped(last, at, whole.base + whole.size, its_bin, whole)
                    self._segments.append((whole.base, whole.size))
                    open_range = None
            if bin_ is None:
                break
            if not expandable:
                self._segments.append((address, size))
                self._fill(None, address, size, bin_, None, held, starts)
                continue
            if open_range is None:
                granule = self._granule(bin_)
                room = -(-max(self.conf.room, address + size - base) // granule) * granule
                open_range = (Range(base, room, granule), bin_)
                last, at = None, base
            whole = open_range[0]
            last = self._add_unmapped(last, at, address, bin_, whole)
            whole.mapped += size
            last = self._fill(last, address, size, bin_, whole, held, starts)
            at = address + size
        self._segments.sort()

    def _add_unmapped(
        self, last: Block | None, start: int, end: int, bin_: Bin, whole: Range
    ) -> Block | None:
        if start == end:
            return last
        last = self._append(last, start, end - start, bin_, whole)
        last.mapped = False
        insort(bin_.unmapped, (start, last), key=by_address)
        return last

    def _fill(
        self,
        last: Block | None,
        address: int,
        size: int,
        bin_: Bin,
        whole: Range | None,
        held: dict[int, tuple[int, int]],
        starts: list[int],
    ) -> Block | None:
        at, end = address, address + size
        for start in starts[bisect_left(starts, address) : bisect_left(starts, end)]:
            row, block_size = held[start]
            if start < at:
                continue
            if start > at:
                last = self._add_hole(last, at, start, bin_, whole)
            block_size = min(block_size, end - start)
            following = starts[bisect_left(starts, start + 1) :][:1]
            if following:
                block_size = min(block_size, following[0] - start)
            last = self._append(last, start, block_size, bin_, whole)
            last.allocated = True
            self._blocks[row] = last
            self.address[row] = start
            at = start + block_size
        if end > at:
            last = self._add_hole(last, at, end, bin_, whole)
        return last

    def _add_hole(
        self, last: Block | None, start: int, end: int, bin_: Bin, whole: Range | None
    ) -> Block:
        if last and last.free and last.mapped:
            self._remove(last)
            last.size += end - start
        else:
            last = self._append(last, start, end - start, bin_, whole)
        self._insert(last)
        return last

    def _append(
        self, last: Block | None, address: int, size: int, bin_: Bin, whole: Range | None
    ) -> Block:
        block = Block(address, size, bin_, whole, prev=last)
        if last:
            last.next = block
        return block

    def _place(self, size: int) -> int:
        """Return where the driver puts a new segment."""
        address = 0
        if self.conf.policy == AS_RECORDED:
            address = int(self.tape.given[self._op])
        elif self.conf.policy == DESCENDING and self._lowest - size >= 2 * MIB:
            self._lowest -= size
            address = self._lowest
        elif self.conf.policy == FIRST_FIT:
            address = above = self.conf.above
            for start, length in self._segments:
                if start >= above and start - address >= size:
                    break
                address = max(address, start + length) if start >= above else address
        if not address or self._is_taken(address, size):
            address = self._cursor
            while self._is_taken(address, size):
                address += size
            self._cursor = address + size
        insort(self._segments, (address, size))
        return address

    def _is_taken(self, address: int, size: int) -> bool:
        at = bisect_left(self._segments, (address + size, 0))
        return at > 0 and sum(self._segments[at - 1]) > address

    def _merge(self, into: Block, other: Block | None) -> None:
        """``try_merge_blocks``."""
        if other is None or not other.free or other.mapped != into.mapped:
            return
        self._remove(other)
        if into.prev is other:
            into.address, into.prev = other.address, other.prev
            if into.prev:
                into.prev.next = into
        else:
            into.next = other.next
            if into.next:
                into.next.prev = into
        into.size += other.size

    def _insert(self, block: Block) -> None:
        block.age_base = block.bin.calls[0]
        insort(block.bin.free, (block.size, block.address, block), key=size_and_address)

    def _remove(self, block: Block) -> None:
        """Take a block out of its list, if it is in one."""
        bin_ = block.bin
        if not block.mapped:
            bin_.unmapped = [each for each in bin_.unmapped if each[1] is not block]
            return
        at = bisect_left(bin_.free, (block.size, block.address), key=size_and_address)
        if at < len(bin_.free) and bin_.free[at][2] is block:
            del bin_.free[at]

    def _granule(self, bin_: Bin) -> int:
        return self.conf.large_segment if bin_.large else 2 * MIB

    def _count(self, kind: int, address: int, change: int) -> None:
        self.reserved += change
        self.peak = max(self.peak, self.reserved)
        self.events.append((self._op, kind, address, abs(change)))


def by_address(entry: tuple[int, Block]) -> int:
    return entry[0]


def size_and_address(entry: tuple[int, int, Block]) -> tuple[int, int]:
    return entry[:2]
