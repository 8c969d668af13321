"""The call tree: live allocations merged by call stack, from the outermost frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.analyse.curves import live_at
from snapreport.analyse.missing_stacks import HAS_FRAMES, missing_reason
from snapreport.model.findings import MISSING_REASONS, CallTree
from snapreport.model.history import DeviceHistory
from snapreport.model.stacks import StackTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_call_tree(
    history: DeviceHistory, stacks: StackTable, step: int, curve: str = "allocated"
) -> CallTree:
    """Merge what is live after a step by call stack.

    The root's bytes are the curve at that step, to the byte: allocations without frames are
    children of the root, one for each reason.

    Args:
        history: the device.
        stacks: the tables of the file.
        step: -1 for the start.
        curve: ``requested``, ``allocated`` or ``active``; decides who is live and what counts.
    """
    rows = history.allocations
    live = live_at(history, step, curve)
    weight = (rows.size if curve == "requested" else rows.block_size)[live]
    reason = missing_reason(history, stacks)[live]
    node = np.zeros(len(weight), np.int64)
    framed = reason == HAS_FRAMES
    # Node 0 is the root, then one for each reason, then the nodes of the prefix tree.
    first_node = len(MISSING_REASONS)
    node[framed] = stacks.stack_node[rows.stack[live][framed]] + first_node
    node[~framed] = reason[~framed]
    n_nodes = first_node + len(stacks.node_parent)
    own_bytes, own_count = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    np.add.at(own_bytes, node, weight)
    np.add.at(own_count, node, 1)
    parent = np.zeros(n_nodes, np.int64)
    parent[0] = -1
    of_tree = stacks.node_parent.astype(np.int64)
    parent[first_node:] = np.where(of_tree < 0, 0, of_tree + first_node)
    depth = np.ones(n_nodes, np.int64)
    depth[0] = 0
    depth[first_node:] = stacks.node_depth
    total_bytes, total_count = own_bytes.copy(), own_count.copy()
    for level in range(int(depth.max()), 0, -1):  # parents after all their children
        at = np.flatnonzero((depth == level) & (total_count > 0))
        np.add.at(total_bytes, parent[at], total_bytes[at])
        np.add.at(total_count, parent[at], total_count[at])
    kept = _order(parent, depth, total_bytes, total_count)
    place = np.full(n_nodes, -1, np.int64)
    place[kept] = np.arange(len(kept))
    frame = np.full(n_nodes, -1, np.int32)
    frame[first_node:] = stacks.node_frame
    labels = {int(place[i]): text for i, text in enumerate(MISSING_REASONS) if i and place[i] >= 0}
    return CallTree(
        step=step,
        curve=curve,
        parent=np.where(parent[kept] < 0, -1, place[parent[kept]]).astype(np.int32),
        frame=frame[kept],
        label={0: f"{curve} at step {step}", **labels},
        bytes=total_bytes[kept],
        own_bytes=own_bytes[kept],
        count=total_count[kept],
        own_count=own_count[kept],
    )


def _order(
    parent: NDArray[np.int64],
    depth: NDArray[np.int64],
    total: NDArray[np.int64],
    count: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the nodes in use, level by level, siblings largest first; the root always."""
    used = np.flatnonzero(count > 0)
    used = used[used != 0]
    order = used[np.lexsort((used, -total[used], parent[used], depth[used]))]
    return np.concatenate([[0], order]).astype(np.int64)
