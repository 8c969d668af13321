"""Snapshots that PyTorch derives from a profile: no allocator, and blocks without addresses.

Source: torch/cuda/_memory_viz.py, ``_profile_to_snapshot``: blocks are listed in the order in
which the tensors were met, not by address, so their running sum is no address. They are told
apart by size and stack instead.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from snapreport.analyse.allocations import Held
from snapreport.analyse.pairing import ABSENT, Pairs
from snapreport.model.snapshot import INACTIVE, NO_ID, Segments, Trace
from snapreport.model.stacks import NO_STACK


def match_profiler_blocks(pairs: Pairs, segments: Segments, trace: Trace) -> Held:
    """Join the final blocks to the pairs still open, by size and stack, in order."""
    rows: dict[tuple[int, int], list[int]] = {}
    # An empty list of frames is NO_STACK on a block, and a stack of no frames on an event.
    depth_known = Counter(segments.block_stack.tolist())
    for row in np.flatnonzero(pairs.completed == ABSENT).tolist()[::-1]:
        step = pairs.first[row]
        stack = int(trace.stack[step])
        key = (int(trace.size[step]), stack if stack in depth_known else NO_STACK)
        rows.setdefault(key, []).append(row)
    of_block = np.full(len(segments.block_state), NO_ID, np.int32)
    untouched = []
    for block in np.flatnonzero(segments.block_state != INACTIVE).tolist():
        key = (int(segments.block_requested[block]), int(segments.block_stack[block]))
        if rows.get(key):
            of_block[block] = rows[key].pop()
        else:
            untouched.append(block)
    return Held(of_block, np.array(untouched, np.int64))
