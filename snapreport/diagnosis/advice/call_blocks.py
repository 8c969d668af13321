"""The blocks of a model: calls that come one after the other and keep memory.

In each forward pass the layers of a model are called from one function, from one line of it or
from several. The allocations of each call are one instance; those of the next begin with the stack
that the first began with.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import short_site, site_text
from snapreport.frames.frame_kinds import classify_frames
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.history import DeviceHistory
from snapreport.model.stacks import StackTable
from snapreport.native.sorting import is_among, stable_order

_CALLS = ("_wrapped_call_impl", "_call_impl")
_MODULE = "torch/nn/modules/module.py"
_SEQUENTIAL = "torch/nn/modules/container.py"
_STACKS = 4000
"""So many distinct stacks are looked into, those with the most bytes."""
_GROUPS = 8
"""So many functions that call others are tried."""
_MUCH = 0.25
"""Of the block that keeps the most."""
_INSIDE = 3
"""So many turns of a loop are taken to be inside of each call."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Calls of modules from one function, in the order of time."""

    caller: int
    """The frame that calls them: the line that does so most often."""
    own: int
    """The frame of the program itself that comes to it: ``caller``, or what calls a library's."""
    rows: NDArray[np.intp]
    """Allocations made in the calls, by time; shape (n,)."""
    instance: NDArray[np.int64]
    """The call that each was made in, counted from 0 over the whole recording; shape (n,)."""
    turn: NDArray[np.int64]
    """The forward pass of each call; shape (n_instances,)."""
    meant: NDArray[np.bool_]
    """Whether ``caller`` is the line of each call; shape (n_instances,)."""

    def __len__(self) -> int:
        return len(self.turn)

    def last_event(self, history: DeviceHistory) -> NDArray[np.int64]:
        """Return the event of each call's last allocation; int64, shape (n_instances,)."""
        last = np.full(len(self), -1, np.int64)
        np.maximum.at(last, self.instance, history.allocations.alloc_event[self.rows])
        return last

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
    apart: NDArray[np.bool_],
) -> list[Blocks]:
    """Return the functions that call others two times or more in a pass, most bytes first.

    Args:
        stacks: of the file.
        made: bool, shape (n_allocations,): what a forward pass made.
        weight: int64, shape (n_allocations,): bytes by which the functions are ordered.
        starts: int64, shape (n_passes,), ascending: the event with which each forward pass begins.
        apart: bool, shape (n_stacks,): of a backward pass or an optimizer's step. What calls these,
            too, is a training step and no block.
    """
    rows = np.flatnonzero(made & (history.allocations.stack >= 0))
    if not len(rows) or not len(starts):
        return []
    rows = rows[stable_order(history.allocations.alloc_event[rows])]
    stack = history.allocations.stack[rows]
    bytes_of = np.bincount(stack, weights=weight[rows], minlength=len(stacks))
    used = np.unique(stack)
    chosen = used[np.argsort(-bytes_of[used], kind="stable")][:_STACKS]
    calls: dict[int, dict[int, _Call]] = defaultdict(dict)
    held: dict[int, float] = defaultdict(float)
    paths: dict[tuple[int, str, str], int] = {}
    line = np.zeros(len(stacks), np.int64)
    for one in chosen.tolist():
        found_calls, line[one] = _calls_of(stacks, one, paths)
        for call in found_calls:
            calls[call.group][one] = call
            held[call.group] += bytes_of[one]
    for one in np.flatnonzero(apart)[:_STACKS].tolist():
        for call in _calls_of(stacks, one, paths)[0]:
            calls.pop(call.group, None)
    # A function is numbered after those that call it: of two that hold the same, the inner one.
    best = sorted(calls, key=lambda group: (-held[group], -group))
    turn = np.searchsorted(starts, history.allocations.alloc_event[rows], side="right")
    found: list[Blocks] = []
    for group in best[: 4 * _GROUPS]:
        several = list(calls[group])
        by_line = {call.line: call for call in calls[group].values()}
        from_line = np.array([call.line for call in calls[group].values()])
        inner = np.array([call.inside for call in calls[group].values()])
        call_of = np.full(len(stacks), -1, np.int64)
        call_of[several] = from_line
        place = np.flatnonzero(call_of[stack] >= 0)
        if not len(place):
            continue
        alone = np.append(True, np.diff(place) > 1)
        at = stack[place]
        lines = call_of[at]
        in_model = in_module(stacks, int(at[0]), by_line[int(lines[0])].caller)
        told = np.zeros(len(stacks), np.bool_)
        told[several] = is_among(from_line, _with_lines(from_line, inner))
        telling = line.copy()
        telling[several] = np.where(told[several], inner[:, 1], line[several])
        instance, first = _instances(telling[at], lines, turn[place], alone, told[at], in_model)
        # The line that calls most; where each calls equally often, all of them are meant.
        used, count = np.unique(lines[first], return_counts=True)
        most = by_line[int(used[count.argmax()])]
        meant = lines[first] == most.line if len(set(count.tolist())) > 1 else first >= 0
        turns = turn[place][first]
        blocks = Blocks(most.caller, most.own, rows[place], instance, turns, meant)
        if blocks.in_a_turn > 1:
            found.append(blocks)
        if len(found) == _GROUPS:
            break
    return found


