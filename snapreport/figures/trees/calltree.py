"""The call tree: live allocations merged by call stack, from the outermost frame."""

from __future__ import annotations

import numpy as np

from snapreport.figures.trees.call_paths import find_call_paths
from snapreport.frames.missing_stacks import HAS_FRAMES, missing_reason
from snapreport.model.findings import MISSING_REASONS, CallTree
from snapreport.model.history import DeviceHistory
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import add_up_paths, with_ancestors
from snapreport.native.sorting import distinct, sum_groups


def find_call_tree(
    history: DeviceHistory,
    stacks: StackTable,
    event: int,
    curve: str = "allocated",
    *,
    upward: bool = False,
    folded: bool = False,
) -> CallTree:
    """Merge what is live after an event by call stack.

    The root's bytes are the curve at that event, to the byte: allocations without frames are
    children of the root, one for each reason.

    Args:
        history: the device.
        stacks: the tables of the file.
        event: -1 for the start.
        curve: ``requested``, ``allocated`` or ``active``; decides who is live and what counts.
        upward: from the frame that allocated to the outermost one, not the other way round.
        folded: without library-internal frames, as ``figures.trees.call_paths`` has it.
    """
    rows = history.allocations
    live = rows.live_at(event, curve)
    weight = rows.weights(curve)[live]
    reason = missing_reason(history, stacks)[live]
    node = np.zeros(len(weight), np.int64)
    framed = reason == HAS_FRAMES
    stack = rows.stack[live][framed]
    asked = distinct(stack)[0].astype(np.int64) if upward else stack
    paths = find_call_paths(stacks, asked, upward=upward, folded=folded)
    # Node 0 is the root, then one for each reason, then the nodes of the paths.
    first_node = len(MISSING_REASONS)
    node[framed] = paths.end[stack] + first_node
    node[~framed] = reason[~framed]
    parent = np.zeros(first_node + len(paths.parent), np.int64)
    parent[0] = -1
    parent[first_node:] = np.where(paths.parent < 0, 0, paths.parent + first_node)
    used = with_ancestors(parent, np.append(node, 0))
    parent = np.searchsorted(used, parent[used])  # places in ``used`` from here on
    parent[0] = -1
    node = np.searchsorted(used, node)
    own_bytes, own_count = (
        sum_groups(node, weight, len(used)),
        np.bincount(node, minlength=len(used)),
    )
    total_bytes = add_up_paths(parent, own_bytes)
    frame, depth = np.full(len(used), -1, np.int32), np.ones(len(used), np.int64)
    depth[0] = 0
    of_tree = used[used >= first_node] - first_node
    first_framed = len(used) - len(of_tree)
    frame[first_framed:] = paths.frame[of_tree]
    depth[first_framed:] = paths.depth[of_tree]
    order = np.lexsort((-total_bytes, parent, depth))  # level by level, siblings largest first
    place = np.empty(len(used), np.int64)
    place[order] = np.arange(len(used))
    labels = {int(place[k]): MISSING_REASONS[used[k]] for k in range(1, first_framed)}
    return CallTree(
        event=event,
        curve=curve,
        parent=np.where(parent[order] < 0, -1, place[parent[order]]).astype(np.int32),
        frame=frame[order],
        label={0: f"{curve} at event {event}", **labels},
        bytes=total_bytes[order],
        own_bytes=own_bytes[order],
        count=add_up_paths(parent, own_count)[order],
        own_count=own_count[order],
    )
