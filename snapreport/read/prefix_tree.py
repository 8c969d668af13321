"""Merges call stacks into a prefix tree, from the outermost frame on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AHEAD = 64
_FRAMES_AHEAD = 1 << 15


PrefixTree = tuple["NDArray[np.int32]", ...]
"""The nodes in the order of their first appearance, stack by stack from the outermost frame.

Parent, frame and depth of each, int32, shape (n_nodes,), as in ``StackTable``; and the node of each
stack's innermost frame, int32, shape (n_stacks,).
"""


def prefix_tree(stacks: Collection[bytes]) -> PrefixTree:
    """Build the tree for all stacks at once.

    A stack adds one node for each frame beyond those it shares with an earlier stack. So the tree
    follows from how many frames each stack shares, and with which stack first.

    Args:
        stacks: the frame ids of each as int32, innermost first; all different.
    """
    length = np.fromiter(map(len, stacks), np.int64, len(stacks)) // 4
    frames = np.frombuffer(b"".join(stacks), np.int32)
    n = len(length)
    end = np.cumsum(length)
    shared = np.zeros(n, np.int64)
    owner = np.zeros(n, np.int64)  # the first stack with these shared frames
    group = np.zeros(n, np.int64)  # stacks with the same outer frames have the same number
    first_of = np.zeros(n, np.int64)  # the first stack of the group
    among = np.arange(n)  # stacks that still share frames with another
    most = int(frames.max(initial=0)) + 1
    level = 0
    while len(among):
        ahead = _equal_levels(frames, length, end, among, first_of[among], level)
        if ahead:
            level += ahead
            shared[among[first_of[among] != among]] = level
            continue
        level += 1
        among = among[length[among] >= level]
        key = group[among] * most + frames[end[among] - level]
        _, first, own, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        group[among] = own
        leader = first_of[among] = among[first[own]]
        follows = leader != among
        shared[among[follows]] = level
        owner[among[follows]] = leader[follows]
        among = among[count[own] > 1]

    added = length - shared
    start = np.cumsum(added) - added
    n_nodes = int(added.sum())
    depth = np.arange(n_nodes) - np.repeat(start - shared - 1, added)
    parent = np.arange(n_nodes) - 1
    # The owner added the node at this depth, as no earlier stack shares it.
    branch = np.where(shared > 0, start[owner] + shared - 1 - shared[owner], -1)
    parent[start[added > 0]] = branch[added > 0]
    innermost = np.where(added > 0, start + added - 1, branch)
    frame = frames[np.repeat(end, added) - depth]
    return tuple(each.astype(np.int32) for each in (parent, frame, depth, innermost))


def _equal_levels(
    frames: NDArray[np.int32],
    length: NDArray[np.int64],
    end: NDArray[np.int64],
    among: NDArray[np.int64],
    leader: NDArray[np.int64],
    level: int,
) -> int:
    """Return for how many levels from here on all stacks of ``among`` equal their group's first.

    In a deep recursion those are most levels. With many stacks, few levels are compared at once.
    """
    most = min(_AHEAD, max(_FRAMES_AHEAD // len(among), 1), int(length[among].min()) - level)
    if most <= 0:
        return 0
    levels = np.arange(level + 1, level + 1 + most)
    same = frames[end[among, None] - levels] == frames[end[leader, None] - levels]
    alike = same.all(axis=0)
    return most if alike.all() else int(alike.argmin())
