"""The model of the caching allocator for a program that runs: it answers each request at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from snapreport.figures.allocator.replaying import Addresses, native_settings
from snapreport.figures.allocator.tape import ALLOCATE, AWAIT, EMPTY_CACHE, FREE, SEGMENT_CODES
from snapreport.ground.native.allocator_replay import ASCENDING, LiveReplay
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings
from snapreport.history.block_sizes import round_sizes
from snapreport.model.snapshot import MOST_BYTES, NO_ID

MOST_STREAMS = 64
"""The most streams of a program besides the default one; PyTorch has 32 of each priority."""
UPWARDS = Addresses(ASCENDING, above=0x7000_0000_0000)
"""Segments lie one behind the other, where those of CUDA do, with room above for thousands."""

_STATES = ("inactive", "active_allocated", "active_pending_free")
"""PyTorch's names of the states in allocator.c."""
_ACTIONS = {code: action for action, code in SEGMENT_CODES.items()}
_FIRST_ROWS = 1024
_MOST_KNOWN = 1 << 16
"""Sizes whose rounding is kept; a program asks for far fewer."""


class NoRoomError(Exception):
    """A request that the card, or the process's share of it, has no room for; sizes in bytes."""

    def __init__(self, size: int, allocated: int, reserved: int, free: int) -> None:
        super().__init__(
            f"{size:,} bytes were requested; {free:,} are free, and {reserved:,} are reserved, of"
            f" which {allocated:,} are allocated"
        )
        self.size = size
        self.allocated = allocated
        """What is allocated already."""
        self.reserved = reserved
        """What all segments have, after those that could be were given back."""
        self.free = free
        """What is left for segments."""


@dataclass(frozen=True)
class LiveBlock:
    """A block of a segment, as a snapshot lists it."""

    address: int
    size: int
    state: str
    """``active_allocated``, ``active_pending_free`` or ``inactive``."""
    row: int | None
    """The allocation that is in it."""


@dataclass(frozen=True)
class LiveSegment:
    """A segment, or a mapped part of an expandable one, as a snapshot lists it."""

    address: int
    total_size: int
    stream: int
    segment_type: str
    """``small`` or ``large``."""
    is_expandable: bool
    blocks: tuple[LiveBlock, ...]
    """By address, without a gap."""


