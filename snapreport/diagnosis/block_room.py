"""How far the peak falls without some memory, whichever blocks the allocator then finds.

The allocator gives a request a block that it has, and leaves up to 1 MiB of it unused rather than
split it off. What is made before a change gets the block that it got in the recording. Which blocks
later requests get is another matter after it, so each of those may be larger by as much as the
allocator ever leaves unused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_both
from snapreport.ground.native.columns import Outline, Spans, sum_live
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import recorded_settings
from snapreport.history.block_sizes import most_unused, round_sizes
from snapreport.model.diagnoses import Frees
from snapreport.model.history import START, DeviceHistory, History
from snapreport.roles.steps import allocated_outline


@dataclass(frozen=True, eq=False)
class BlockRoom:
    """A device with blocks no larger than requests need; arrays: int64, shape (n_allocations,)."""

    history: DeviceHistory
    unused: NDArray[np.int64]
    """By how much each block was larger in the recording."""
    possible: NDArray[np.int64]
    """By how much it may be larger after a change that comes before it."""

    def after(
        self, first: int, placed: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.int64], Spans]:
        """Return by how much each block may be larger after a change, and what is less for that.

        The latter are bytes that ``widest`` has too much.

        Args:
            first: the first event that the change affects.
            placed: rows of what has its block before any change, each once.
        """
        rows, unused = self.history.allocations, self.possible.copy()
        begun = int(np.searchsorted(rows.alloc_event, first))
        chosen = np.arange(begun)
        if placed is not None:
            chosen = np.append(chosen, placed[placed >= begun])
        chosen = chosen[self.possible[chosen] > self.unused[chosen]]
        unused[chosen] = self.unused[chosen]
        lives = rows.alloc_event[chosen], rows.free_requested_event[chosen]
        return unused, (self.possible[chosen] - unused[chosen], *lives)

    @cached_property
    def surplus(self) -> Spans:
        """What was unused in the recording, over the lives of its blocks."""
        rows, some = self.history.allocations, np.flatnonzero(self.unused)
        return self.unused[some], rows.alloc_event[some], rows.free_requested_event[some]

    @cached_property
    def widest(self) -> Outline:
        """Of the allocated curve with blocks as large as they may be after a change."""
        if not self.possible.any():
            return allocated_outline(self.history)
        rows = self.history.allocations
        lives = rows.alloc_event, rows.free_requested_event, self.history.events
        return Outline(sum_live(rows.block_size + self.possible, *lives))


def rounded(
    file: History, device: DeviceHistory, requested: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Round requests as the device's allocator does; that of the CPU does not."""
    if device.device.kind == "cpu":
        return requested
    return round_sizes(requested, recorded_settings(file.settings, device.device.kind))


@once_for_both
def find_room(device: DeviceHistory, file: History) -> BlockRoom:
    """Find how much larger than its request each block is, and may be."""
    rows = device.allocations
    size = np.minimum(rounded(file, device, rows.size), rows.block_size)
    unused = rows.block_size - size
    possible = unused
    if device.device.kind != "cpu":
        most = most_unused(size, recorded_settings(file.settings, device.device.kind))
        possible = np.maximum(most, unused)
    if unused.any():
        device = replace(device, allocations=replace(rows, block_size=size))
    return BlockRoom(device, unused, possible)


WHYS = (
    "any block that is made after some of it is gone may be up to 1 MiB larger than its request",
    "all other blocks are as large as in the recording",
    "blocks are no larger than their requests need",
)
"""What the figures of :func:`freed_by` rest on, where only the blocks make a difference."""


def freed_by(
    file: History,
    device: DeviceHistory,
    rows: NDArray[np.int64],
    begin: NDArray[np.int64],
    within: slice = slice(None),
    whys: tuple[str, str, str] = WHYS,
) -> Frees:
    """Return how far the allocated peak falls if some allocations are gone from an event on each.

    Args:
        rows: int64, shape (n,): the allocations, each once.
        begin: int64, shape (n,): events.
        within: which values of the curve, whose index 0 is the start, count.
        whys: what the figures rest on.
    """
    room, own = find_room(device, file), device.allocations
    bare, end = room.history.allocations.block_size, own.free_requested_event[rows]
    begin = np.minimum(np.maximum(begin, own.alloc_event[rows]), end)
    unused, too_much = room.after(int(begin.min(initial=device.events)))
    first = within.start or 0
    recorded = allocated_outline(device)
    peak = int(recorded.curve[within].max())

    def falls(outline: Outline, weight: NDArray[np.int64], *others: Spans) -> int:
        if within != slice(None):
            outline = Outline(outline.curve[within])
        ends = len(outline.curve) - 1
        spans = (
            (size, np.clip(start - first, START, ends), np.clip(stop - first, START, ends))
            for size, start, stop in ((weight[rows], begin, end), *others)
        )
        return max(peak - outline.peak_without(*spans)[0], 0)

    expected = falls(recorded, own.block_size)
    least = falls(room.widest, bare + unused, too_much)
    most = falls(recorded, bare, room.surplus)
    found = min(least, expected), expected, max(most, expected)
    return Frees(*found, *(whys if found[0] < found[2] else ("", "", "")))
