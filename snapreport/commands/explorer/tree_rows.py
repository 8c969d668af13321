"""The rows of a call tree: their order, which are open; and the search for rows and events."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.moments import ACTIONS, ALLOC, OTHER, UNKNOWN, trace_kinds
from snapreport.ground.patterns import Match
from snapreport.model.history import DeviceHistory
from snapreport.model.snapshot import (
    NO_ID,
    FrameTable,
    StackTable,
    add_up_paths,
    ancestors,
    marks_on_path,
)

if TYPE_CHECKING:
    from snapreport.diagnosis.compare.two_recordings import ChangeTree
    from snapreport.model.findings import CallTree


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
        is_open = self.mask(opened)
        is_open[self.path(top)] = True
        closed = marks_on_path(self.tree.parent, (~is_open).astype(np.int8))
        nodes = self.below(top)
        around = self.tree.parent[nodes]
        shown = nodes[(nodes == top) | (closed[around] == 0)]
        ordered: NDArray[np.int64] = shown[np.argsort(self.rank[shown])]
        return ordered

    def mask(self, keys: set[int]) -> NDArray[np.bool_]:
        """Say for each node whether its key is one of these."""
        return np.isin(self.key, np.fromiter(keys, np.uint64, len(keys)))

    def keys_of(self, nodes: NDArray[np.int64]) -> set[int]:
        """Return the keys of some nodes."""
        return set(self.key[nodes].tolist())

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
        return self.keys_of(np.array(opened))

    def chain(self, node: int) -> list[int]:
        """Return a node and the nodes below it up to the next fork, which open together."""
        found = [node]
        while self.children[found[-1]] == 1:
            found.append(int(self.first[found[-1]]))
        return found

    def matching(
        self,
        top: int,
        tables_of: Sequence[Callable[[int], FrameTable]],
        test: Match,
    ) -> NDArray[np.int64]:
        """Return the nodes below ``top`` whose function, file or ``file:line`` match, in order.

        Args:
            top: the node.
            tables_of: each returns a table with a node's frame: as recorded, as shown.
            test: says whether a text matches.
        """
        nodes = self.below(top)
        passing = cache(lambda frames: passing_frames(frames, test))
        hits = []
        for node, frame in zip(nodes.tolist(), self.tree.frame[nodes].tolist(), strict=True):
            if frame < 0:
                hits.append(node != ROOT and test(self.tree.label.get(node, "")))
            else:
                hits.append(any(passing(of(node))[frame] for of in tables_of))
        found = nodes[np.array(hits, np.bool_)]
        ordered: NDArray[np.int64] = found[np.argsort(self.rank[found])]
        return ordered


def passing_frames(frames: FrameTable, test: Match) -> list[bool]:
    """Say for each frame whether its function, file or ``file:line`` passes."""
    return [
        test(name) or test(file) or (line > 0 and test(f"{file}:{line}"))
        for name, file, line in zip(
            frames.names, frames.filenames, frames.lines.tolist(), strict=True
        )
    ]


# Search for events by actions, sizes, addresses and texts, as on the page.


_SIZE = r"(\d{1,18}(?:\.\d{1,9})?)(b|[kmgt](?:i?b)?)?"
_BOUND = re.compile(rf"(>=|<=|>|<|=)?{_SIZE}", re.IGNORECASE)
_RANGE = re.compile(rf"{_SIZE}(?:\.\.|-){_SIZE}", re.IGNORECASE)
_WORD = re.compile(r'"([^"]*)"?|(\S+)')
_MOST = 2**63 - 1
_MOST_TEXTS = 20
_NO_ADDRESS = ("oom", "snapshot")


def find_events(
    history: DeviceHistory, stacks: StackTable, typed: str, test: Match | None = None
) -> NDArray[np.int64]:
    """Return the events that match any of the search's actions and all of its other terms.

    Args:
        history: the device.
        stacks: the file's.
        typed: actions (``alloc``), sizes (``>=1MiB``, ``1M..4M``), addresses (``0x7f..``) and
            texts; quotes make anything a text.
        test: also require a frame whose function, file or ``file:line`` passes.
    """
    if not typed and test is None:
        return np.arange(history.events, dtype=np.int64)
    kinds = trace_kinds(history)
    kind, row = kinds.kind, kinds.row
    rows, other = history.allocations, history.other
    is_other, is_own = kind == OTHER, (kind != OTHER) & (kind != UNKNOWN)
    size = np.zeros(len(kind), np.int64)
    addr = np.full(len(kind), -1, np.int64)
    stack = np.full(len(kind), NO_ID, np.int64)
    size[is_own], size[is_other] = rows.size[row[is_own]], other.size[row[is_other]]
    addr[is_own], addr[is_other] = rows.addr[row[is_own]], other.addr[row[is_other]]
    names = np.array([*ACTIONS, *dict.fromkeys(other.action)])
    action = kind.astype(np.int64)
    places = {name: k for k, name in enumerate(names.tolist())}
    code = np.array([places[name] for name in other.action], np.int64)
    action[is_other] = code[row[is_other]]
    freed = is_own & (kind != ALLOC)
    stack[is_own], stack[is_other] = rows.stack[row[is_own]], other.stack[row[is_other]]
    freeing = rows.free_stack[row[freed]]
    empty = np.append(stacks.stack_node < 0, True)[freeing]  # the last is for NO_STACK
    stack[freed] = np.where(empty, stack[freed], freeing)

    keep = np.ones(len(kind), np.bool_)
    actions: list[int] = []
    texts: list[Match] = [] if test is None else [test]
    for quoted, word in _WORD.findall(typed):
        sizes = _sizes(word)
        if word in places:
            actions.append(places[word])
        elif sizes is not None:
            keep &= (size >= sizes[0]) & (size <= sizes[1])
        elif re.fullmatch(r"0x[0-9a-fA-F]{1,15}", word):
            has_one = ~np.isin(action, [places[each] for each in _NO_ADDRESS if each in places])
            keep &= has_one & _holds(addr, size, int(word, 16))
        elif quoted or word:
            texts.append(_part(quoted or word))
    if actions:
        keep &= np.isin(action, actions)
    for text in texts[:_MOST_TEXTS]:
        keep &= np.append(_stacks_with(stacks, text), False)[stack]
    return np.flatnonzero(keep)


def _part(text: str) -> Match:
    wanted = text.lower()
    return lambda other: wanted in other.lower()


def _stacks_with(stacks: StackTable, test: Match) -> NDArray[np.bool_]:
    """Say for each stack whether one of its frames passes."""
    hits = np.array(passing_frames(stacks.frames, test), np.int8)
    marked = np.append(marks_on_path(stacks.node_parent, hits[stacks.node_frame]), np.int8(0))
    passed: NDArray[np.bool_] = marked[stacks.stack_node] > 0
    return passed


def _holds(addr: NDArray[np.int64], size: NDArray[np.int64], wanted: int) -> NDArray[np.bool_]:
    """Say which memory contains an address, or is at one that begins with these hex digits."""
    held = (addr <= wanted) & (wanted < addr + np.maximum(size, 1))
    rest = addr.copy()
    while (longer := rest > wanted).any() and wanted:
        rest[longer] //= 16
    found: NDArray[np.bool_] = held | ((rest == wanted) & (wanted > 0))
    return found


def _sizes(word: str) -> tuple[int, int] | None:
    """Return the range of bytes that a word names, None for a text; a bare number is text."""
    found = _BOUND.fullmatch(word)
    if found:
        sign, count, unit = found.groups()
        if not sign and not unit:
            return None
        size = _bytes(count, unit)
        return {
            ">=": (size, _MOST),
            "<=": (0, size),
            ">": (size + 1, _MOST),
            "<": (0, size - 1),
        }.get(sign, (size, size))
    found = _RANGE.fullmatch(word)
    if not found or not (found[2] or found[4]):
        return None
    return _bytes(found[1], found[2] or found[4]), _bytes(found[3], found[4] or found[2])


def _bytes(count: str, unit: str | None) -> int:
    size: int = 1024 ** "bkmgt".index((unit or "b")[0].lower())
    return min(round(float(count) * size), _MOST - 1)
