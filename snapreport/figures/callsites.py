"""Call sites, and call stacks merged into trees.

The call site of a stack is the one frame that a reader would look up. It is the innermost Python
frame that is not library-internal (``frame_kinds``): in user code or a model library. Where there
is none (C++ threads of the autograd engine, say), it is compiled code, else the innermost Python
frame, else the autograd node at work, else the innermost C++ frame that is not machinery.

A folded tree keeps the frames outside of PyTorch, and the autograd nodes, compiled or not, as
backward threads have no other useful frames; all other frames pass their bytes to the frame around
them. The lines of a compiled backward are one frame. A stack with no such frame is shown by its
call site alone. The page folds in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.questions import find_signed
from snapreport.ground.memoize import once_for_both, once_for_each, shared
from snapreport.ground.native.columns import distinct, sum_groups
from snapreport.ground.records import dataclass
from snapreport.model.asked import Question
from snapreport.model.findings import MISSING_REASONS, NODE, OUTSIDE, CallSite, CallTree
from snapreport.model.history import DeviceHistory
from snapreport.model.snapshot import StackTable, add_up_paths, lowest_on_path, with_ancestors
from snapreport.roles.frames import most_telling_nodes, site_frames, stand_ins, tree_kinds
from snapreport.roles.stack_kinds import HAS_FRAMES, NOT_RECORDED, missing_reason


@once_for_each
def find_site_frames(stacks: StackTable) -> NDArray[np.int32]:
    """Return the call site of each stack as a frame id, -1 for an empty stack; (n_stacks,).

    It is a frame of the stack, or of compiled code that which stands for it (``stand_ins``).
    """
    sites = stand_ins(stacks)[stacks.node_frame[most_telling_nodes(stacks)]].astype(np.int32)
    return shared(stacks.of_stacks(sites))


@once_for_both
def _number_sites(
    history: DeviceHistory, stacks: StackTable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct keys of call sites, ascending, and each allocation's place in them.

    A key is a frame id; keys above all frame ids are the reasons for missing frames.
    """
    reason = missing_reason(history, stacks)
    # One entry more than sites, for NO_STACK: index -1 picks the last.
    of_stack = np.append(find_site_frames(stacks), -1).astype(np.int64)
    key = np.where(
        reason == HAS_FRAMES,
        of_stack[history.allocations.stack],
        len(stacks.frames) + reason.astype(np.int64),
    )
    keys, number = distinct(key)
    return shared(keys), shared(number)


def find_sites(
    history: DeviceHistory,
    stacks: StackTable,
    event: int,
    among: NDArray[np.bool_] | None = None,
) -> tuple[CallSite, ...]:
    """Return every call site with memory in the allocated curve after an event, largest first.

    Args:
        history: the device.
        stacks: the tables of the file.
        event: -1 for the start.
        among: shape (n_allocations,), which allocations count; None for all.
    """
    rows = history.allocations
    live = rows.live_at(event)
    if among is not None:
        live = live & among
    known, number = _number_sites(history, stacks)
    numbers, group, counts = np.unique(number[live], return_inverse=True, return_counts=True)
    keys = known[numbers]
    block_bytes, requested = (
        sum_groups(group, of[live], len(keys)) for of in (rows.block_size, rows.size)
    )
    order = np.lexsort((keys, -block_bytes))
    return tuple(
        _site(stacks, int(keys[i]), int(block_bytes[i]), int(requested[i]), int(counts[i]))
        for i in order
    )


def _site(stacks: StackTable, key: int, block_bytes: int, requested: int, count: int) -> CallSite:
    frames = site_frames(stacks)
    if key >= len(frames):
        return CallSite(
            None, MISSING_REASONS[key - len(frames)], "", None, block_bytes, requested, count
        )
    return CallSite(
        frame=key,
        name=frames.names[key],
        filename=frames.filenames[key],
        line=frames.line(key),
        bytes=block_bytes,
        requested=requested,
        count=count,
        source=frames.code(key),
    )