def keep_much(kept: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which calls keep much, of the bytes that each keeps: an embedding beside layers does not.

    Args:
        kept: shape (n_instances,).
    """
    much: NDArray[np.bool_] = (kept > 0) & (kept >= _MUCH * kept.max(initial=0))
    return much


def name_caller(stacks: StackTable, blocks: Blocks) -> str:
    """Say where blocks are called from: ``forward (model.py:20)``.

    Of a library's line it says what called that, such as an ``nn.Sequential``.
    """
    caller = short_site(site_text(stacks, blocks.caller))
    if blocks.own in (-1, blocks.caller):
        return caller
    file = stacks.frames.filenames[blocks.caller].replace("\\", "/")
    library = "nn.Sequential" if file.endswith(_SEQUENTIAL) else caller
    return f"{library} at {short_site(site_text(stacks, blocks.own))}"


def in_module(stacks: StackTable, stack: int, caller: int) -> bool:
    """Say whether a frame of a stack is of a module's ``forward``, or of what that calls."""
    names, files = stacks.frames.names, stacks.frames.filenames
    if names[caller] == "forward":
        return True  # with C++ frames between Python's, a module's call may be in none of them
    node = int(stacks.stack_node[stack])
    found = False
    while node >= 0:
        frame = int(stacks.node_frame[node])
        if found and _calls_a_module(names[frame], files[frame]):
            return True
        found |= frame == caller
        node = int(stacks.node_parent[node])
    return False


def _calls_a_module(name: str, file: str) -> bool:
    return name in _CALLS and file.replace("\\", "/").endswith(_MODULE)


@dataclass(frozen=True)
class _Call:
    """One call of a module or function in a stack."""

    group: int
    """The function that calls, told by those that called it."""
    line: int
    """Its line; of a library's, with the line of the program that came to it."""
    caller: int
    """The line's frame."""
    own: int
    """The innermost frame of the program up to there, -1 where there is none."""
    inside: tuple[int, int]
    """The function that is called, and its line; -1 where nothing of it is known."""


def _calls_of(
    stacks: StackTable, stack: int, paths: dict[tuple[int, str, str], int]
) -> tuple[list[_Call], int]:
    """Return a stack's calls of modules and functions, and the number of its innermost line.

    From which of their lines a function was called is all one. ``paths`` numbers functions and
    lines.
    """
    names, files = stacks.frames.names, stacks.frames.filenames
    kinds = classify_frames(stacks.frames)
    nodes = []  # of Python frames, outermost last
    node = int(stacks.stack_node[stack])
    while node >= 0:
        if kinds[stacks.node_frame[node]] in (OUTSIDE, LIBRARY):
            nodes.append(node)
        node = int(stacks.node_parent[node])
    found: list[_Call] = []
    path, caller, line, own = -1, -1, -1, -1
    waits = False  # a call whose inside comes next

    def call() -> _Call:
        of_line = line
        if own not in (-1, caller):
            of_line = paths.setdefault((line, "", f"from {own}"), len(paths))
        return _Call(path, of_line, caller, own, (-1, -1))

    for node in reversed(nodes):
        frame = int(stacks.node_frame[node])
        name, file = names[frame], files[frame]
        if _calls_a_module(name, file):
            if caller >= 0:
                found.append(call())
                waits = True
            caller = -1
            continue
        if caller >= 0 and kinds[frame] == OUTSIDE:
            found.append(call())
            waits = True
        line = paths.setdefault((path, "", str(frame)), len(paths))
        path, caller = paths.setdefault((path, name, file), len(paths)), frame
        if waits:
            found[-1] = replace(found[-1], inside=(path, line))
            waits = False
        if kinds[frame] == OUTSIDE:
            own = frame
    return found, line


def _with_lines(call: NDArray[np.int64], inside: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of the calls that go through several lines of one function.

    These come once in each call, however often a loop on one of them calls others. Elsewhere the
    innermost lines have to tell where a call begins.
    """
    pairs = np.unique(np.column_stack([call, inside]), axis=0)
    functions = np.unique(pairs[:, :2], axis=0)
    used, lines = np.unique(pairs[:, 0], return_counts=True)
    one = np.unique(functions[:, 0], return_counts=True)[1] == 1
    found: NDArray[np.int64] = used[one & (lines > 1)]
    return found


def _instances(
    line: NDArray[np.int64],
    call: NDArray[np.int64],
    turn: NDArray[np.int64],
    alone: NDArray[np.bool_],
    told: NDArray[np.bool_],
    in_model: bool,
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number the calls in rows that are ordered by time, and say where each begins.

    A call begins where another was before, and where its first line comes again, once for each
    time that all its lines come again: a loop inside a call is none. Where something else is made
    between calls, and each of them has the same few turns of a loop, the loop is inside.

    Args:
        line, call, turn: of each row; the line that tells calls apart.
        alone: where something was made between a row and the one before that is in no call.
        told: whether that is a line of what is called itself.
        in_model: whether a module calls. Of what the program itself calls, a line that comes once
            in a pass says that the rest are turns of a loop inside: it calls the whole model.
    """
    begins = np.ones(len(line), np.bool_)
    begins[1:] = (call[1:] != call[:-1]) | (turn[1:] != turn[:-1])
    comes = begins | alone  # a line comes where another was before
    comes[1:] |= line[1:] != line[:-1]
    calls, first, number = np.unique(call, return_index=True, return_inverse=True)
    runs = np.cumsum(begins | alone) - 1
    step = np.ones(len(calls), np.int64)
    for k, row in enumerate(first.tolist()):
        here = comes & (number == k) & (turn == turn[row])
        turns = np.bincount(runs[here & (line == line[row])])
        turns = turns[turns > 0]
        if not told[row] and len(turns) > 1 and turns.max() == turns.min() <= _INSIDE:
            step[k] = turns[0]
            continue
        whole = gcd(*np.unique(line[here], return_counts=True)[1].tolist())
        if whole > 1 or not in_model:
            step[k] = int(turns.sum()) // whole
    opens = np.flatnonzero(comes & (line == line[first][number]))
    key = turn[opens] * len(calls) + number[opens]
    order = stable_order(key)
    in_order = key[order]
    place = np.empty(len(opens), np.int64)
    place[order] = np.arange(len(opens)) - np.searchsorted(in_order, in_order)
    begins[opens[place % step[number[opens]] == 0]] = True
    return np.cumsum(begins) - 1, np.flatnonzero(begins)
