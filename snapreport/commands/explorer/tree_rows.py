"""The rows of a call tree: their order, which are open, and the search for frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.compare.two_recordings import ChangeTree
from snapreport.ground.patterns import Match
from snapreport.model.findings import CallTree
from snapreport.model.snapshot import FrameTable, add_up_paths, ancestors, marks_on_path

ROOT = 0
OPEN_ROWS = 24
"""About this many rows are shown before a reader opens or closes any, as on the page."""
_LEAST_OPENED = 0.02
"""Branches with a smaller share of all bytes stay closed at first."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class Side:
    """Which nodes of one of the trees are open, by their keys."""

    opened: set[int] = field(default_factory=set)
    touched: bool = False
    """Whether the reader opened or closed something; from then on a new moment opens nothing."""
    top: int | None = None
    """The node in focus; None for the root."""
    back: list[int | None] = field(default_factory=list)
    """What was in focus before."""
    chosen: int | None = None


class TreeRows:
    """The order of a tree's nodes when all are open.

    A node's key is computed from the frames on its path, so it is the same at another moment. Two
    paths with the same key would only open together.
    """

    def __init__(self, tree: CallTree | ChangeTree) -> None:
        """Lay out a tree whose nodes are sorted by level, with siblings next to each other."""
        self.tree = tree
        n = len(tree)
        parent = tree.parent.astype(np.int64)
        depth = np.append(parent >= 0, False).astype(np.int64)
        for above in ancestors(parent):
            depth = depth + np.where(above == n, 0, depth[above])
        self.depth: NDArray[np.int64] = depth[:n]
        self.size = add_up_paths(parent, np.ones(n, np.int64))
        begins = np.flatnonzero(np.diff(parent, prepend=-2))
        self.first = np.full(n, n, np.int64)
        self.children = np.zeros(n, np.int64)
        self.first[parent[begins[1:]]] = begins[1:]
        self.children[parent[begins[1:]]] = np.diff(np.append(begins[1:], n))
        before = np.cumsum(self.size) - self.size
        code = np.where(tree.frame >= 0, tree.frame + 1, 0).astype(np.uint64)
        for node, label in tree.label.items():
            code[node] = 2**32 + sum(label.encode()) if node else 0
        self.rank = np.zeros(n, np.int64)
        self.key = np.zeros(n, np.uint64)
        levels = np.searchsorted(self.depth, np.arange(1, int(self.depth[-1]) + 2))
        for low, high in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
            above = parent[low:high]
            within = before[low:high] - before[self.first[above]]
            self.rank[low:high] = self.rank[above] + 1 + within
            mixed = (self.key[above] ^ (code[low:high] + np.uint64(1))) * _MULTIPLIER
            self.key[low:high] = mixed ^ (mixed >> np.uint64(29))

    def node_of(self, key: int | None) -> int:
        """Return the node of a key, the root if there is none."""
        if key is None:
            return ROOT
        found = np.flatnonzero(self.key == np.uint64(key))
        return int(found[0]) if len(found) else ROOT

    def below(self, node: int) -> NDArray[np.int64]:
        """Return a node and all below it."""
        begin = self.rank[node]
        return np.flatnonzero((self.rank >= begin) & (self.rank < begin + self.size[node]))

    def path(self, node: int) -> list[int]:
        """Return the path to a node, from the root to the node itself."""
        found = []
        while node >= 0:
            found.append(node)
            node = int(self.tree.parent[node])
        return found[::-1]

    def child_range(self, node: int) -> range:
        """Return the children of a node, largest first."""
        first = int(self.first[node])
        return range(first, first + int(self.children[node]))

    def in_sight(self, top: int, opened: set[int]) -> NDArray[np.int64]:
        """Return the nodes below ``top`` whose ancestors are all open, in order."""
        is_open = np.isin(self.key, np.fromiter(opened, np.uint64, len(opened)))
        is_open[self.path(top)] = True
        closed = marks_on_path(self.tree.parent, (~is_open).astype(np.int8))
        nodes = self.below(top)
        shown = nodes[(nodes == top) | (closed[self.tree.parent[nodes]] == 0)]
        ordered: NDArray[np.int64] = shown[np.argsort(self.rank[shown])]
        return ordered

    def keys_of(self, nodes: NDArray[np.int64] | Sequence[int]) -> set[int]:
        """Return the keys of some nodes."""
        return set(self.key[np.asarray(nodes, np.int64)].tolist())

    def heaviest(self, top: int) -> set[int]:
        """Return the keys to open so that about ``OPEN_ROWS`` rows show the heaviest branches."""
        held = self.tree.bytes
        opened, queue = [top], list(self.child_range(top))
        shown = 1 + len(queue)
        while queue and shown < OPEN_ROWS:
            node = max(queue, key=lambda each: (int(held[each]), -each))
            queue.remove(node)
            if held[node] < held[top] * _LEAST_OPENED:
                break
            if self.children[node]:
                opened.append(node)
                shown += int(self.children[node])
                queue += self.child_range(node)
        return self.keys_of(opened)

    def chain(self, node: int) -> list[int]:
        """Return a node and the nodes below it up to the next fork, which open together."""
        found = [node]
        while self.children[found[-1]] == 1:
            found.append(int(self.first[found[-1]]))
        return found

    def matching(
        self, top: int, tables_of: Callable[[int], Sequence[FrameTable]], test: Match
    ) -> list[int]:
        """Return the nodes below ``top`` whose function, file or ``file:line`` match, in order.

        Args:
            top: the node.
            tables_of: returns the tables with a node's frame: as recorded, and as shown.
            test: says whether a text matches.
        """
        passing = cache(lambda frames: passing_frames(frames, test))
        nodes = self.below(top)
        hits = [
            node
            for node, frame in zip(nodes.tolist(), self.tree.frame[nodes].tolist(), strict=True)
            if (
                any(passing(table)[frame] for table in tables_of(node))
                if frame >= 0
                else node != ROOT and test(self.tree.label.get(node, ""))
            )
        ]
        return sorted(hits, key=self.rank.__getitem__)


def passing_frames(frames: FrameTable, test: Match) -> list[bool]:
    """Say for each frame whether its function, file or ``file:line`` passes."""
    return [
        test(name) or test(file) or (line > 0 and test(f"{file}:{line}"))
        for name, file, line in zip(
            frames.names, frames.filenames, frames.lines.tolist(), strict=True
        )
    ]
