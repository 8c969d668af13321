"""The blocks of a model, such as its layers: calls one after the other, each keeping memory.

In each forward pass one function calls the layers, from one or several of its lines. The
allocations of one call are an instance. An instance begins where the call stack of the first
instance's first allocation comes again. A function that runs several of its lines in turn, again
and again, is a layer itself: its lines are parts of one call.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import short_site, site_text
from snapreport.ground.native.columns import is_among, stable_order, unique
from snapreport.ground.records import dataclass
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.history import DeviceHistory
from snapreport.model.snapshot import StackTable
from snapreport.roles.frames import COMPILED, classify_frames

_CALLS = ("_wrapped_call_impl", "_call_impl")
_MODULE = "torch/nn/modules/module.py"
_SEQUENTIAL = "torch/nn/modules/container.py"
_COMPILER = re.compile(r"(^|/)torch/_(inductor|functorch|dynamo|compile)\b")
_STACKS = 4000
"""How many distinct stacks are searched, those with the most bytes first."""
_GROUPS = 8
"""How many calling functions are returned at most."""
_MUCH = 0.25
"""A block keeps much if it keeps at least this part of what the largest one keeps."""
_INSIDE = 3
"""A loop of at most this many turns is taken to run inside each call."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Calls of modules from one function, in the order of time."""

    caller: int
    """The frame that calls them; of several lines, the one that calls most often."""
    own: int
    """``caller`` if it is the program's own frame, else the program's frame that led to it."""
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
        """The most calls in one forward pass."""
        return int(np.bincount(self.turn).max(initial=0))

    @property
    def meant_in_a_turn(self) -> int:
        """The most calls in one forward pass that ``caller``'s line makes."""
        return int(np.bincount(self.turn[self.meant]).max(initial=0))


def find_blocks(
    stacks: StackTable,
    history: DeviceHistory,
    made: NDArray[np.bool_],
    weight: NDArray[np.int64],
    starts: NDArray[np.int64],
    apart: NDArray[np.bool_],
) -> list[Blocks]:
    """Return the functions that make at least two calls in a pass, most bytes first.

    Args:
        stacks: of the file.
        made: bool, shape (n_allocations,): whether a forward pass made it.
        weight: int64, shape (n_allocations,): bytes by which the functions are ordered.
        starts: int64, shape (n_passes,), ascending: the event with which each forward pass begins.
        apart: bool, shape (n_stacks,): stacks of a backward pass or an optimizer step. A function
            that calls these too runs a training step, not the layers.
    """
    rows = np.flatnonzero(made & (history.allocations.stack >= 0))
    if not len(rows) or not len(starts):
        return []
    rows = rows[stable_order(history.allocations.alloc_event[rows])]
    stack = history.allocations.stack[rows]
    bytes_of = np.bincount(stack, weights=weight[rows], minlength=len(stacks))
    used = unique(stack)
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
    found: list[tuple[Blocks, bool]] = []
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
        by_entry = np.zeros(len(stacks), np.bool_)
        by_entry[several] = is_among(from_line, _with_lines(from_line, inner))
        marker = line.copy()
        marker[several] = np.where(by_entry[several], inner[:, 1], line[several])
        whole = _in_turns(lines, turn[place], marker[at])
        parts = is_among(whole, unique(whole[whole != lines]))
        # Calls made in turn begin where the first of their lines comes again.
        mark, enters = np.where(parts, lines, marker[at]), by_entry[at] | parts
        instance, first = _instances(mark, line[at], whole, turn[place], alone, enters, in_model)
        # The line that calls most often; if all call equally often, all of them.
        used, count = np.unique(lines[first], return_counts=True)
        most = by_line[int(used[count.argmax()])]
        meant = lines[first] == most.line if len(set(count.tolist())) > 1 else first >= 0
        turns = turn[place][first]
        blocks = Blocks(most.caller, most.own, rows[place], instance, turns, meant)
        # Whatever runs the program, such as a launcher, makes the same calls as the program.
        if blocks.in_a_turn > 1 and not any(
            np.array_equal(blocks.rows, each.rows)
            and np.array_equal(blocks.instance, each.instance)
            for each, of_parts in found
            if not of_parts
        ):
            found.append((blocks, bool(parts.any())))
        if len(found) == _GROUPS:
            break
    # The calls of a layer are named by the line that calls it, not by one of its own lines.
    called = {blocks.meant_in_a_turn for blocks, parts in found if not parts}
    return [blocks for blocks, parts in found if not parts or blocks.in_a_turn not in called]


