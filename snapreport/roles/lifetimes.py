"""Infer the role of every allocation from when it was made and freed, and what ran then.

The rules follow how autograd and optimizers keep tensors: memory that forward makes and backward
frees was saved for backward; memory that backward makes and something later frees is a gradient;
memory that an optimizer step makes and keeps is its state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_both
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.roles import (
    ACTIVATION,
    BACKWARD_TEMPORARY,
    BUFFER,
    CACHE,
    COMMUNICATION,
    FORWARD_TEMPORARY,
    GRADIENT,
    GRAPH_POOL,
    INPUT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    STATE,
    UNKNOWN,
    WEIGHT_COPY,
    WORKSPACE,
    Roles,
)
from snapreport.native.sorting import distinct, is_among, unique
from snapreport.roles import stack_phases
from snapreport.roles.baseline import match_baseline
from snapreport.roles.judge import Judge
from snapreport.roles.passes import (
    BACKWARD,
    BUILD,
    FORWARD,
    LOAD,
    OPTIMIZER,
    USER,
    Passes,
    find_passes,
)
from snapreport.roles.stack_phases import stack_marks
from snapreport.roles.weight_copies import find_weight_copies

_STATED = {
    "parameter": PARAMETER,
    "buffer": BUFFER,
    "gradient": GRADIENT,
    "optimizer state": STATE,
    "activation": ACTIVATION,
    "input": INPUT,
}
"""The role for each category that a file may state."""


NEVER_USED = "kept until the whole forward pass was freed"
"""The evidence for activations of a graph that no backward pass used."""
MISSED = "kept by the program, and no backward pass used it"
"""The evidence for activations of a graph that outlived the backward passes of others."""
CAST = "cast inside an operation, to half of a weight's size"
"""The evidence for weights' copies that are told from all else."""
_MUCH_KEPT = "much of what forward passes made is kept"
_WHOLE_GRAPH = "kept with all that its forward pass saved"
_TOGETHER = 8
"""At least this many call stacks' memory must be freed in a row, without an allocation between."""


_OF_ITS_PASS = 0.1
"""A forward pass with gradients keeps at least this part of the bytes that it makes."""
_MUCH = 0.4
"""A cache is a smaller part than this of what forward passes make; their graph is a larger one."""
_SOME = 5
"""A cache is filled by fewer call stacks than this."""
_OTHERS = 3
"""In inference, memory that lives while its line makes this many more allocations is a cache."""


@once_for_both
def find_roles(history: DeviceHistory, tables: History) -> Roles:
    """Return the role of each allocation of a device."""
    rows = history.allocations
    judge = Judge(len(rows))
    marks = stack_marks(tables.stacks)[rows.stack]
    passes = find_passes(history, tables)
    _by_statement(judge, tables, rows.category)
    graph = np.array([pool != (0, 0) for pool in tables.pools] + [False], np.bool_)
    judge.give(graph[rows.pool], GRAPH_POOL, "in a private pool", 0.9)
    collective = marks & (stack_phases.COMMUNICATES | stack_phases.FILLS_BUCKETS)
    judge.give(collective == stack_phases.COMMUNICATES, COMMUNICATION, "made by a collective", 0.8)
    judge.give(marks & stack_phases.WORKS != 0, WORKSPACE, "a library's workspace", 0.8)
    copies, sure = find_weight_copies(history, tables, passes, marks)
    judge.give(sure, WEIGHT_COPY, CAST, 0.9)
    judge.give(copies, WEIGHT_COPY, "half of a weight's size, made where one is used", 0.6)
    _by_lifetime(judge, history, passes, marks)
    match_baseline(judge, history, passes, marks, stack_marks(tables.stacks)[rows.free_stack])
    return Roles(judge.role, judge.evidence, tuple(judge.seen))


def _by_statement(judge: Judge, tables: History, category: NDArray[np.int32]) -> None:
    stated = np.array([_STATED.get(text, UNKNOWN) for text in tables.strings] + [UNKNOWN])
    for role in set(stated.tolist()) - {UNKNOWN}:
        judge.give(stated[category] == role, role, "stated by the file", 1.0)


