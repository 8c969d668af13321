"""Merge call stacks into a prefix tree, from the outermost frame on."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# A level of the tree costs as much as about so many frames one by one.
_LEVEL = 64


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """The nodes in the order of their first appearance, stack by stack from the outermost frame."""

    parent: NDArray[np.int32]
    """int32, shape (n_nodes,), -1 for an outermost frame; likewise the next two."""
    frame: NDArray[np.int32]
    depth: NDArray[np.int32]
    """1 for an outermost frame."""
    stack_node: NDArray[np.int32]
    """int32, shape (n_stacks,): the node of the innermost frame, -1 for the empty stack."""


def prefix_tree(stacks: Collection[tuple[int, ...]]) -> PrefixTree:
    """Build the tree.

    Args:
        stacks: frame ids of each, innermost first; all different.
    """
    length = np.fromiter(map(len, stacks), np.int64, len(stacks))
    deepest = int(length.max(initial=0))
    if length.sum() < _LEVEL * deepest:
        return one_by_one(stacks)
    frames = np.fromiter(chain.from_iterable(stacks), np.int64, int(length.sum()))
    return level_by_level(frames, length)


def one_by_one(stacks: Collection[tuple[int, ...]]) -> PrefixTree:
    """Build the tree frame by frame: best for few stacks, however deep."""
    parents: list[int] = []
    node_frames: list[int] = []
    depths: list[int] = []
    nodes: dict[tuple[int, int], int] = {}
    stack_node = np.empty(len(stacks), np.int32)
    for stack_id, frames in enumerate(stacks):
        node = -1
        for depth, frame in enumerate(reversed(frames), start=1):
            key = (node, frame)
            child = nodes.get(key)
            if child is None:
                child = nodes[key] = len(parents)
                parents.append(node)
                node_frames.append(frame)
                depths.append(depth)
            node = child
        stack_node[stack_id] = node
    return PrefixTree(*_columns(parents, node_frames, depths, stack_node))


def level_by_level(frames: NDArray[np.int64], length: NDArray[np.int64]) -> PrefixTree:
    """Build the same tree for all stacks at once: best for thousands of them.

    A stack adds a node for each frame below what it shares with an earlier stack, one after the
    other. So the tree follows from how much it shares, and with which stack first.

    Args:
        frames: int64, the frame ids of all stacks, innermost first.
        length: int64, shape (n_stacks,), how many of them are each stack's.
    """
    n = len(length)
    end = np.cumsum(length)
    shared = np.zeros(n, np.int64)
    owner = np.zeros(n, np.int64)  # the first stack that has as much of it
    group = np.zeros(n, np.int64)  # stacks with the same outer frames have the same number
    among = np.arange(n)  # those that still share something with another
    most = int(frames.max(initial=0)) + 1
    level = 0
    while len(among):
        level += 1
        among = among[length[among] >= level]
        key = group[among] * most + frames[end[among] - level]
        _, first, own, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        group[among] = own
        leader = among[first[own]]
        follows = leader != among
        shared[among[follows]] = level
        owner[among[follows]] = leader[follows]
        among = among[count[own] > 1]

    added = length - shared
    start = np.cumsum(added) - added
    n_nodes = int(added.sum())
    depth = np.arange(n_nodes) - np.repeat(start - shared - 1, added)
    parent = np.arange(n_nodes) - 1
    # The node at this depth is one that the owner added: it has no earlier stack that shares it.
    branch = np.where(shared > 0, start[owner] + shared - 1 - shared[owner], -1)
    parent[start[added > 0]] = branch[added > 0]
    innermost = np.where(added > 0, start + added - 1, branch)
    frame = frames[np.repeat(end, added) - depth]
    return PrefixTree(*_columns(parent, frame, depth, innermost))


def _columns(*columns: ArrayLike) -> Iterator[NDArray[np.int32]]:
    return (np.array(column, np.int32) for column in columns)
