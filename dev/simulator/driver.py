"""The CUDA driver's side: addresses, and how much memory a device has left."""

from __future__ import annotations

from bisect import bisect_left, insort

BASE_ADDRESS = 0x7F20_0000_0000


class AddressSpace:
    """The process's virtual addresses, shared by all devices; freed ranges are used again.

    First fit, so neighbouring segments touch: code that lets a hole run into the next segment
    goes wrong at once.
    """

    def __init__(self) -> None:
        self._gaps: list[tuple[int, int]] = []
        """Free ranges (start, size) below ``_end``, in address order, never touching."""
        self._end = BASE_ADDRESS

    def reserve(self, size: int) -> int:
        """Return the start of a free range."""
        for index, (start, room) in enumerate(self._gaps):
            if room >= size:
                if room == size:
                    del self._gaps[index]
                else:
                    self._gaps[index] = (start + size, room - size)
                return start
        start = self._end
        self._end += size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Make a range free again."""
        index = bisect_left(self._gaps, (start, 0))
        if index < len(self._gaps) and self._gaps[index][0] == start + size:
            size += self._gaps.pop(index)[1]
        if index and sum(self._gaps[index - 1]) == start:
            before = self._gaps.pop(index - 1)
            start, size = before[0], before[1] + size
        insort(self._gaps, (start, size))


class Driver:
    """One device: its memory, and what others hold of it."""

    def __init__(self, addresses: AddressSpace, capacity: int, others: int = 0) -> None:
        self.addresses = addresses
        self.capacity = capacity
        self.taken = 0
        self.free_bytes = capacity - others
        """What ``cudaMemGetInfo`` tells; ``others`` hold the rest (CUDA context, NCCL)."""

    def take(self, size: int) -> bool:
        """Use up memory; False, and nothing is taken, if there is not enough."""
        if size > self.free_bytes:
            return False
        self.taken += size
        self.free_bytes -= size
        return True

    def give_back(self, size: int) -> None:
        """Return memory."""
        self.taken -= size
        self.free_bytes += size

    def leave_free(self, size: int) -> None:
        """Let others take, or give back, memory until so much is free."""
        self.free_bytes = size

    def cuda_malloc(self, size: int) -> int | None:
        """Return the address of a new range, or None if memory is short."""
        return self.addresses.reserve(size) if self.take(size) else None

    def cuda_free(self, address: int, size: int) -> None:
        """Undo ``cuda_malloc``."""
        self.addresses.give_back(address, size)
        self.give_back(size)
