"""Snapshots derived from a profile: without an allocator, and maybe without block addresses.

Source: torch/cuda/_memory_viz.py, ``_profile_to_snapshot``: blocks are listed in the order in
which the tensors were met, not by address, so their running sum is no address. They are told
apart by size and stack then; the blocks of our own recorder have addresses.
"""

from __future__ import annotations

import numpy as np

from snapreport.history.allocations import Held
from snapreport.history.pairing import ABSENT, Pairs
from snapreport.model.snapshot import INACTIVE, NO_ID, Segments, Trace
from snapreport.model.stacks import NO_STACK


def match_profiler_blocks(pairs: Pairs, segments: Segments, trace: Trace) -> Held:
    """Join the final blocks to the pairs still open, by size and stack, in order.

    Of those of one size and stack, the ones at a block's address come first.
    """
    open_rows: dict[int, tuple[int, int]] = {}  # size and stack of each, the last one first
    # An empty list of frames is NO_STACK on a block, and a stack of no frames on an event.
    known = set(segments.block_stack.tolist())
    for row in np.flatnonzero(pairs.completed == ABSENT).tolist()[::-1]:
        event = pairs.first[row]
        stack = int(trace.stack[event])
        open_rows[row] = int(trace.size[event]), stack if stack in known else NO_STACK
    blocks = {
        block: (int(segments.block_requested[block]), int(segments.block_stack[block]))
        for block in np.flatnonzero(segments.block_state != INACTIVE).tolist()
    }
    of_block = np.full(len(segments.block_state), NO_ID, np.int32)
    home = {(*key, int(pairs.addr[row])): row for row, key in open_rows.items()}
    for block, key in blocks.items():
        row = home.pop((*key, int(segments.block_address[block])), NO_ID)
        of_block[block] = row
        open_rows.pop(row, None)
    left: dict[tuple[int, int], list[int]] = {}
    for row, key in open_rows.items():
        left.setdefault(key, []).append(row)
    for block, key in blocks.items():
        if of_block[block] == NO_ID and left.get(key):
            of_block[block] = left[key].pop()
    untouched = [block for block in blocks if of_block[block] == NO_ID]
    return Held(of_block, np.array(untouched, np.int64))
