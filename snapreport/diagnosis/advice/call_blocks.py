"""The blocks of a model: calls of modules that come one after the other and keep memory.

In each forward pass the layers of a model are called from one function, from one line of it or
from several. The allocations of each call are one instance; those of the next begin with the stack
that the first began with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from snapreport.frames.frame_kinds import classify_frames
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.history import DeviceHistory
from snapreport.model.stacks import StackTable
from snapreport.native.sorting import stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CALLS = ("_wrapped_call_impl", "_call_impl")
_MODULE = "torch/nn/modules/module.py"
_STACKS = 4000
"""So many distinct stacks are looked into, those with the most bytes."""
_GROUPS = 8


@dataclass(frozen=True, eq=False)
class Blocks:
    """Calls of modules from one function, in the order of time."""

    caller: int
    """The frame that calls them, the one with the most bytes below it."""
    rows: NDArray[np.intp]
    """Allocations made in the calls, by time; shape (n,)."""
    instance: NDArray[np.int64]
    """The call that each was made in, counted from 0 over the whole recording; shape (n,)."""
    turn: NDArray[np.int64]
    """The forward pass of each call; shape (n_instances,)."""

    def __len__(self) -> int:
        return len(self.turn)

    @property
    def in_a_turn(self) -> int:
        """How many calls a forward pass has, at the most."""
        return int(np.bincount(self.turn).max(initial=0))


def find_blocks(
    stacks: StackTable,
    history: DeviceHistory,
    made: NDArray[np.bool_],
    weight: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> list[Blocks]:
    """Return the functions that call modules two times or more in a pass, most bytes first.

    Args:
        stacks: of the file.
        history: the device.
        made: bool, shape (n_allocations,): what a forward pass made.
        weight: int64, shape (n_allocations,): bytes by which the functions are ordered.
        starts: int64, shape (n_passes,), ascending: the event with which each forward pass begins.
    """
    rows = np.flatnonzero(made & (history.allocations.stack >= 0))
    if not len(rows) or not len(starts):
        return []
    rows = rows[stable_order(history.allocations.alloc_event[rows])]
    stack = history.allocations.stack[rows]
    bytes_of = np.bincount(stack, weights=weight[rows], minlength=len(stacks))
    chosen = np.argsort(-bytes_of, kind="stable")[:_STACKS]
    calls: dict[tuple[int, str, str], dict[int, int]] = defaultdict(dict)
    held: dict[tuple[int, str, str], float] = defaultdict(float)
    callers: dict[tuple[int, str, str], tuple[float, int]] = {}
    for one in chosen[bytes_of[chosen] > 0].tolist():
        for group, call, frame in _calls_of(stacks, one):
            calls[group][one] = call
            held[group] += bytes_of[one]
            callers[group] = max(callers.get(group, (0.0, -1)), (bytes_of[one], frame))
    best = sorted(calls, key=lambda group: -held[group])
    turn = np.searchsorted(starts, history.allocations.alloc_event[rows], side="right")
    found: list[Blocks] = []
    for group in best[: 4 * _GROUPS]:
        call_of = np.full(len(stacks), -1, np.int64)
        call_of[list(calls[group])] = list(calls[group].values())
        inside = call_of[stack] >= 0
        instance, first = _instances(stack[inside], call_of[stack[inside]], turn[inside])
        blocks = Blocks(callers[group][1], rows[inside], instance, turn[inside][first])
        if blocks.in_a_turn > 1:
            found.append(blocks)
        if len(found) == _GROUPS:
            break
    return found


def _calls_of(stacks: StackTable, stack: int) -> Iterator[tuple[tuple[int, str, str], int, int]]:
    """Yield a stack's calls of modules: who calls, the node of the call, the caller's frame."""
    names, files = stacks.frames.names, stacks.frames.filenames
    kinds = classify_frames(stacks.frames)
    nodes = []  # of Python frames, innermost first
    node = int(stacks.stack_node[stack])
    while node >= 0:
        if kinds[stacks.node_frame[node]] in (OUTSIDE, LIBRARY):
            nodes.append(node)
        node = int(stacks.node_parent[node])
    frames = [int(stacks.node_frame[node]) for node in nodes]
    is_call = [
        names[frame] in _CALLS and files[frame].replace("\\", "/").endswith(_MODULE)
        for frame in frames
    ]
    for i in range(len(nodes) - 1):
        if is_call[i] and not is_call[i + 1]:
            caller = frames[i + 1]
            above = nodes[i + 2] if i + 2 < len(nodes) else -1
            yield (above, names[caller], files[caller]), nodes[i], caller


def _instances(
    stack: NDArray[np.int32], call: NDArray[np.int64], turn: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number the calls in rows that are ordered by time, and say where each begins.

    A call begins where another was before, and where its first stack comes again, once for each
    time that all its stacks come again: a loop inside a call is none.
    """
    begins = np.ones(len(stack), np.bool_)
    begins[1:] = (call[1:] != call[:-1]) | (turn[1:] != turn[:-1])
    calls, first, number = np.unique(call, return_index=True, return_inverse=True)
    step = np.ones(len(calls), np.int64)
    for k, row in enumerate(first.tolist()):
        here = (number == k) & (turn == turn[row])
        counts = np.unique(stack[here], return_counts=True)[1].tolist()
        whole = gcd(*counts)
        if whole > 1:
            step[k] = np.count_nonzero(stack[here] == stack[row]) // whole
    opens = np.flatnonzero(stack == stack[first][number])
    key = turn[opens] * len(calls) + number[opens]
    order = stable_order(key)
    in_order = key[order]
    place = np.empty(len(opens), np.int64)
    place[order] = np.arange(len(opens)) - np.searchsorted(in_order, in_order)
    begins[opens[place % step[number[opens]] == 0]] = True
    return np.cumsum(begins) - 1, np.flatnonzero(begins)
