"""Snapshots that are derived from a profile: no allocator, and maybe blocks without addresses.

Source: torch/cuda/_memory_viz.py, ``_profile_to_snapshot``: blocks are listed in the order in
which the tensors were met, not by address, so their running sum is no address. They are told
apart by size and stack then; the blocks of our own recorder have addresses.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from snapreport.history.allocations import Held
from snapreport.history.pairing import ABSENT, Pairs
from snapreport.model.snapshot import INACTIVE, NO_ID, Segments, Trace
from snapreport.model.stacks import NO_STACK


def match_profiler_blocks(pairs: Pairs, segments: Segments, trace: Trace) -> Held:
    """Join the final blocks to the pairs still open, by size and stack, in order.

    Of those of one size and stack, the ones at a block's address come first.
    """
    rows: dict[tuple[int, int], list[int]] = {}
    # An empty list of frames is NO_STACK on a block, and a stack of no frames on an event.
    depth_known = Counter(segments.block_stack.tolist())
    for row in np.flatnonzero(pairs.completed == ABSENT).tolist()[::-1]:
        event = pairs.first[row]
        stack = int(trace.stack[event])
        key = (int(trace.size[event]), stack if stack in depth_known else NO_STACK)
        rows.setdefault(key, []).append(row)
    of_block = np.full(len(segments.block_state), NO_ID, np.int32)
    untouched = []
    held = np.flatnonzero(segments.block_state != INACTIVE).tolist()
    at_home = _at_home(pairs, rows, segments, held)
    for block in held:
        key = (int(segments.block_requested[block]), int(segments.block_stack[block]))
        if block in at_home:
            of_block[block] = at_home[block]
        elif rows.get(key):
            of_block[block] = rows[key].pop()
        else:
            untouched.append(block)
    return Held(of_block, np.array(untouched, np.int64))


def _at_home(
    pairs: Pairs,
    rows: dict[tuple[int, int], list[int]],
    segments: Segments,
    held: list[int],
) -> dict[int, int]:
    """Return the pair that fits each block in address, size and stack; each pair is used once.

    Args:
        pairs: all pairs.
        rows: those still open, by size and stack, the last first; what is found leaves it.
        segments: the final state.
        held: its blocks in use.
    """
    home = {
        (size, stack, int(pairs.addr[row])): row
        for (size, stack), same in rows.items()
        for row in same
    }
    found: dict[int, int] = {}
    for block in held:
        size, stack = int(segments.block_requested[block]), int(segments.block_stack[block])
        row = home.pop((size, stack, int(segments.block_address[block])), None)
        if row is not None:
            found[block] = row
    taken = set(found.values())
    for key, same in rows.items():
        rows[key] = [row for row in same if row not in taken]
    return found