@dataclass(frozen=True)
class _Call:
    """One call of a module or function in a stack."""

    group: int
    """The calling function, together with the functions that called it."""
    line: int
    """Its line; in a library, together with the program's line that led to it."""
    caller: int
    """The line's frame."""
    own: int
    """The innermost frame of the program up to there, -1 if there is none."""
    inside: tuple[int, int]
    """The called function and its line; -1 where unknown."""


def _calls_of(
    stacks: StackTable, stack: int, paths: dict[tuple[int, str, str], int]
) -> tuple[list[_Call], int]:
    """Return a stack's calls of modules and functions, and the number of its innermost line.

    A function gets one number whichever line called it. ``paths`` numbers functions and lines.
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


def _calls_a_module(name: str, file: str) -> bool:
    return name in _CALLS and file.replace("\\", "/").endswith(_MODULE)


def _with_lines(call: NDArray[np.int64], inside: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the calls that go through several lines of one function.

    Each of these lines runs once in each call, even if a loop on it calls others many times. For
    other calls only the innermost lines can show where a call begins.
    """
    # Without an option, NumPy would import masked arrays.
    pairs = np.unique(np.column_stack([call, inside]), axis=0, return_index=True)[0]
    functions = np.unique(pairs[:, :2], axis=0, return_index=True)[0]
    used, lines = np.unique(pairs[:, 0], return_counts=True)
    one = np.unique(functions[:, 0], return_counts=True)[1] == 1
    found: NDArray[np.int64] = used[one & (lines > 1)]
    return found


