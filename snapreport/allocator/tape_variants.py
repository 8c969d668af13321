"""Tapes for what a recording leaves open about the program.

Under the recorded settings they all give the same result; under others they may differ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.allocator.replay_tape import ALLOCATE, AWAIT, FAIL, FREE, PERHAPS, ReplayTape
from snapreport.allocator.replaying import chosen_operations, with_operations
from snapreport.history.allocator_settings import MIB, AllocatorSettings, segment_sizes
from snapreport.history.block_sizes import SplitRules, round_sizes

_LEAST_BLOCK = 512


def possible_tapes(tape: ReplayTape, recorded: AllocatorSettings) -> list[ReplayTape]:
    """Return the tapes that are consistent with a recording, the recorded one first.

    A request that lacks memory waits until other streams are done with freed memory. When they
    would have been done otherwise is not known: at once at the earliest, never at the latest. And
    of a failed request, only the size after the recorded rounding is known.
    """
    found = [tape]
    if (tape.waited == PERHAPS).any():
        found.append(_completed_before(tape))
    if tape.waited.any():
        found.append(chosen_operations(tape, tape.waited == 0))
    divisions = recorded.roundup_power2_divisions
    if divisions and (tape.op == FAIL).any():
        found += [_less_failed(each, divisions) for each in found]
    return found


def from_scratch(tape: ReplayTape) -> ReplayTape:
    """Return a tape that begins with empty memory and first requests what was there, by address.

    It is the best layout that another setting could have had when the recording began.
    """
    there = _held_at_start(tape)
    longer = with_operations(tape, [ALLOCATE] * len(there), there)
    return replace(longer, block=np.zeros_like(tape.block), segments=tape.segments[:0])


def scattered(tape: ReplayTape) -> ReplayTape:
    """Return a tape that begins with every large block in a segment of its own.

    What the program had done before, and so what was between the blocks, is only known under the
    recorded settings. This is the most memory that these blocks can keep from being given back.
    """
    there = _held_at_start(tape)
    size = round_sizes(tape.size[there], SplitRules())
    segment = segment_sizes(size, AllocatorSettings())
    behind = np.where(size > MIB, segment - size, 0)
    filled = np.flatnonzero(behind > MIB)
    first = len(tape.size)
    rows = first + np.arange(len(filled))
    # Each block, then what fills its segment; once all are there, the latter is freed.
    place = np.concatenate([2 * np.arange(len(there)), 2 * filled + 1])
    begun = np.concatenate([there, rows])[np.argsort(place)]
    kinds = [ALLOCATE] * len(begun) + [FREE] * len(rows)

    def more(column: NDArray[np.int64], values: NDArray[np.int64] | int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.concatenate([column, np.zeros(len(rows), np.int64) + values])
        return found

    return replace(
        with_operations(tape, kinds, np.concatenate([begun, rows])),
        size=more(tape.size, behind[filled]),
        lane=more(tape.lane, tape.lane[there[filled]]),
        address=more(tape.address, 0),
        block=np.zeros(first + len(rows), np.int64),
        segments=tape.segments[:0],
    )


def _held_at_start(tape: ReplayTape) -> NDArray[np.int64]:
    """Return the allocations from before the recording, by address."""
    there = np.flatnonzero(tape.block)
    return there[np.argsort(tape.address[there], kind="stable")]


def _completed_before(tape: ReplayTape) -> ReplayTape:
    """Return a tape in which frees that may or may not have waited did not wait."""
    perhaps = tape.waited == PERHAPS
    waited_for = np.isin(tape.row, tape.row[perhaps]) & (tape.op == AWAIT)
    at_once = replace(tape, op=np.where(waited_for, FREE, tape.op))
    return chosen_operations(at_once, ~perhaps)


def _less_failed(tape: ReplayTape, divisions: tuple[int, ...]) -> ReplayTape:
    """Return a tape in which failed requests have the smallest possible size."""
    failed = np.flatnonzero(tape.op == FAIL)
    size = tape.failed_size.copy()
    size[failed] = _least_rounded_to(size[failed], divisions)
    return replace(tape, failed_size=size)


def _least_rounded_to(size: NDArray[np.int64], divisions: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the least multiples of 512 that are rounded to some sizes."""
    high = size // _LEAST_BLOCK
    low = high // 2 - 1  # rounding adds less than as much again
    while (high - low > 1).any():
        middle = (low + high) // 2
        fits = round_sizes(middle * _LEAST_BLOCK, SplitRules(divisions)) >= size
        open_ = high - low > 1
        high = np.where(open_ & fits, middle, high)
        low = np.where(open_ & ~fits, middle, low)
    found: NDArray[np.int64] = high * _LEAST_BLOCK
    return found
