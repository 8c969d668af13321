"""Infer the role of every allocation from when it was made and freed, and what ran then.

The rules follow how autograd and optimizers keep tensors: memory that forward makes and backward
frees was saved for backward; memory that backward makes and something later frees is a gradient;
memory that an optimizer step makes and keeps is its state. Before these rules come what the file
states, private pools, collectives, workspaces of libraries, and autocast's copies of weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.memoize import once_for_both, once_for_each
from snapreport.ground.native.columns import (
    count_until,
    distinct,
    is_among,
    stable_order,
    unique,
)
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
from snapreport.model.snapshot import StackTable, lowest_on_path
from snapreport.roles.baseline import Judge, match_baseline
from snapreport.roles.frames import is_native_file
from snapreport.roles.passes import (
    BACKWARD,
    BUILD,
    CACHES,
    CASTS,
    COMMUNICATES,
    EXCHANGES,
    FILLS_BUCKETS,
    FORWARD,
    LOAD,
    NO_GRAD,
    OF_MODULES,
    OPTIMIZER,
    RECOMPUTES,
    UNSHARDS,
    USER,
    WORKS,
    ZEROES,
    Passes,
    find_passes,
    stack_marks,
)

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
_WHOLE_GRAPH = "kept with all that its forward pass saved"
_SOME = 5
"""A cache is filled by fewer call stacks than this."""


@once_for_both
def find_roles(history: DeviceHistory, tables: History) -> Roles:
    """Return the role of each allocation of a device."""
    rows = history.allocations
    judge = Judge(len(rows))
    marks = stack_marks(tables.stacks)[rows.stack]
    passes = find_passes(history, tables)
    stated = np.array([_STATED.get(text, UNKNOWN) for text in tables.strings] + [UNKNOWN])
    for role in set(stated.tolist()) - {UNKNOWN}:
        judge.give(stated[rows.category] == role, role, "stated by the file", 1.0)
    judge.give(tables.private[rows.pool], GRAPH_POOL, "in a private pool", 0.9)
    collective = marks & (COMMUNICATES | FILLS_BUCKETS)
    judge.give(collective == COMMUNICATES, COMMUNICATION, "made by a collective", 0.8)
    judge.give(marks & UNSHARDS != 0, PARAMETER, "gathered by FSDP from all ranks", 0.9)
    judge.give(marks & WORKS != 0, WORKSPACE, "a library's workspace", 0.8)
    copies, sure = _find_weight_copies(history, tables, passes, marks)
    judge.give(sure, WEIGHT_COPY, CAST, 0.9)
    judge.give(copies, WEIGHT_COPY, "half of a weight's size, made where one is used", 0.6)
    _by_lifetime(judge, history, passes, marks)
    match_baseline(judge, history, passes, marks, stack_marks(tables.stacks)[rows.free_stack])
    return Roles(judge.role, judge.evidence, tuple(judge.seen))


def _by_lifetime(
    judge: Judge, history: DeviceHistory, passes: Passes, marks: NDArray[np.int32]
) -> None:
    rows, made = history.allocations, passes.made
    born, gone = rows.alloc_event, rows.free_requested_event
    kept = gone >= history.events
    alive = born > START
    none = np.int64(history.events + 1)
    # The end of the pass that each was made in, or else of the first, and where the next begins.
    edges = np.searchsorted(born, passes.start)
    count = np.diff(edges, prepend=0, append=len(rows))
    own_end = np.repeat(np.append(passes.end[:1], passes.end), count) if len(edges) else START
    nexts = np.append(passes.start[1:], none)
    later = np.repeat(np.append(nexts[:1], nexts), count) if len(edges) else none
    stays = kept | (gone >= later)

    step = alive & (made == OPTIMIZER)
    judge.give(step & stays, STATE, "made in an optimizer step and kept", 0.95)
    judge.give(step, OPTIMIZER_TEMPORARY, "freed in the optimizer step that made it", 0.95)

    back = alive & (made == BACKWARD)
    again = back & (marks & RECOMPUTES != 0) & ~kept
    used = again.copy()
    if again.any():
        nodes = np.append(born[back & ~again], none)  # what the backward pass itself makes
        used[again] = gone[again] > nodes[np.searchsorted(nodes, born[again])]
    judge.give(used, ACTIVATION, "computed again for backward by checkpointing", 0.8)
    judge.give(again, BACKWARD_TEMPORARY, "freed while activations were computed again", 0.8)
    outlives = back & ((gone > own_end) | kept)
    exchanged = alive & (marks & EXCHANGES != 0) & ~outlives
    judge.give(exchanged, COMMUNICATION, "made by FSDP to gather or reduce in", 0.9)
    judge.give(outlives, GRADIENT, "made in backward and kept beyond it", 0.9)
    judge.give(back, BACKWARD_TEMPORARY, "freed in the backward pass that made it", 0.95)
    _by_buckets(judge, rows.size, alive & (marks & FILLS_BUCKETS != 0) & stays)

    sizes = unique(rows.size[judge.role == GRADIENT])

    def like_gradient(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return _also(chosen, is_among(rows.size[chosen], sizes))

    zeroed = alive & kept & ((made == BUILD) | (made == USER)) & (marks & ZEROES != 0)
    judge.give(like_gradient(zeroed), STATE, "zeros in the size of a gradient, kept", 0.8)
    build = alive & (made == BUILD)
    unlearned = ZEROES | NO_GRAD
    unlearned_zeros = build & (marks & unlearned == unlearned)
    judge.give(unlearned_zeros, CACHE, "zeros made where no gradient is wanted", 0.6)
    first = passes.start[passes.phase != BUILD][:1]
    built = (made == BUILD) & (kept | (gone >= (first[0] if len(first) else none)))
    judge.give(built & (marks & CACHES != 0), CACHE, "made by a cache, by its name", 0.8)
    text = "made while the model was built, and kept"
    judge.give(like_gradient(built), PARAMETER, text + "; a gradient has its size", 0.95)
    of_modules = built & (marks & OF_MODULES != 0)
    judge.give(of_modules, PARAMETER, text, 0.7 if len(sizes) else 0.9)
    judge.give(built, PARAMETER, "made by a class as it was built, and kept", 0.5)

    ahead = np.flatnonzero(alive & ((made == FORWARD) | (made == LOAD) | (made == USER)))
    part = judge.part(ahead)
    cut = _before_backward(part, history, passes, marks[ahead], ahead)
    judge.join(ahead, part)
    # Allocations still live when the recording ends take the role of others like them.
    left = np.zeros(len(rows), np.bool_)
    left[ahead[cut]] = True
    if (left & judge.open).any():
        sizes, size = distinct(rows.size)
        alike = distinct(rows.stack.astype(np.int64) * len(sizes) + size)[1]
        judge.follow(left, alike.astype(np.int64))
    left &= (marks & NO_GRAD == 0) & (made == FORWARD)
    judge.give(left, ACTIVATION, "made in a forward pass and still kept", 0.6)


def _before_backward(
    judge: Judge,
    history: DeviceHistory,
    passes: Passes,
    marks: NDArray[np.int32],
    at: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """Judge what is made in forward passes, by data loaders, and between the passes.

    Args:
        judge: of these allocations alone.
        history: the device.
        passes: of the device.
        marks: int32, shape (n,): the marks of their call stacks.
        at: int64, shape (n,): the allocations, in birth order.

    Returns:
        bool, shape (n,): which are still live when the recording ends, cut off.
    """
    rows, made, stack = history.allocations, passes.made[at], history.allocations.stack[at]
    born, gone = rows.alloc_event[at], rows.free_requested_event[at]
    kept = gone >= history.events
    back_start, back_end = passes.of(BACKWARD)
    trains = len(back_start) > 0
    none = np.int64(history.events + 1)
    # How many passes have begun before each birth, by then, and by each free.
    begun = count_until(passes.start, history.events)
    before, by_birth, by_free = begun[born], begun[born + 1], begun[gone + 1]
    of_back = np.append(0, np.cumsum(passes.phase == BACKWARD))  # how many of those are backward
    # Where the next backward pass starts and ends, and whether the free is in one.
    following = of_back[before]
    next_start, next_end = (
        np.append(back_start, none)[following],
        np.append(back_end, none)[following],
    )
    freeing = of_back[by_free] - 1
    freed_backward = (freeing >= 0) & (gone <= np.append(back_end, START)[freeing]) & ~kept

    judge.give(freed_backward, ACTIVATION, "made before backward and freed in it", 0.95)
    judge.give(made == LOAD, INPUT, "made by a data loader", 0.9)
    cached = (marks & CACHES != 0) & (kept | (gone > next_end) | (not trains))
    judge.give(cached, CACHE, "made by a cache, by its name", 0.8)
    forward = made == FORWARD
    with_graph = forward & (marks & NO_GRAD == 0)
    # How far back each backward pass got: backward frees in the reverse order of forward, so it had
    # not reached what was made before the oldest that it freed. The value after the last is for a
    # pass that never came, which reached nothing.
    reached = np.full(len(back_start) + 1, np.iinfo(np.int64).max)
    own_frees = freed_backward & forward
    np.minimum.at(reached, freeing[own_frees], born[own_frees])
    if not trains:
        graph = with_graph & ~kept
        together = _of_many_stacks(stack[graph], _rows_of_frees(history, at[graph]))
        judge.give(_also(graph, together), ACTIVATION, NEVER_USED, 0.6)
        lasts = _also(forward, _outlives(history, at[forward]))
        # A cache is filled by a few lines: many that keep what they make are a graph, cut short.
        cut = lasts & kept & with_graph
        lines = len(unique(stack[cut]))
        if lines >= _SOME and _is_much_of_what_was_made(history, at[cut], at[forward]):
            judge.give(cut, ACTIVATION, "much of what forward passes made is kept", 0.6)
        if lines >= _TOGETHER:
            judge.give(cut, ACTIVATION, _WHOLE_GRAPH, 0.6)
        judge.give(lasts, CACHE, "kept while its line made several more", 0.6)
    else:
        # If the same line's memory is, or may yet be, used by backward, a step just skipped it.
        graph = with_graph & ~kept & (gone < next_start)
        graph &= ~_of_lines(stack, freed_backward | kept)
        frees = _rows_of_frees(history, at[graph])
        together = _of_many_stacks(stack[graph], frees)
        graph = _also(graph, together)
        much = _is_much_of_its_pass(history, at[graph], frees[together])
        judge.give(_also(graph, much), ACTIVATION, NEVER_USED, 0.6)
        # Nothing is told by a backward pass that freed nothing: as if it had reached everything.
        freed_to = np.where(reached == np.iinfo(np.int64).max, START, reached)
        missed = with_graph & ~_of_lines(stack, freed_backward)
        missed &= np.where(
            following < len(back_start), (gone > next_end) & (born < freed_to[following]), kept
        )
        # A backward pass that failed midway used no more either, but no optimizer step follows it.
        steps = np.searchsorted(passes.of(OPTIMIZER)[0], np.append(back_start, history.events))
        done = np.append(np.diff(steps) > 0, steps[-1] > steps[0])
        missed &= done[following]
        missed = _also(missed, _of_many_stacks(stack[missed], following[missed]))
        much = _is_much_of_its_pass(history, at[missed], _rows_of_frees(history, at[missed]))
        judge.give(_also(missed, much), ACTIVATION, MISSED, 0.6)
    text = "freed in the forward pass that made it"
    judge.give(forward & (gone < next_start) & ~kept, FORWARD_TEMPORARY, text, 0.9)
    user = made == USER
    # Between a backward pass or optimizer step and the next forward pass.
    opening = (np.append(np.int8(BUILD), passes.phase) != FORWARD)[by_birth]
    opening |= born > np.append(START, passes.end)[by_birth]
    beyond = trains & (gone > next_end)
    judge.give(user & opening & beyond, INPUT, "made before the forward pass", 0.7)
    text = "kept by the program beyond backward"
    judge.give(~kept & beyond, FORWARD_TEMPORARY, text, 0.6)
    between = user & ~opening & ~kept
    judge.give(between, FORWARD_TEMPORARY, "freed between forward and backward", 0.5)
    over = user & trains & ~kept & (following == len(back_start))
    judge.give(over, FORWARD_TEMPORARY, "freed after the last backward pass", 0.5)
    passed = kept & (following < len(back_start))
    stepped = np.searchsorted(back_start, passes.of(OPTIMIZER)[0][-1:].max(initial=START))
    passed &= (born >= reached[following]) | (following < max(int(stepped), len(back_start) - 1))
    graph = passed & forward
    graph = _also(graph, _of_many_stacks(stack[graph], following[graph]))
    judge.give(graph, ACTIVATION, _WHOLE_GRAPH, 0.6)
    judge.give(passed, FORWARD_TEMPORARY, text, 0.6)
    return kept & ~passed


def _also(chosen: NDArray[np.bool_], found: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return those chosen for which ``found``, one value for each chosen one, is true."""
    both: NDArray[np.bool_] = chosen.copy()
    both[chosen] = found
    return both


