"""Call stacks merged into trees of other shapes: from the allocation outwards, or folded.

A folded tree keeps the frames outside of PyTorch, and the autograd nodes, compiled or not, as
backward threads have no other useful frames; all other frames pass their bytes to the frame around
them. The lines of a compiled backward are one frame. A stack with no such frame is shown by its
call site alone. The page folds in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import find_site_frames
from snapreport.frames.site_names import stand_ins, tree_kinds
from snapreport.ground.memoize import once_for_each
from snapreport.model.findings import NODE, OUTSIDE
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import lowest_on_path
from snapreport.native.sorting import distinct


@dataclass(frozen=True, eq=False)
class CallPaths:
    """The nodes of a tree of call stacks; a node's parent has a smaller number."""

    parent: NDArray[np.int64]
    """-1 for a node that begins a path; int64, shape (n_nodes,), as ``frame`` and ``depth``."""
    frame: NDArray[np.int64]
    depth: NDArray[np.int64]
    """1 for a node that begins a path."""
    end: NDArray[np.int64]
    """int64, shape (n_stacks,): the node where each stack's path ends; -1 for one that was not
    asked for, and for the empty stack."""


def find_call_paths(
    stacks: StackTable, asked: NDArray[np.int64], *, upward: bool, folded: bool
) -> CallPaths:
    """Lay out the paths of some call stacks.

    Args:
        stacks: the file's.
        asked: distinct stack ids, none of an empty stack; a downward tree has all stacks anyway.
        upward: from the frame that allocated to the outermost one, not the other way round.
        folded: without library-internal frames.
    """
    if upward:
        return _upward(stacks, asked, folded)
    if folded:
        return _folded(stacks)
    parent, frame, depth = stacks.node_parent, stacks.node_frame, stacks.node_depth
    return CallPaths(*(each.astype(np.int64) for each in (parent, frame, depth, stacks.stack_node)))


@once_for_each
def _folded(stacks: StackTable) -> CallPaths:
    nearest, around = _kept_frames(stacks, folded=True)
    frame_of = stand_ins(stacks)[stacks.node_frame]
    n_nodes, n_frames = len(nearest) - 1, max(len(stacks.frames), 1)
    place = np.full(n_nodes + 1, -1, np.int64)  # of each frame that is kept; the last is for none
    laid = _Paths(n_frames)
    here = np.flatnonzero((nearest[:-1] == np.arange(n_nodes)) & (around[:-1] == n_nodes))
    inside = np.flatnonzero((nearest[:-1] == np.arange(n_nodes)) & (around[:-1] != n_nodes))
    inside = inside[np.argsort(around[inside], kind="stable")]
    children = around[inside]
    while len(here):
        place[here] = laid.add(place[around[here]], frame_of[here])
        here = _children(here, inside, children)
    end = place[nearest[stacks.stack_node]]
    lone = np.flatnonzero((end < 0) & (stacks.stack_node >= 0))
    end[lone] = laid.add(np.full(len(lone), -1, np.int64), find_site_frames(stacks)[lone])
    return laid.paths(end)


def _upward(stacks: StackTable, asked: NDArray[np.int64], folded: bool) -> CallPaths:
    nearest, around = _kept_frames(stacks, folded)
    none = len(nearest) - 1
    frame_of = stand_ins(stacks)[stacks.node_frame] if folded else stacks.node_frame
    laid = _Paths(max(len(stacks.frames), 1))
    end = np.full(len(stacks), -1, np.int64)
    here = nearest[stacks.stack_node[asked]]
    lone = asked[here == none]
    end[lone] = laid.add(np.full(len(lone), -1, np.int64), find_site_frames(stacks)[lone])
    left, here = asked[here != none], here[here != none]
    while len(here):
        end[left] = laid.add(end[left], frame_of[here])
        here = around[here]
        left, here = left[here != none], here[here != none]
    return laid.paths(end)


def _kept_frames(stacks: StackTable, folded: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the nearest node that is kept at or around each node, and that around this one.

    Returns:
        twice int64, shape (n_nodes + 1,): n_nodes stands for none, and is its own.
    """
    n = len(stacks.node_parent)
    nearest = np.arange(n + 1, dtype=np.int64)
    if folded:
        kind = tree_kinds(stacks)[stacks.node_frame]
        left_out = (kind != OUTSIDE) & (kind != NODE)
        lowest = lowest_on_path(stacks.node_parent, left_out.astype(np.int8))
        nearest[:n] = np.where(left_out[lowest], n, lowest)
    return nearest, nearest[np.append(stacks.node_parent, -1)[nearest]]  # the last is for none


def _children(
    nodes: NDArray[np.int64], inside: NDArray[np.int64], around: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nodes of ``inside`` around which are any of ``nodes``; ``around`` ascends."""
    first = np.searchsorted(around, nodes, side="left")
    count = np.searchsorted(around, nodes, side="right") - first
    begins = np.repeat(first - np.cumsum(count) + count, count)
    return inside[begins + np.arange(len(begins), dtype=np.int64)]


class _Paths:
    """A tree that grows level by level."""

    def __init__(self, n_frames: int) -> None:
        self._n_frames = n_frames
        self._levels: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        self._size = self._begin = 0
        self._depth = np.zeros(0, np.int64)  # of the last level, which begins at that node

    def add(self, parent: NDArray[np.int64], frame: NDArray[np.integer]) -> NDArray[np.int64]:
        """Add a node for each frame under a parent that there is not yet; return the node of each.

        Args:
            parent: int64, shape (n,): nodes of the level before, or -1.
            frame: frame ids, shape (n,).
        """
        if not len(parent):
            return np.zeros(0, np.int64)
        key = (parent + 1) * self._n_frames + frame
        keys, place = distinct(key)
        above = keys // self._n_frames - 1
        depth = np.append(self._depth, 0)[np.where(above < 0, -1, above - self._begin)] + 1
        self._levels.append((above, keys % self._n_frames, depth))
        self._begin, self._depth = self._size, depth
        nodes = self._size + place
        self._size += len(keys)
        return nodes

    def paths(self, end: NDArray[np.int64]) -> CallPaths:
        none = np.zeros(0, np.int64)
        columns = zip(*self._levels, strict=True) if self._levels else ((none,),) * 3
        parent, frame, depth = (np.concatenate(column) for column in columns)
        return CallPaths(parent, frame, depth, end)