@once_for_both
def label_sites(
    history: DeviceHistory, stacks: StackTable
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number every allocation of a device by its call site.

    Returns:
        int64, shape (n_allocations,), and the sites' names: ``function  file:line``, or the reason
        why there are no frames. Two frames of one name (C++ overloads) are two sites.
    """
    keys, number = _number_sites(history, stacks)
    return number, tuple([site_text(stacks, each) for each in keys.tolist()])


def name_sites(history: DeviceHistory, stacks: StackTable, rows: NDArray[np.int64]) -> list[str]:
    """Return ``function  file:line`` of the call site of some allocations, or the reason for none.

    Args:
        history: the device.
        stacks: the tables of the file.
        rows: int64, shape (n,), rows of its allocations.
    """
    number, names = label_sites(history, stacks)
    return [names[each] for each in number[rows].tolist()]


def short_site(text: str) -> str:
    """Return a call site's name for a sentence: ``function (file:line)``, without the folder."""
    name, _, place = text.partition("  ")
    file = re.split(r"[/\\]", place)[-1]
    return f"{name} ({file})" if file else name


def site_text(stacks: StackTable, key: int) -> str:
    """Return a call site's name; numbers after the frame ids are reasons for missing stacks."""
    frames = site_frames(stacks)
    if key >= len(frames):
        return MISSING_REASONS[key - len(frames)]
    name, filename, line = frames.names[key], frames.filenames[key], frames.line(key)
    known = "" if line is None else f":{line}"
    return name if filename in ("", "??", "none") else f"{name}  {filename}{known}"


def name_stacks(stacks: StackTable, chosen: Sequence[int]) -> list[str]:
    """Return ``function  file:line`` of the call site of some stacks.

    Args:
        stacks: the tables of the file.
        chosen: stack ids; NO_STACK for none.
    """
    sites = find_site_frames(stacks)
    frames = [int(sites[stack]) if stack >= 0 else -1 for stack in chosen]
    none = MISSING_REASONS[NOT_RECORDED]
    return [site_text(stacks, frame) if frame >= 0 else none for frame in frames]


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


def find_call_tree(
    history: DeviceHistory,
    stacks: StackTable,
    *asked: Question,
    upward: bool = False,
    folded: bool = False,
) -> CallTree:
    """Merge what is asked for by call stack.

    The root's bytes are those of all of it, such as the curve at a moment, to the byte: allocations
    without frames are children of the root, one for each reason.

    Args:
        history: the device.
        stacks: the tables of the file.
        asked: one question; or two, that of what came and that of what went, which counts less.
        upward: from the frame that allocated to the outermost one, not the other way round.
        folded: without library-internal frames.
    """
    rows = history.allocations
    chosen, weight = find_signed(rows, *asked)
    reason = missing_reason(history, stacks)[chosen]
    node = np.zeros(len(weight), np.int64)
    framed = reason == HAS_FRAMES
    stack = rows.stack[chosen][framed]
    ends = distinct(stack)[0].astype(np.int64) if upward else stack
    paths = find_call_paths(stacks, ends, upward=upward, folded=folded)
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
    order = np.lexsort((-np.abs(total_bytes), parent, depth))  # by level, siblings largest first
    place = np.empty(len(used), np.int64)
    place[order] = np.arange(len(used))
    labels = {int(place[k]): MISSING_REASONS[used[k]] for k in range(1, first_framed)}
    return CallTree(
        parent=np.where(parent[order] < 0, -1, place[parent[order]]).astype(np.int32),
        frame=frame[order],
        label={0: f"{asked[0].curve} {'change' if asked[1:] else asked[0]}", **labels},
        bytes=total_bytes[order],
        own_bytes=own_bytes[order],
        count=add_up_paths(parent, own_count)[order],
        own_count=own_count[order],
    )