def _by_lifetime(
    judge: Judge, history: DeviceHistory, passes: Passes, marks: NDArray[np.int32]
) -> None:
    rows, made = history.allocations, passes.made
    born, gone = rows.alloc_event, rows.free_requested_event
    kept = gone >= history.events
    alive = born > START
    trains = bool((passes.phase == BACKWARD).any())
    back_start, back_end = passes.of(BACKWARD)
    # Where the next backward pass starts and ends, and whether the free is in one.
    following = np.searchsorted(back_start, born)
    none = np.int64(history.events + 1)
    next_start = np.append(back_start, none)[following]
    next_end = np.append(back_end, none)[following]
    freeing = np.searchsorted(back_start, gone, side="right") - 1
    freed_backward = passes.covers(BACKWARD, gone) & ~kept
    own = np.maximum(np.searchsorted(passes.start, born, side="right") - 1, 0)
    own_end = np.append(passes.end, START)[own] if len(passes.end) else np.full(len(rows), START)
    later = np.append(passes.start[1:], none)[own] if len(passes.start) else none

    step = alive & (made == OPTIMIZER)
    judge.give(step & (kept | (gone >= later)), STATE, "made in an optimizer step and kept", 0.95)
    judge.give(step, OPTIMIZER_TEMPORARY, "freed in the optimizer step that made it", 0.95)

    back = alive & (made == BACKWARD)
    again = back & (marks & stack_phases.RECOMPUTES != 0) & ~kept
    nodes = np.append(np.sort(born[back & ~again]), none)  # what the backward pass itself makes
    used = gone > nodes[np.searchsorted(nodes, born)]
    judge.give(again & used, ACTIVATION, "computed again for backward by checkpointing", 0.8)
    judge.give(again, BACKWARD_TEMPORARY, "freed while activations were computed again", 0.8)
    judge.give(
        back & ((gone > own_end) | kept), GRADIENT, "made in backward and kept beyond it", 0.9
    )
    judge.give(back, BACKWARD_TEMPORARY, "freed in the backward pass that made it", 0.95)
    _by_buckets(
        judge,
        rows.size,
        alive & (marks & stack_phases.FILLS_BUCKETS != 0) & (kept | (gone >= later)),
    )

    sizes = np.unique(rows.size[judge.role == GRADIENT])
    zeroed = alive & kept & np.isin(made, (BUILD, USER)) & (marks & stack_phases.ZEROES != 0)
    judge.give(
        zeroed & np.isin(rows.size, sizes), STATE, "zeros in the size of a gradient, kept", 0.8
    )
    build = alive & (made == BUILD)
    unlearned = stack_phases.ZEROES | stack_phases.NO_GRAD
    judge.give(
        build & (marks & unlearned == unlearned),
        CACHE, "zeros made where no gradient is wanted", 0.6,
    )  # fmt: skip
    first = passes.start[passes.phase != BUILD][:1]
    stays = kept | (gone >= (first[0] if len(first) else none))
    built = (made == BUILD) & stays
    judge.give(
        built & (marks & stack_phases.CACHES != 0), CACHE, "made by a cache, by its name", 0.8
    )
    text = "made while the model was built, and kept"
    judge.give(
        built & np.isin(rows.size, sizes), PARAMETER, text + "; a gradient has its size", 0.95
    )
    of_modules = built & (marks & stack_phases.OF_MODULES != 0)
    judge.give(of_modules, PARAMETER, text, 0.7 if len(sizes) else 0.9)
    judge.give(built, PARAMETER, "made by a class as it was built, and kept", 0.5)

    ahead = alive & ((made == FORWARD) | (made == LOAD) | (made == USER))
    judge.give(ahead & freed_backward, ACTIVATION, "made before backward and freed in it", 0.95)
    load = ahead & (made == LOAD)
    judge.give(load, INPUT, "made by a data loader", 0.9)
    cached = ahead & (marks & stack_phases.CACHES != 0) & (kept | (gone > next_end) | ~trains)
    judge.give(cached, CACHE, "made by a cache, by its name", 0.8)
    forward = ahead & (made == FORWARD)
    reached = _reached(freeing, freed_backward & forward, born, len(back_start))
    if not trains:
        graph = forward & ~kept & (marks & stack_phases.NO_GRAD == 0)
        judge.give(graph & _freed_together(history, graph), ACTIVATION, NEVER_USED, 0.6)
        lasts = _outlives(history, forward)
        # A cache is filled by a few lines: many that keep what they make are a graph, cut short.
        cut = lasts & kept & (marks & stack_phases.NO_GRAD == 0)
        everything = np.zeros(len(rows), np.int64)
        some = cut & _of_many_stacks(rows.stack, everything, cut, _SOME)
        if some.any() and _is_much_of_what_was_made(history, some, forward):
            judge.give(some, ACTIVATION, _MUCH_KEPT, 0.6)
        cut = _of_many_stacks(rows.stack, everything, cut)
        judge.give(cut, ACTIVATION, _WHOLE_GRAPH, 0.6)
        judge.give(lasts, CACHE, "kept while its line made several more", 0.6)
    else:
        # If the same line's memory is, or may yet be, used by backward, a step just skipped it.
        graph = forward & ~kept & (gone < next_start) & (marks & stack_phases.NO_GRAD == 0)
        graph &= ~is_among(rows.stack, unique(rows.stack[ahead & (freed_backward | kept)]))
        graph &= _freed_together(history, graph)
        judge.give(graph & _is_much_of_its_pass(history, graph), ACTIVATION, NEVER_USED, 0.6)
        # Nothing is told by a backward pass that freed nothing: as if it had reached everything.
        freed_to = np.where(reached == np.iinfo(np.int64).max, START, reached)
        missed = forward & (marks & stack_phases.NO_GRAD == 0)
        missed &= ~is_among(rows.stack, unique(rows.stack[ahead & freed_backward]))
        missed &= np.where(
            following < len(back_start), (gone > next_end) & (born < freed_to[following]), kept
        )
        # A backward pass that failed midway used no more either, but no optimizer step follows it.
        steps = np.searchsorted(passes.of(OPTIMIZER)[0], np.append(back_start, history.events))
        done = np.append(np.diff(steps) > 0, steps[-1] > steps[0])
        missed &= done[following] & _of_many_stacks(rows.stack, following, missed)
        judge.give(missed & _is_much_of_its_pass(history, missed), ACTIVATION, MISSED, 0.6)
    judge.give(
        forward & (gone < next_start) & ~kept,
        FORWARD_TEMPORARY,
        "freed in the forward pass that made it",
        0.9,
    )
    user = ahead & (made == USER)
    opening = _opens(passes, born)
    judge.give(
        user & opening & trains & (gone > next_end), INPUT, "made before the forward pass", 0.7
    )
    judge.give(
        ahead & trains & ~kept & (gone > next_end),
        FORWARD_TEMPORARY,
        "kept by the program beyond backward",
        0.6,
    )
    judge.give(
        user & ~opening & ~kept, FORWARD_TEMPORARY, "freed between forward and backward", 0.5
    )
    over = user & trains & ~kept & (following == len(back_start))
    judge.give(over, FORWARD_TEMPORARY, "freed after the last backward pass", 0.5)
    passed = ahead & kept & (following < len(back_start))
    stepped = np.searchsorted(back_start, passes.of(OPTIMIZER)[0][-1:].max(initial=START))
    passed &= (born >= reached[following]) | (following < max(int(stepped), len(back_start) - 1))
    graph = passed & forward & _of_many_stacks(rows.stack, following, passed & forward)
    judge.give(graph, ACTIVATION, _WHOLE_GRAPH, 0.6)
    judge.give(passed, FORWARD_TEMPORARY, "kept by the program beyond backward", 0.6)
    # Allocations still live when the recording ends take the role of others like them.
    cut = ahead & kept & ~passed
    if (cut & judge.open).any():
        sizes, size = distinct(rows.size)
        alike = distinct(rows.stack.astype(np.int64) * len(sizes) + size)[1]
        judge.follow(cut, alike.astype(np.int64))
    recording_grad = (marks & stack_phases.NO_GRAD) == 0
    judge.give(
        cut & recording_grad & (made == FORWARD),
        ACTIVATION,
        "made in a forward pass and still kept",
        0.6,
    )


