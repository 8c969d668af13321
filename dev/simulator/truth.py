"""The oracle: what really happened, kept apart from the trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

START = -1
"""The event of everything that happened before the first event of the window."""


class Counters(NamedTuple):
    """The allocator's own counters, as in ``memory_stats()``, in bytes."""

    requested: int
    allocated: int
    active: int
    reserved: int


class Life:
    """One allocation from birth to end; events are numbered from the device's first ever."""

    __slots__ = (
        "address",
        "alloc",
        "block_size",
        "context",
        "expandable",
        "free",
        "free_requested",
        "pool_id",
        "size",
        "small",
        "stream",
    )

    def __init__(
        self,
        address: int,
        size: int,
        block_size: int,
        stream: int,
        pool_id: tuple[int, int],
        context: list[dict[str, Any]] | None,
        *,
        small: bool,
        expandable: bool,
        alloc: int,
    ) -> None:
        self.address = address
        self.size = size
        self.block_size = block_size
        self.stream = stream
        self.pool_id = pool_id
        self.context = context
        self.small = small
        self.expandable = expandable
        self.alloc = alloc
        self.free_requested: int | None = None
        self.free: int | None = None


@dataclass(frozen=True, eq=False)
class DeviceTruth:
    """What happened on one device, in events of the dumped trace.

    The first group has one row per allocation ever made, in birth order, those that ended before
    the window included (``live`` is False for them). An event is START for what happened before the
    window or was not recorded, and ``events`` for what never happened.
    """

    device: int
    events: int
    """Number of events in the dumped trace."""

    address: NDArray[np.int64]
    size: NDArray[np.int64]
    """Requested bytes."""
    block_size: NDArray[np.int64]
    alloc_event: NDArray[np.int64]
    free_requested_event: NDArray[np.int64]
    free_event: NDArray[np.int64]
    stream: NDArray[np.int64]
    small: NDArray[np.bool_]
    """Served from a small pool."""
    expandable: NDArray[np.bool_]
    """Lies in an expandable segment."""
    pool_id: list[tuple[int, int]]
    frames: list[list[dict[str, Any]] | None]
    """The stack gathered when it was made, even where its event is lost; None if none was."""

    requested: NDArray[np.int64]
    """int64, shape (events + 1,): bytes after event i - 1; [0] is the start. So the next three."""
    allocated: NDArray[np.int64]
    active: NDArray[np.int64]
    reserved: NDArray[np.int64]

    @property
    def live(self) -> NDArray[np.bool_]:
        """Which allocations were live (in the requested curve) at some event of the window."""
        return self.free_event > START

    def keeping(self, kept: NDArray[np.bool_]) -> DeviceTruth:
        """Re-express it in the events of a trace of which only some events are left.

        Args:
            kept: shape (events,), which events are left.

        Returns:
            What happened at an event that is gone counts from the next one that is left, and as
            never happened if there is none.
        """
        before = np.concatenate(([0], np.cumsum(kept)))
        points = np.concatenate(([True], kept))

        def moved(events: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.where(events == START, START, before[np.maximum(events, 0)])

        return replace(
            self,
            events=int(before[-1]),
            alloc_event=moved(self.alloc_event),
            free_requested_event=moved(self.free_requested_event),
            free_event=moved(self.free_event),
            requested=self.requested[points],
            allocated=self.allocated[points],
            active=self.active[points],
            reserved=self.reserved[points],
        )

    def __len__(self) -> int:
        return len(self.address)


def device_truth(
    device: int, lives: Sequence[Life], first: int, counters: Sequence[Counters]
) -> DeviceTruth:
    """Express lives in the events of a window.

    Args:
        device: ordinal.
        lives: every allocation ever made on the device.
        first: number of the window's first event.
        counters: before the window's first event and after each of its events.

    Returns:
        The truth about the window.
    """
    events = len(counters) - 1

    def moved(numbers: Iterable[int | None]) -> NDArray[np.int64]:
        return np.array(
            [events if number is None else max(number - first, START) for number in numbers],
            dtype=np.int64,
        )

    curves = np.array(counters, dtype=np.int64).reshape(-1, 4)
    return DeviceTruth(
        device=device,
        events=events,
        address=np.array([life.address for life in lives], dtype=np.int64),
        size=np.array([life.size for life in lives], dtype=np.int64),
        block_size=np.array([life.block_size for life in lives], dtype=np.int64),
        alloc_event=moved(life.alloc for life in lives),
        free_requested_event=moved(life.free_requested for life in lives),
        free_event=moved(life.free for life in lives),
        stream=np.array([life.stream for life in lives], dtype=np.int64),
        small=np.array([life.small for life in lives], dtype=np.bool_),
        expandable=np.array([life.expandable for life in lives], dtype=np.bool_),
        pool_id=[life.pool_id for life in lives],
        frames=[life.context for life in lives],
        requested=curves[:, 0],
        allocated=curves[:, 1],
        active=curves[:, 2],
        reserved=curves[:, 3],
    )