def _by_buckets(judge: Judge, size: NDArray[np.int64], buckets: NDArray[np.bool_]) -> None:
    """Decide whether DDP's buckets are the gradients, or whether gradients are copied into them.

    There are two sets of buckets, as they are made again once the order of gradients is known.

    Source: torch/nn/parallel/distributed.py, ``gradient_as_bucket_view``.
    """
    if 2 * int(size[judge.role == GRADIENT].sum()) >= int(size[buckets].sum()):
        judge.give(buckets, COMMUNICATION, "made by DDP to copy gradients into", 0.9)
    else:
        judge.give(buckets, GRADIENT, "made by DDP, and no gradients beside it", 0.9)


def _rows_of_frees(history: DeviceHistory, at: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number the rows of frees that allocations are freed in, by the allocations before each.

    Autograd's graph is freed in a row, memory of many call stacks; memory without gradients is
    freed soon after it is made.
    """
    rows = history.allocations
    return np.searchsorted(rows.alloc_event, rows.free_requested_event[at], side="right")


_OF_ITS_PASS = 0.1
"""A forward pass with gradients keeps at least this part of the bytes that it makes."""


def _is_much_of_its_pass(
    history: DeviceHistory, at: NDArray[np.intp], frees: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Say which rows of frees hold much of what was allocated since the first of the row.

    Autograd keeps most of what a forward pass makes; without it only results and caches are kept.
    """
    rows = history.allocations
    born, size = rows.alloc_event[at], rows.block_size[at]
    if not len(at):
        return np.zeros(0, np.bool_)
    _, group = distinct(frees)
    groups = int(group.max(initial=-1)) + 1
    first, last = np.full(groups, history.events), np.zeros(groups, np.int64)
    np.minimum.at(first, group, born)
    np.maximum.at(last, group, born)
    made = np.append(0, np.cumsum(rows.block_size))  # before each, in birth order
    begin = np.searchsorted(rows.alloc_event, first)
    end = np.searchsorted(rows.alloc_event, last, side="right")
    held = np.bincount(group, size, groups)
    much: NDArray[np.bool_] = (held >= _OF_ITS_PASS * (made[end] - made[begin]))[group]
    return much


_MUCH = 0.4
"""A cache is a smaller part than this of what forward passes make; their graph is a larger one."""


def _is_much_of_what_was_made(
    history: DeviceHistory, kept: NDArray[np.intp], made: NDArray[np.intp]
) -> bool:
    """Say whether some allocations have much of the bytes that were made in their time."""
    size = history.allocations.block_size  # in birth order
    made = made[(made >= kept[0]) & (made <= kept[-1])]
    return bool(int(size[kept].sum()) >= _MUCH * int(size[made].sum()))


_TOGETHER = 8
"""At least this many call stacks' memory must be freed in a row, without an allocation between."""


def _of_many_stacks(stack: NDArray[np.int32], group: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Say which allocations are in a group with many different call stacks."""
    width = int(stack.max(initial=0)) + 2  # -1 is no stack
    pairs = unique(group * width + stack + 1)
    many: NDArray[np.bool_] = (np.bincount(pairs // width) >= _TOGETHER)[group]
    return many


_OTHERS = 3
"""In inference, memory that lives while its line makes this many more allocations is a cache."""


def _outlives(history: DeviceHistory, at: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Say which allocations live while their line makes several others, as most of the line's do.

    The cache entries of a sequence's last tokens are freed with the cache, after fewer others.
    """
    rows = history.allocations
    order = stable_order(rows.stack[at])
    at = at[order]
    later = np.minimum(np.arange(len(at)) + _OTHERS, max(len(at) - 1, 0))
    line = rows.stack[at] + 1  # -1 is no stack
    same = (line > 0) & (line[later] == line) & (later == np.arange(len(at)) + _OTHERS)
    lasts = same & (rows.alloc_event[at[later]] < rows.free_requested_event[at])
    most = 2 * np.bincount(line, lasts) > np.bincount(line)
    found = np.empty(len(at), np.bool_)
    found[order] = lasts | most[line]
    return found


def _of_lines(stack: NDArray[np.int32], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which allocations have the call stack of one of the chosen."""
    there = np.zeros(int(stack.max(initial=0)) + 2, np.bool_)  # -1, no stack, is the last
    there[stack[chosen]] = True
    return there[stack]


_AUTOCASTS = expression(r"^.{0,400}torch[/\\]amp[/\\]autocast_mode\.py$")


def _find_weight_copies(
    history: DeviceHistory, tables: History, passes: Passes, marks: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which allocations are autocast's copies of weights, and of which that is sure.

    ``torch.autocast`` casts each float32 weight to half precision where it is first used, and
    caches the copy until its outermost block ends. A copy has half of its weight's bytes, is made
    on the weight's line, and does not follow the batch. Where gradients are recorded, the graph
    keeps it, too.

    Where C++ frames or operators were recorded, a copy is made by a cast inside another operation.
    With Python frames alone the order tells: autocast copies an operation's bias, then its weight,
    before the operation makes its result.

    Returns:
        bool, shape (n_allocations,), both.

    Source: ``cached_cast`` in aten/src/ATen/autocast_mode.cpp.
    """
    rows, n = history.allocations, len(history.allocations)
    copies, sure = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    order = np.arange(n)[rows.made]  # they are in birth order
    forward, casts = passes.made[rows.made] == FORWARD, marks[rows.made] & CASTS != 0
    may_be = casts if casts.any() else forward
    of_half = _also(may_be, _has_half_of_a_weight(history, passes, order[may_be]))
    if not of_half.any():
        return copies, sure
    run = operations(history, tables.stacks)[0][order]
    if casts.any():
        # The input may be cast, too, and have the size of a weight: the weight comes first.
        at = np.flatnonzero(of_half)
        pairs = np.stack([run[at], rows.size[order[at]]])
        found = np.zeros(len(order), np.bool_)
        found[at[np.unique(pairs, axis=1, return_index=True)[1]]] = True
        others = unique(rows.size[order[~found & forward]])
        sure[order[found]] = ~is_among(rows.size[order[found]], others)
    else:
        # A copy is needed until its operation's result is made, the last of a run.
        new = np.append(True, run[1:] != run[:-1])
        last = np.append(new[1:], True)
        result = rows.alloc_event[order][last][run - run[0]]
        likely = of_half & (rows.free_requested_event[order] > result) & ~last
        likely &= _hands_on_weights(tables.stacks)[rows.stack[order]]
        size = rows.size[order]
        pair = likely[:-1] & likely[1:] & ~last[:-1]
        pair &= (size[1:] > size[:-1]) & (size[1:] % np.maximum(size[:-1], 1) == 0)
        found = np.append(pair, False) | np.append(False, pair)
        if found.any() or any(map(_AUTOCASTS.match, tables.stacks.frames.filenames)):
            found |= likely & new  # a weight without a bias
    copies[order[found]] = True
    return copies, sure


def _has_half_of_a_weight(
    history: DeviceHistory, passes: Passes, order: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Say which allocations have half the size of what was made earlier, as weights, and lives."""
    rows = history.allocations
    weights = (rows.alloc_event == START) | (passes.made == BUILD)
    size, number = np.unique(rows.size[weights], return_inverse=True)
    until = np.full(len(size) + 1, START, np.int64)
    np.maximum.at(until, number, rows.free_requested_event[weights])
    double = 2 * rows.size[order]
    place = np.searchsorted(size, double)
    same = np.append(size, 0)[place] == double
    found: NDArray[np.bool_] = same & (until[place] > rows.alloc_event[order]) & ~weights[order]
    return found


def operations(
    history: DeviceHistory, stacks: StackTable
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Number what one Python line makes without another's in between, such as an operation.

    Returns:
        intp, shape (n_allocations,): ascending in the order of allocation, 0 for all from before
        the recording; and the event at which each begins, ascending.
    """
    rows = history.allocations
    born = rows.alloc_event  # ascending
    line = np.append(_python_nodes(stacks), -1)[rows.stack]
    new = np.append(True, (line[1:] != line[:-1]) & (born[1:] > START))[: len(rows)]
    new[np.searchsorted(born, START, side="right") :][:1] = True
    run = np.cumsum(new) - 1
    return run, born[new]


@once_for_each
def _python_nodes(stacks: StackTable) -> NDArray[np.intp]:
    """Return each stack's innermost Python node."""
    native = np.array([is_native_file(file) for file in stacks.frames.filenames], np.int8)
    return stacks.of_stacks(lowest_on_path(stacks.node_parent, native[stacks.node_frame]))


_USES_WEIGHTS = expression(
    r".{0,400}(torch[/\\]nn[/\\](modules[/\\](linear|conv)|functional)|pytorch_utils)\.py$"
)
"""Files whose lines hand a weight to an operation."""


def _hands_on_weights(stacks: StackTable) -> NDArray[np.bool_]:
    """Say of which stacks the innermost Python line hands a weight to an operation."""
    uses = [bool(_USES_WEIGHTS.match(file)) for file in stacks.frames.filenames]
    node = np.append(_python_nodes(stacks), -1)
    if not len(stacks.node_frame):
        return np.zeros(len(node), np.bool_)
    found: NDArray[np.bool_] = np.array(uses, np.bool_)[stacks.node_frame[node]] & (node >= 0)
    return found