class LiveAllocator:
    """The caching allocator of a card that is empty at first.

    An allocation is a row, which later ones get once it is freed. One thread may ask at a time.
    """

    def __init__(
        self,
        settings: AllocatorSettings,
        capacity: int = UNLIMITED,
        addresses: Addresses = UPWARDS,
    ) -> None:
        """Begin.

        Args:
            settings: the allocator's; the process's share of the card is one of them.
            capacity: bytes that all segments may have together.
            addresses: where new segments lie.
        """

        @lru_cache(_MOST_KNOWN)
        def rounded(size: int) -> int:
            if size < 1:  # PyTorch does not ask its allocator for nothing
                raise ValueError(f"an allocation cannot have {size} bytes")
            if size > MOST_BYTES:  # which PyTorch, too, refuses before it looks for room
                raise self._no_room(size)
            return int(round_sizes(np.array([size]), settings)[0])

        given = native_settings(settings, capacity, addresses)
        self._most = min(given["capacity"], given["limit"])
        self._rounded = rounded
        self._model = LiveReplay(1 + MOST_STREAMS, given)
        self._state = self._model.state
        self._lanes = {0: 0}
        self._unused: list[int] = []

    def allocate(self, size: int, stream: int = 0) -> int:
        """Serve a request; return its row.

        Args:
            size: requested bytes, at least one.
            stream: the one that is current, as PyTorch numbers it.

        Raises:
            NoRoomError: there is no room, even after all that is cached was given back.
            ValueError: nothing is requested, or there are too many streams.
        """
        model, rounded = self._model, self._rounded(size)
        lane = self._lanes.get(stream)
        if lane is None:
            lane = self._new_lane(stream)
        row = self._unused.pop() if self._unused else self._new_row()
        model.rounded[row], model.lane[row] = rounded, lane
        model.do(ALLOCATE, row)
        if not model.placed[row]:
            self._unused.append(row)
            raise self._no_room(size)
        return row

    def free(self, row: int) -> None:
        """Free an allocation; or complete that, where another stream used it until now.

        Raises:
            ValueError: there is no such allocation.
        """
        self._check(row)
        self._model.do(FREE, row)
        self._model.placed[row] = 0
        self._unused.append(row)

    def await_free(self, row: int) -> None:
        """Free an allocation that another stream still uses.

        Its block serves nobody until ``free()``, or until a request lacks memory and waits for it.

        Raises:
            ValueError: there is no such allocation.
        """
        self._check(row)
        self._model.do(AWAIT, row)

    def empty_cache(self) -> None:
        """Give back what is cached, as ``torch.cuda.empty_cache()`` does."""
        self._model.do(EMPTY_CACHE)

    def address(self, row: int) -> int:
        """Return where an allocation lies."""
        return self._model.placed[row]

    def block_size(self, row: int) -> int:
        """Return the bytes of its block, which may be more than were requested."""
        return self._model.sizes[row]

    @property
    def allocated(self) -> int:
        """Bytes of blocks in use, as ``torch.cuda.memory_allocated()``."""
        return int(self._state.allocated)

    @property
    def peak_allocated(self) -> int:
        """The most of these, as ``torch.cuda.max_memory_allocated()``."""
        return int(self._state.peak_allocated)

    @property
    def reserved(self) -> int:
        """Bytes of all segments, as ``torch.cuda.memory_reserved()``."""
        return int(self._state.reserved)

    @property
    def peak_reserved(self) -> int:
        """The most of these, as ``torch.cuda.max_memory_reserved()``."""
        return int(self._state.peak)

    @property
    def retries(self) -> int:
        """How often all that is cached was given back to serve a request."""
        return int(self._state.retries)

    def reset_peaks(self) -> None:
        """Let both peaks begin anew, as ``torch.cuda.reset_peak_memory_stats()`` does."""
        self._state.peak_allocated, self._state.peak = self.allocated, self.reserved

    def limit_to(self, size: int) -> None:
        """Let the process have so many bytes, as ``set_per_process_memory_fraction()`` does."""
        state = self._model.state
        if state.garbage:
            state.garbage = int(state.garbage / state.limit * size)
        state.limit, self._most = size, min(state.capacity, size)

    def new_segment_events(self) -> list[tuple[str, int, int]]:
        """Return what came from the driver and went back since the last call, in order.

        Returns:
            PyTorch's name of what was done, such as ``segment_alloc``, the address and the bytes.
        """
        if not self._state.n_events:
            return []
        events = self._model.take_events()[:, 1:].tolist()
        return [(_ACTIONS[kind], address, size) for kind, address, size in events]

    def segments(self) -> list[LiveSegment]:
        """Return all segments and their blocks, by address."""
        streams = list(self._lanes)
        table = self._model.blocks()
        begin = np.flatnonzero(table[:, 7])
        found = []
        for blocks in np.split(table, begin[1:]) if len(begin) else ():
            address, _, _, _, lane, large, expandable, _ = blocks[0].tolist()
            found.append(
                LiveSegment(
                    address=address,
                    total_size=int(blocks[:, 1].sum()),
                    stream=streams[lane],
                    segment_type="large" if large else "small",
                    is_expandable=bool(expandable),
                    blocks=tuple(
                        LiveBlock(at, size, _STATES[state], None if row == NO_ID else row)
                        for at, size, state, row in blocks[:, :4].tolist()
                    ),
                )
            )
        return found

    def _no_room(self, size: int) -> NoRoomError:
        return NoRoomError(size, self.allocated, self.reserved, self._most - self.reserved)

    def _check(self, row: int) -> None:
        if row < 0 or row >= len(self._model.placed) or not self._model.placed[row]:
            raise ValueError(f"there is no allocation {row}")

    def _new_row(self) -> int:
        """Make twice as many rows; return one, the others are unused."""
        first = len(self._model.placed)
        count = max(first, _FIRST_ROWS)
        self._model.add_rows(count)
        self._unused.extend(range(first + count - 1, first, -1))
        return first

    def _new_lane(self, stream: int) -> int:
        if len(self._lanes) > MOST_STREAMS:
            raise ValueError(f"there are more than {MOST_STREAMS} streams besides the default one")
        self._lanes[stream] = len(self._lanes)
        return self._lanes[stream]