def _by_buckets(judge: Judge, size: NDArray[np.int64], buckets: NDArray[np.bool_]) -> None:
    """Decide whether DDP's buckets are the gradients, or whether gradients are copied into them.

    There are two sets of buckets, as they are made again once the order of gradients is known.

    Source: torch/nn/parallel/distributed.py, ``gradient_as_bucket_view``.
    """
    if 2 * int(size[judge.role == GRADIENT].sum()) >= int(size[buckets].sum()):
        judge.give(buckets, COMMUNICATION, "made by DDP to copy gradients into", 0.9)
    else:
        judge.give(buckets, GRADIENT, "made by DDP, and no gradients beside it", 0.9)


def _reached(
    freeing: NDArray[np.int64], chosen: NDArray[np.bool_], born: NDArray[np.int64], passes: int
) -> NDArray[np.int64]:
    """Return how far back each backward pass got: when the oldest memory it freed was made.

    Backward frees in the reverse order of forward, so it had not reached older memory. The value
    after the last is for a pass that never came, which reached nothing.
    """
    reached = np.full(passes + 1, np.iinfo(np.int64).max)
    np.minimum.at(reached, freeing[chosen], born[chosen])
    return reached


def _freed_together(history: DeviceHistory, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which of some allocations are freed in a row of frees from many call stacks.

    Autograd's graph is freed like this; memory without gradients is freed soon after it is made.
    """
    return _of_many_stacks(history.allocations.stack, _rows_of_frees(history), chosen)


def _rows_of_frees(history: DeviceHistory) -> NDArray[np.int64]:
    """Number the row of frees that each allocation is freed in, by the allocations before it."""
    rows = history.allocations
    allocates = np.zeros(history.events + 1, np.int64)
    allocates[rows.alloc_event[rows.alloc_event > START]] = 1
    return np.cumsum(allocates)[rows.free_requested_event]


def _is_much_of_its_pass(history: DeviceHistory, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which rows of frees hold much of what was allocated since the first of the row.

    Autograd keeps most of what a forward pass makes; without it only results and caches are kept.
    """
    rows = history.allocations
    at = np.flatnonzero(chosen)
    born, size = rows.alloc_event[at], rows.block_size[at]
    _, group = distinct(_rows_of_frees(history)[at])
    groups = int(group.max(initial=-1)) + 1
    first, last = np.full(groups, history.events), np.zeros(groups, np.int64)
    np.minimum.at(first, group, born)
    np.maximum.at(last, group, born)
    made = np.zeros(history.events + 2, np.int64)
    alive = rows.alloc_event > START
    np.add.at(made, rows.alloc_event[alive] + 1, rows.block_size[alive])
    made = np.cumsum(made)
    held = np.bincount(group, size, groups)
    much = np.zeros(len(rows), np.bool_)
    much[at] = (held >= _OF_ITS_PASS * (made[last + 1] - made[first]))[group]
    return much


def _is_much_of_what_was_made(
    history: DeviceHistory, kept: NDArray[np.bool_], made: NDArray[np.bool_]
) -> bool:
    """Say whether some allocations have much of the bytes that were made in their time."""
    rows = history.allocations
    born = rows.alloc_event[kept]
    made = made & (rows.alloc_event >= born.min()) & (rows.alloc_event <= born.max())
    size = rows.block_size
    return bool(int(size[kept].sum()) >= _MUCH * int(size[made].sum()))


def _of_many_stacks(
    stack: NDArray[np.int32],
    group: NDArray[np.integer[Any]],
    chosen: NDArray[np.bool_],
    least: int = _TOGETHER,
) -> NDArray[np.bool_]:
    """Say which of the chosen are in a group with many different call stacks."""
    at = np.flatnonzero(chosen)
    width = int(stack.max(initial=0)) + 2  # -1 is no stack
    pairs = unique(group[at].astype(np.int64) * width + stack[at] + 1)
    stacks = np.bincount(pairs // width, minlength=int(group.max(initial=-1)) + 1)
    many = np.zeros(len(stack), np.bool_)
    many[at] = stacks[group[at]] >= least
    return many


def _outlives(history: DeviceHistory, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which allocations live while their line makes several others, as most of the line's do.

    The cache entries of a sequence's last tokens are freed with the cache, after fewer others.
    """
    rows = history.allocations
    at = np.flatnonzero(chosen)
    at = at[np.lexsort((rows.alloc_event[at], rows.stack[at]))]
    later = np.minimum(np.arange(len(at)) + _OTHERS, max(len(at) - 1, 0))
    line = rows.stack[at] + 1  # -1 is no stack
    same = (line > 0) & (line[later] == line) & (later == np.arange(len(at)) + _OTHERS)
    lasts = same & (rows.alloc_event[at[later]] < rows.free_requested_event[at])
    most = 2 * np.bincount(line, lasts) > np.bincount(line)
    found = np.zeros(len(rows), np.bool_)
    found[at] = lasts | most[line]
    return found


def _opens(passes: Passes, born: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which events are between a backward pass or optimizer step and the next forward pass."""
    place = np.searchsorted(passes.start, born, side="right") - 1
    phase = np.append(passes.phase, np.int8(BUILD))
    end = np.append(passes.end, START)
    opens: NDArray[np.bool_] = (phase[place] != FORWARD) | (born > end[place])
    return opens