def _in_turns(
    call: NDArray[np.int64], turn: NDArray[np.int64], line: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return each row's call, with one for all calls that a function makes in turn: A B A B.

    A line that makes many calls one after the other, A A A A B, is a loop over layers.

    Args:
        call, turn, line: of each row, by time; ``line`` is the one that tells calls apart.
    """
    new = np.append(True, (call[1:] != call[:-1]) | (turn[1:] != turn[:-1]))
    begin = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    pairs, count = np.unique(np.stack([turn[begin], call[begin]]), axis=1, return_counts=True)
    again = unique(pairs[1][count > 1])
    if len(again) < 2:
        return call
    changes = np.append(True, (line[1:] != line[:-1]) | new[1:])
    starts = changes & (line == line[begin][run])  # the run's first line, each time it comes
    times = np.bincount(run, weights=starts)[is_among(call[begin], again)]
    if times.max() > _INSIDE:
        return call
    first = call[begin][is_among(call[begin], again)][0]
    merged: NDArray[np.int64] = np.where(is_among(call, again), first, call)
    return merged


def _instances(
    line: NDArray[np.int64],
    inner: NDArray[np.int64],
    call: NDArray[np.int64],
    turn: NDArray[np.int64],
    alone: NDArray[np.bool_],
    by_entry: NDArray[np.bool_],
    in_model: bool,
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number the calls in rows that are ordered by time, and say where each begins.

    A call begins where the row before belongs to another call. It also begins where its first line
    comes again, provided that all its lines come again: turns of a loop inside a call are not
    calls. If other memory is made between calls, and each has the same few turns of a loop, the
    loop is inside.

    Args:
        line, inner, call, turn: of each row; ``line`` is the one that tells calls apart, ``inner``
            the innermost.
        alone: whether memory outside of any call was made between the row before and this one.
        by_entry: whether ``line`` is a line of the called function itself.
        in_model: whether a module makes the calls. If the program itself does, a line that comes
            once in a pass shows that the others are turns of a loop inside one call of the model.
    """
    begins = np.ones(len(line), np.bool_)
    begins[1:] = (call[1:] != call[:-1]) | (turn[1:] != turn[:-1])
    comes = begins | alone  # rows at which a line comes again after another
    comes[1:] |= line[1:] != line[:-1]
    inner_comes = np.append(True, inner[1:] != inner[:-1])
    calls, first, number = np.unique(call, return_index=True, return_inverse=True)
    runs = np.cumsum(begins | alone) - 1
    step = np.ones(len(calls), np.int64)
    rows_of = np.split(stable_order(number), np.cumsum(np.bincount(number))[:-1])
    for k, row in enumerate(first.tolist()):
        own = rows_of[k][turn[rows_of[k]] == turn[row]]
        here = own[comes[own]]
        turns = np.unique(runs[here[line[here] == line[row]]], return_counts=True)[1]
        if not by_entry[row] and len(turns) > 1 and turns.max() == turns.min() <= _INSIDE:
            step[k] = turns[0]
            continue
        if by_entry[row]:
            within = own[inner_comes[own] | comes[own]]
            step[k] = _times_in_a_call(inner[within], int(turns.sum()))
            if step[k] > 1:
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


def _times_in_a_call(inner: NDArray[np.int64], times: int) -> int:
    """Return how often a line of the called function runs in each call, from all lines inside it.

    Of ``x + self.b(x + self.a(x))`` over two lines, one runs twice, but what ``a`` and ``b`` run
    comes once in each call.

    Args:
        inner: the innermost line of each row.
        times: how often the line runs in a pass.
    """
    counts = np.unique(inner, return_counts=True)[1]
    calls = int(np.bincount(counts).argmax())  # what most lines have
    fits = calls and times % calls == 0 and times // calls <= _INSIDE
    return times // calls if fits else 1


def keep_much(kept: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which calls keep much: layers do, an embedding beside them does not.

    Args:
        kept: the bytes that each call keeps, shape (n_instances,).
    """
    much: NDArray[np.bool_] = (kept > 0) & (kept >= _MUCH * kept.max(initial=0))
    return much


def name_caller(stacks: StackTable, blocks: Blocks) -> str:
    """Say where blocks are called from: ``forward (model.py:20)``.

    If a library's line calls them, this also names the program's line that called the library, and
    only that one if the library runs compiled code.
    """
    caller = short_site(site_text(stacks, blocks.caller))
    if blocks.own in (-1, blocks.caller):
        return caller
    own = short_site(site_text(stacks, blocks.own)).removeprefix(f"{COMPILED} called from ")
    file = stacks.frames.filenames[blocks.caller].replace("\\", "/")
    if _COMPILER.search(file):
        return own
    return f"{'nn.Sequential' if file.endswith(_SEQUENTIAL) else caller} at {own}"


def program_call(stacks: StackTable, stack: int) -> int:
    """Return the program's frame that calls the model, -1 where there is none."""
    names, files = stacks.frames.names, stacks.frames.filenames
    kinds = classify_frames(stacks.frames)
    caller = -1
    for frame in stacks.path(stack):  # the outermost call comes last
        if _calls_a_module(names[frame], files[frame]):
            caller = -1
        elif caller < 0 and kinds[frame] == OUTSIDE:
            caller = frame
    return caller


def are_layers(stacks: StackTable, history: DeviceHistory, blocks: Blocks) -> bool:
    """Say whether a module makes the calls; those of the program may be of the whole model."""
    one = blocks.rows[blocks.meant[blocks.instance].argmax()]  # made from the caller's line
    return in_module(stacks, int(history.allocations.stack[one]), blocks.caller)


def in_module(stacks: StackTable, stack: int, caller: int) -> bool:
    """Say whether a frame of a stack is a module's ``forward``, or called from one."""
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
