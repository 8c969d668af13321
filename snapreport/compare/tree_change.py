"""Merge two call trees into one: what each path holds in either recording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.source_files import pair_files
from snapreport.model.findings import CallTree
from snapreport.model.stacks import FrameTable

_BASE, _NEW = 0, 1


@dataclass(frozen=True, eq=False)
class ChangeTree:
    """Paths of both recordings, level by level, siblings with the largest change first.

    Paths are the same if their functions and files are; lines may have moved in an edit. A node's
    change is the sum of its children's and its own, and the root's is that of the curve.
    """

    parent: NDArray[np.int32]
    frame: NDArray[np.int32]
    """A row of the frames of ``side``; -1 for the root and for nodes without frames."""
    side: NDArray[np.int8]
    """Whose frame it is: 1 for the new recording, 0 for a path that only the base has."""
    label: dict[int, str]
    base: NDArray[np.int64]
    """Bytes in the base."""
    new: NDArray[np.int64]
    """Bytes in the new recording."""
    base_count: NDArray[np.int64]
    new_count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def change(self) -> NDArray[np.int64]:
        """NEW's bytes minus BASE's."""
        return self.new - self.base

    @property
    def bytes(self) -> NDArray[np.int64]:
        """The size of the change in either direction; siblings are ordered by it."""
        return np.abs(self.change)


def find_tree_change(
    base: CallTree, base_frames: FrameTable, new: CallTree, new_frames: FrameTable
) -> ChangeTree:
    """Merge one tree with the other.

    Args:
        base, new: trees of the same direction, both folded or neither.
        base_frames, new_frames: the frames of their files.
    """
    keys = pair_files(set(base_frames.filenames), set(new_frames.filenames))
    known: dict[tuple[int, object], int] = {}
    parent, frame, side = [-1], [-1], [_NEW]
    label = {0: new.label[0]}
    amounts: list[list[int]] = [[0, 0, 0, 0]]
    for which, tree, frames, files in (
        (_NEW, new, new_frames, keys[1]),
        (_BASE, base, base_frames, keys[0]),
    ):
        place = [0] * len(tree)
        parents, of = tree.parent.tolist(), tree.frame.tolist()
        held, count = tree.bytes.tolist(), tree.count.tolist()
        for node in range(len(tree)):
            if node:
                each = of[node]
                name: object = tree.label.get(node, "")
                if each >= 0:
                    name = frames.names[each], files[frames.filenames[each]]
                key = place[parents[node]], name
                there = known.get(key)
                if there is None:
                    there = known[key] = len(parent)
                    parent.append(key[0])
                    frame.append(each)
                    side.append(which)
                    amounts.append([0, 0, 0, 0])
                    if each < 0:
                        label[there] = tree.label[node]
                place[node] = there
            sums = amounts[place[node]]
            sums[which] += held[node]
            sums[2 + which] += count[node]
    return _in_order(np.array(parent), np.array(frame), np.array(side), label, np.array(amounts))


def _in_order(
    parent: NDArray[np.int64],
    frame: NDArray[np.int64],
    side: NDArray[np.int64],
    label: dict[int, str],
    amounts: NDArray[np.int64],
) -> ChangeTree:
    depth = np.zeros(len(parent), np.int64)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    change = np.abs(amounts[:, _NEW] - amounts[:, _BASE])
    order = np.lexsort((-amounts.max(axis=1), -change, parent, depth))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return ChangeTree(
        parent=np.where(parent[order] < 0, -1, place[parent[order]]).astype(np.int32),
        frame=frame[order].astype(np.int32),
        side=side[order].astype(np.int8),
        label={int(place[node]): text for node, text in label.items()},
        base=amounts[order, _BASE],
        new=amounts[order, _NEW],
        base_count=amounts[order, 2 + _BASE],
        new_count=amounts[order, 2 + _NEW],
    )
