"""Changes to a program: what each takes from the history, at least, as expected and at most."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.edits import Edit, away, scaled
from snapreport.diagnosis.advice.layers import Blocks, are_layers
from snapreport.diagnosis.advice.situation import (
    LEAKS,
    Change,
    Situation,
    graph_calls,
    latest_free_after,
)
from snapreport.figures.callsites import find_site_frames
from snapreport.ground.memoize import once_for_each
from snapreport.ground.native.columns import distinct, is_among, unique
from snapreport.model.history import START, Allocations
from snapreport.model.roles import (
    ACTIVATION,
    BACKWARD_TEMPORARY,
    BUFFER,
    CACHE,
    FORWARD_TEMPORARY,
    GRADIENT,
    INPUT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    STATE,
    UNKNOWN,
    WEIGHT_COPY,
)
from snapreport.model.snapshot import FrameTable
from snapreport.roles.lifetimes import CAST, MISSED, NEVER_USED, operations
from snapreport.roles.passes import (
    ATTENDS,
    BACKWARD,
    FEW_BITS,
    FILLS_BUCKETS,
    FORWARD,
    FUSES,
    IN_BACKWARD,
    IN_DDP,
    IN_OPTIMIZER,
    LOSES,
    OPTIMIZER,
    RECOMPUTES,
)

_PART = 0.02
"""Tensors and totals below this part of the peak are ignored."""


def find_changes(
    situation: Situation, parts: Sequence[int] = (2,), chunks: Sequence[int] = (8,)
) -> Iterator[Change]:
    """Yield the changes that are expected to lower the peak, and whose conditions are met.

    Args:
        parts: into how many the batch may be cut.
        chunks: into how many the loss may be cut.
    """
    for change in _changes(situation, parts, chunks):
        if situation.left(change.expected) < situation.peak:
            yield change


def _changes(situation: Situation, parts: Sequence[int], chunks: Sequence[int]) -> Iterator[Change]:
    if not len(situation.passes.phase):
        return
    if state_depends_on_data(situation):
        parts = ()
    cut = [(number, _batch_edits(situation, number)) for number in parts]
    for number, edits in cut:
        yield _smaller_batch(situation, number, edits)
    if not situation.trains:
        yield from _autocast(situation)
        yield from inference(situation)
        if graph_calls(situation).may_train:
            yield from _checkpoint(situation)
        return
    yield from _checkpoint(situation)
    for number, edits in cut:
        yield from _accumulate(situation, number, edits)
    yield from _chunked_loss(situation, chunks)
    yield from _attention_kernel(situation)
    if situation.to_host:
        yield from _offload_activations(situation)
    yield from optimizer_changes(situation)
    yield from inference(situation)
    yield _release_outputs(situation)
    yield from _stop_leaks(situation)


_GROWS = 3
"""A line that makes state in this many steps, and keeps it all, is taken to add to it in each."""
_KEEPS_HISTORY = re.compile(r"torch[/\\]optim[/\\]lbfgs\.py$")


def state_depends_on_data(situation: Situation) -> bool:
    """Say whether steps add to the optimizer's state, by amounts that depend on data (LBFGS)."""
    if any(_KEEPS_HISTORY.search(name) for name in situation.tables.stacks.frames.filenames):
        return True
    rows = situation.history.allocations
    at = np.flatnonzero(situation.of(STATE) & situation.live() & (rows.alloc_event > START))
    turn = np.searchsorted(situation.passes.of(FORWARD)[0], rows.alloc_event[at], side="right")
    above = int(turn.max(initial=0)) + 1
    kind = unique(_kinds(situation, at) * above + turn) // above  # once for each turn
    return int(np.bincount(kind).max(initial=0)) >= _GROWS


def _kinds(situation: Situation, at: NDArray[np.intp]) -> NDArray[np.int64]:
    """Give allocations in some rows numbers, equal ones to equal call stacks and sizes."""
    rows = situation.history.allocations
    above = len(situation.tables.stacks) + 1
    kinds: NDArray[np.int64] = distinct(rows.size[at])[1] * above + (rows.stack[at] + 1)
    return distinct(kinds)[1]


def _lowest(situation: Situation, changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the change that leaves the lowest peak, the first if several do."""
    ordered = sorted(changes, key=lambda change: situation.left(change.expected))
    yield from ordered[:1]


def _mask(rows: Allocations, chosen: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Say which allocations are among some rows; shape (n_allocations,)."""
    found = np.zeros(len(rows), np.bool_)
    found[chosen] = True
    return found


def _last_of_each(group: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say where each run of equal numbers ends."""
    return np.append(group[1:] != group[:-1], True)[: len(group)]


# What is kept for the backward pass: computed again, or moved to the host.


@once_for_each
def _checkpoint(situation: Situation) -> tuple[Change, ...]:
    """Keep only the output of each block; compute the rest again in the backward pass."""
    changes = [_of_blocks(situation, blocks) for blocks in situation.blocks]
    again = situation.marks & RECOMPUTES != 0
    if (again & situation.live()).any():
        # Each layer is checkpointed, or a part of each: then it also keeps what is made outside of
        # its checkpoints, which go when the entire layer is wrapped.
        changes = [
            replace(change, about="whole", extra=change.extra + _most_again(situation, blocks))
            for change, blocks in zip(changes, situation.blocks, strict=True)
            if not again[change.expected[0].rows].all()
        ]
    return tuple(_lowest(situation, changes))


def _of_blocks(situation: Situation, blocks: Blocks) -> Change:
    history, rows = situation.history, situation.history.allocations
    n, last = len(blocks), blocks.last_event(history)
    activation = situation.of(ACTIVATION)
    stays = activation[blocks.rows] & (
        rows.free_requested_event[blocks.rows] > last[blocks.instance]
    )
    own, of = blocks.rows[stays], blocks.instance[stays]
    first_free = np.full(n, history.events, np.int64)
    np.minimum.at(first_free, of, rows.free_requested_event[own])
    begins = np.minimum(first_free, latest_free_after(situation, last))
    begins = np.where(begins > last, begins, first_free)
    begin, end = last[of] + 1, begins[of]
    # The last of a block's tensors is the next block's input, and stays.
    goes = ~_last_of_each(of)
    expected = away(history, own[goes], begin[goes], end[goes])
    order = np.lexsort((rows.block_size[own], of))
    goes[order[_last_of_each(of[order])]] = False  # the largest
    least = away(history, own[goes], begin[goes], end[goes])
    made = _mask(rows, blocks.rows)
    # At worst a block is computed again while all that its backward pass makes is live.
    extra = int(np.bincount(of, weights=situation.at_worst[own], minlength=n).max(initial=0))
    # Calls that the program itself makes may be of the whole model.
    layers = are_layers(situation.tables.stacks, history, blocks)
    return Change(
        "checkpoint",
        _mask(rows, own),
        (least,),
        (expected,),
        (scaled(history, made & situation.of(ACTIVATION, WEIGHT_COPY), 1.0),),
        "" if layers else "calls",
        blocks=blocks,
        extra=extra,
    )


def _most_again(situation: Situation, blocks: Blocks) -> int:
    """Return the most bytes that the checkpoints in one block make: in a whole block, all at once.

    Now they are computed again one checkpoint at a time.
    """
    size = situation.at_worst[blocks.rows]
    again = situation.marks[blocks.rows] & RECOMPUTES != 0
    return int(np.bincount(blocks.instance, weights=size * again).max(initial=0))


_SAVES_ELSEWHERE = re.compile(r"^(pack|unpack)_(to|from)_cpu$")


def _offload_activations(situation: Situation) -> Iterator[Change]:
    """Keep saved tensors in the host's memory until their own operation's backward."""
    if any(_SAVES_ELSEWHERE.search(name) for name in situation.tables.stacks.frames.names):
        return
    history, rows = situation.history, situation.history.allocations
    kept = situation.of(ACTIVATION) & (rows.alloc_event > START)
    # A tensor goes once the next one is made, by the operation that uses it. It comes back when
    # the operation before its own in the backward pass is done.
    made = rows.alloc_event[(situation.passes.made == FORWARD) & (rows.alloc_event > START)]
    own = np.flatnonzero(kept)
    following = np.searchsorted(made, rows.alloc_event[own], side="right")
    begin = np.append(made, history.events)[following] + 1
    frees = np.append(unique(rows.free_requested_event[own]), history.events)
    before = np.searchsorted(frees, rows.free_requested_event[own]) - 1
    back = np.where(before >= 0, frees[np.maximum(before, 0)], START)
    expected = away(history, own, begin, np.maximum(back, situation.next_backward[own]))
    # At worst one layer's tensors come back at once, and copies of its parameters with them.
    least: tuple[Edit, ...] = ()
    extra = 0
    for change in _checkpoint(situation):
        weight = situation.largest(situation.of(PARAMETER, GRADIENT))
        least, extra = change.least, change.extra + 2 * weight
    everything = scaled(history, kept | situation.of(WEIGHT_COPY), 1.0)
    yield Change("offload-activations", kept, least, (expected,), (everything,), extra=extra)


# A smaller batch.


_Three = tuple[Edit, Edit, Edit]
"""What a change takes away at least, as expected and at most."""


def _smaller_batch(situation: Situation, parts: int, edits: _Three) -> Change:
    """Cut what grows with the batch."""
    least, expected, most = edits
    grows = _grows_with_batch(situation)
    return Change("smaller-batch", grows, (least,), (expected,), (most,), number=parts)


def _accumulate(situation: Situation, parts: int, edits: _Three) -> Iterator[Change]:
    """Cut the batch, and keep the gradients of the first part through the others."""
    rows = situation.history.allocations
    starts = situation.passes.of(FORWARD)[0]
    gradient = situation.of(GRADIENT)
    if not len(starts):
        return
    # A gradient's pass begins with the forward pass before it.
    own = np.flatnonzero(gradient)
    born = rows.alloc_event[own]
    begins = starts[np.maximum(np.searchsorted(starts, born, side="right") - 1, 0)]
    early = begins < born
    longer = Edit(own[early], np.full(int(early.sum()), -1.0), begins[early], born[early], True)
    least, expected, most = edits
    grows = _grows_with_batch(situation)
    yield Change(
        "accumulate", grows, (least, longer), (expected, longer), (most,), number=parts,
        extra=situation.largest(gradient & situation.live()),
    )  # fmt: skip


def _batch_edits(situation: Situation, parts: int) -> _Three:
    """Return what goes if the batch is ``parts`` times smaller."""
    history, share = situation.history, 1 - 1 / parts
    fixed = situation.of(PARAMETER, BUFFER, GRADIENT, STATE, OPTIMIZER_TEMPORARY)
    fixed &= ~_of_samples(situation)
    cast = [seen.text == CAST for seen in situation.roles.seen]
    fixed |= np.array(cast)[situation.roles.evidence]
    grows = _grows_with_batch(situation)
    sure = grows & situation.of(ACTIVATION)
    # A copy of a weight, which does not grow with the batch, may be among them: by its size.
    sizes = unique(history.allocations.size[situation.of(PARAMETER, GRADIENT)])
    sure[sure] = ~is_among(history.allocations.size[sure], np.concatenate([sizes, sizes // 2]))
    return (
        scaled(history, sure, share),
        scaled(history, grows, share),
        scaled(history, ~fixed, 1 - 1 / parts**2),  # some of it grows with the square of the batch
    )


@once_for_each
def _grows_with_batch(situation: Situation) -> NDArray[np.bool_]:
    """Say what grows with the batch: not tensors for weights, nor data kept over steps."""
    rows = situation.history.allocations
    sizes = unique(rows.size[situation.of(GRADIENT)])
    of_weights = situation.of(BACKWARD_TEMPORARY)
    of_weights[of_weights] = is_among(rows.size[of_weights], sizes)
    steps = situation.passes.of(BACKWARD)[0]
    stays = situation.of(INPUT, FORWARD_TEMPORARY)
    born, gone = (
        np.searchsorted(steps, events[stays])
        for events in (rows.alloc_event, rows.free_requested_event)
    )
    stays[stays] = gone - born > 1
    data = situation.of(INPUT) & stays
    # Memory made once that stays, such as the buckets in which ranks add up gradients: it shares
    # its call stack and size with no other.
    at = np.flatnonzero(situation.of(FORWARD_TEMPORARY) & stays)
    kind = _kinds(situation, at)
    data[at[(np.bincount(kind) == 1)[kind]]] = True
    roles = situation.of(ACTIVATION, INPUT, FORWARD_TEMPORARY, BACKWARD_TEMPORARY, CACHE)
    return (roles & ~of_weights & ~data) | _of_samples(situation)


@once_for_each
def _of_samples(situation: Situation) -> NDArray[np.bool_]:
    """Say which gradients are per sample, as in differentially private training.

    They have the size of no parameter, in any precision.
    """
    size = situation.history.allocations.size
    weights = unique(size[situation.of(PARAMETER)])
    found = situation.of(GRADIENT)
    sizes = np.concatenate([weights, weights // 2, weights * 2])
    # DDP's buckets have none either, and are gradients of parameters.
    found &= situation.marks & (FILLS_BUCKETS | IN_DDP) == 0
    found[found] = ~is_among(size[found], sizes) if len(weights) else False
    return found & (situation.history.allocations.alloc_event > START)


# The loss and attention.


def _chunked_loss(situation: Situation, chunks: Sequence[int]) -> Iterator[Change]:
    """Compute logits and loss for a part of the tokens at a time."""
    history, rows = situation.history, situation.history.allocations
    big = rows.block_size >= _PART * situation.peak
    loses = big & (situation.marks & LOSES != 0)
    fixed = situation.of(PARAMETER, BUFFER, GRADIENT, STATE, OPTIMIZER_TEMPORARY)
    like = loses & ~fixed
    # The loss's input: the last tensor of its size, or of half of it, made before it in forward.
    forward = big & situation.of(ACTIVATION, FORWARD_TEMPORARY) & ~loses
    kept = loses & situation.of(ACTIVATION)
    at = np.flatnonzero(kept | forward)
    at = at[np.lexsort((rows.alloc_event[at], situation.next_backward[at]))]
    for own in np.split(at, np.flatnonzero(np.diff(situation.next_backward[at])) + 1):
        mine = own[kept[own]]
        if not len(mine):
            continue
        before = own[forward[own] & (rows.alloc_event[own] < rows.alloc_event[mine[0]])]
        for size in set(rows.size[mine].tolist()):
            for wanted in (size, size // 2):
                like[before[rows.size[before] == wanted][-1:]] = True
    for parts in chunks:
        share = 1 - 1 / parts
        yield Change(
            "chunked-loss", like,
            (scaled(history, like & loses, share),),
            (scaled(history, like, share),),
            (scaled(history, like, 1.0),),
            number=parts,
        )  # fmt: skip


def _attention_kernel(situation: Situation) -> Iterator[Change]:
    """Never keep attention's weights: a kernel recomputes them, one tile at a time."""
    history, rows = situation.history, situation.history.allocations
    attends = (situation.marks & ATTENDS != 0) & (situation.marks & LOSES == 0)
    weights = attends & situation.of(ACTIVATION, FORWARD_TEMPORARY)
    held = int(rows.block_size[weights & situation.live()].sum())
    if not held or held < _PART * situation.peak:
        return
    sizes, number = distinct(rows.size[weights])
    size = sizes[np.bincount(number, weights=rows.size[weights]).argmax()]
    # Other tensors of their size derive from them if made by the same function or in backward.
    function = _functions(situation)
    alike = is_among(function, unique(function[unique(rows.stack[weights])]))
    same = situation.of(ACTIVATION, FORWARD_TEMPORARY) & alike[rows.stack]
    like = (same | situation.of(BACKWARD_TEMPORARY)) & (rows.size == size)
    yield Change(
        "attention-kernel", like,
        (scaled(history, weights, 1.0),),
        (scaled(history, like, 1.0),),
        (scaled(history, situation.of(ACTIVATION, FORWARD_TEMPORARY, BACKWARD_TEMPORARY), 1.0),),
    )  # fmt: skip


def _functions(situation: Situation) -> NDArray[np.int64]:
    """Number the function of each stack's call site; int64, (n_stacks + 1,), the last for none."""
    frames = situation.tables.stacks.frames
    numbers: dict[tuple[str, str], int] = {}
    of_frame = [
        numbers.setdefault(key, len(numbers))
        for key in zip(frames.names, frames.filenames, strict=True)
    ]
    return np.append(np.array([*of_frame, -1])[find_site_frames(situation.tables.stacks)], -1)


# The optimizer, its state and gradients.


_SMALL = 4096
"""Bytes. Smaller tensors hold step counts and factors, not the state of a whole parameter."""
_COPIES = 4.0
"""Tensors an optimizer makes at most to update one parameter: two averages, two temporaries."""
_AVERAGES = 2.0
"""Tensors it likely makes for one parameter if it updates one at a time."""
_IN_PARALLEL = re.compile(r"torch[/\\]nn[/\\]parallel[/\\]distributed\.py$")
_SHARDED = re.compile(
    r"zero_redundancy_optimizer|[/\\]fsdp[/\\]|[/\\]runtime[/\\]zero[/\\]|distrib_optimizer"
)
_ON_HOST = re.compile(r"cpu_adam|cpu_offload|offload_optimizer")
_LONG = 200


def optimizer_changes(situation: Situation) -> Iterator[Change]:
    """Yield what can be changed about the optimizer, its state and gradients.

    Args:
        situation: of a program that trains.
    """
    # One fused operation updates all parameters, in those of PyTorch's optimizers that can.
    fuses = situation.of(OPTIMIZER_TEMPORARY) & (situation.marks & FUSES != 0)
    fused = scaled(situation.history, fuses, 1.0)
    yield Change("fused-optimizer", fuses, (), (fused,), (fused,))
    yield _low_bit_state(situation)
    yield from _shard_state(situation)
    if situation.to_host:
        yield from _offload_state(situation)
    yield _clear_gradients(situation)


def _low_bit_state(situation: Situation) -> Change:
    """Keep the optimizer's state in 16 bits; what is small, such as a count of steps, stays."""
    state = situation.of(STATE) & (situation.marks & FEW_BITS == 0)
    large = _large(situation) & state
    half = scaled(situation.history, large, 0.5)
    small = scaled(situation.history, state & ~large, 1.0)
    # Optimizers that support this update one parameter at a time, with tensors in full precision,
    # or all in one fused operation. PyTorch's own foreach updates do not support it.
    temporary = situation.of(OPTIMIZER_TEMPORARY)
    passing = scaled(situation.history, temporary, 1.0)
    fused = scaled(situation.history, temporary & (situation.marks & FUSES != 0), 1.0)
    return Change(
        "low-bit-state", state,
        (half, _one_by_one(situation, state, _COPIES)) if large.any() else (),
        (half, fused, _one_by_one(situation, state, _AVERAGES)) if len(fused.rows) else (half,),
        (half, small, passing),
        extra=_SMALL,
    )  # fmt: skip


@once_for_each
def _large(situation: Situation) -> NDArray[np.bool_]:
    """Say which state tensors have the size of a parameter."""
    rows = situation.history.allocations
    large = situation.of(STATE) & (rows.block_size >= _SMALL)
    large[large] = is_among(rows.size[large], unique(rows.size[situation.of(PARAMETER, GRADIENT)]))
    return large


def _one_by_one(situation: Situation, state: NDArray[np.bool_], copies: float) -> Edit:
    """Add tensors as large as the largest of the state to each of the optimizer's steps."""
    sizes = situation.history.allocations.block_size
    starts, ends = situation.passes.of(OPTIMIZER)
    largest = np.full(len(starts), np.where(state, sizes, 0).argmax(), np.intp)
    return Edit(largest, np.full(len(starts), -copies), starts, ends + 1, True)


def _shard_state(situation: Situation) -> Iterator[Change]:
    """Let each rank keep the state of its own share of the parameters, and update only these."""
    frames = situation.tables.stacks.frames
    if not _has(frames, _IN_PARALLEL) or _has(frames, _SHARDED):
        return
    noted = situation.tables.recorder
    ranks = noted.world_size if noted is not None and noted.world_size > 1 else 2
    history, rows = situation.history, situation.history.allocations
    state = situation.of(STATE)
    held, gradients = (
        int(rows.block_size[chosen & situation.live()].sum())
        for chosen in (state, situation.of(GRADIENT))
    )
    if not held:
        return
    # Each parameter goes as a whole to the rank with the least, so one has one too many at worst.
    largest = situation.largest(state)
    most = largest * max(-(-held // gradients) if gradients else 1, 2)
    share = 1 - 1 / ranks
    temporary = situation.of(OPTIMIZER_TEMPORARY)
    passing = temporary & (situation.marks & FUSES != 0)
    yield Change(
        "shard-state", state,
        (scaled(history, state, share),),
        (scaled(history, state, share), scaled(history, passing, share)),
        (scaled(history, state, min(share + most / held, 1.0)), scaled(history, temporary, 1.0)),
        number=ranks,
        extra=most,
    )  # fmt: skip


def _offload_state(situation: Situation) -> Iterator[Change]:
    """Keep the state in the host's memory, and update the parameters there."""
    if _has(situation.tables.stacks.frames, _ON_HOST):
        return
    history, state = situation.history, situation.of(STATE)
    large = scaled(history, _large(situation), 1.0)
    everything = scaled(history, state, 1.0)
    temporary = scaled(history, situation.of(OPTIMIZER_TEMPORARY), 1.0)
    yield Change(
        "offload", state,
        (large, _one_by_one(situation, state, _COPIES)),
        (everything, temporary),
        (everything, temporary),
    )  # fmt: skip


def _has(frames: FrameTable, pattern: re.Pattern[str]) -> bool:
    """Say whether the name of any file of these frames matches a pattern."""
    return any(pattern.search(file[-_LONG:]) for file in set(frames.filenames))


def _clear_gradients(situation: Situation) -> Change:
    """Free gradients before the next forward pass instead of after it."""
    rows = situation.history.allocations
    starts = situation.passes.of(FORWARD)[0]
    own = np.flatnonzero(situation.of(GRADIENT))
    born, freed = rows.alloc_event[own], rows.free_requested_event[own]
    # The next optimizer step reads them last, however many passes come before it.
    events, steps = situation.history.events, situation.passes.of(OPTIMIZER)[1]
    ends = np.append(steps, events)
    used = ends[np.searchsorted(steps, born)] if len(steps) else born
    begins = np.append(starts, events)[np.searchsorted(starts, used, side="right")]
    is_late = freed > begins
    if not len(steps):  # gradients freed before the next backward pass are not accumulated
        backward = situation.passes.of(BACKWARD)[0]
        is_late &= freed < np.append(backward, events)[np.searchsorted(backward, begins)]
    late = own[is_late]
    edit = away(situation.history, late, begins[is_late])
    return Change("free-earlier", _mask(rows, late), (edit,), (edit,), (edit,), about="gradients")


# What nothing uses: graphs without a backward pass, copies of weights, outputs, leaks.


def inference(situation: Situation) -> Iterator[Change]:
    """Keep nothing for a backward pass that never comes: free memory when its call has ended.

    In a program that trains, this is about its evaluation.
    """
    history, rows = situation.history, situation.history.allocations
    roles = situation.roles
    unused = [seen.text in (NEVER_USED, MISSED) for seen in roles.seen]
    kept = np.array(unused)[roles.evidence]
    if not situation.trains:  # there is no backward pass that could have used any
        kept = situation.of(ACTIVATION) & (rows.alloc_event > START)
    if not (kept & situation.live()).any():
        return
    if not situation.trains and (situation.marks & (IN_BACKWARD | IN_OPTIMIZER)).any():
        return
    calls = graph_calls(situation)
    about = "first" if calls.may_train else "calls" if calls.kept else ""
    if situation.trains:
        about = "evaluation"
    # The graph may hold inputs as well, and what a pass needs only for a short time may go sooner.
    beside = situation.of(FORWARD_TEMPORARY, INPUT, WEIGHT_COPY) & (rows.alloc_event > START)
    everything = scaled(history, kept | beside, 1.0)

    starts, ends = situation.passes.of(FORWARD)
    if about == "calls":
        starts, ends = calls.starts, np.append(calls.starts[1:] - 1, ends[-1:])
    own = np.searchsorted(starts, rows.alloc_event, side="right") - 1
    after_pass = np.append(ends, history.events)[own] + 1

    returned = _returned(situation, kept)

    def freed_after(blocks: Blocks | None) -> Change:
        begin = after_pass.copy()
        if blocks is not None:
            begin[blocks.rows] = blocks.last_event(history)[blocks.instance] + 1
        goes = (np.flatnonzero(kept & ~stays) for stays in returned)
        expected, least = (away(history, some, begin[some]) for some in goes)
        return Change(
            "inference-mode", kept, (least,), (expected,), (everything,), about,
            calls=calls if about == "calls" else None,
        )  # fmt: skip

    yield from _lowest(situation, map(freed_after, situation.blocks or (None,)))


def _returned(
    situation: Situation, kept: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which memory of a graph the program would hold even without the graph.

    Where a graph outlives its call, the program holds what the call returned: likely the last that
    it made, at most the largest of the call and the output of every layer, too.
    """
    rows = situation.history.allocations
    starts = situation.passes.of(FORWARD)[0]
    if not situation.trains:
        starts = graph_calls(situation).starts
    turn = np.searchsorted(starts, rows.alloc_event, side="right")
    following = np.append(starts, situation.history.events)[turn]
    held = np.flatnonzero(kept & (rows.free_requested_event >= following))
    likely, possible = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for weight, marks in ((rows.alloc_event, likely), (rows.block_size, possible)):
        order = held[np.lexsort((weight[held], turn[held]))]
        marks[order[_last_of_each(turn[order])]] = True
    for blocks in situation.blocks:
        inside = np.full(len(rows), -1, np.int64)
        inside[blocks.rows] = blocks.instance
        layers = held[inside[held] >= 0]
        layers = layers[np.lexsort((rows.alloc_event[layers], inside[layers]))]
        possible[layers[_last_of_each(inside[layers])]] = True
    return likely, likely | possible


_PER_RESULT = 4
"""An operation has up to this many copies of weights for each tensor that its graph keeps."""


def _autocast(situation: Situation) -> Iterator[Change]:
    """Keep no copies of weights beside the weights: no cache, where no graph keeps them anyway."""
    history, rows = situation.history, situation.history.allocations
    copies, live = situation.of(WEIGHT_COPY), situation.live()
    held = int(rows.block_size[copies & live].sum())
    if not held:
        return
    of_graph = _go_with_a_graph(situation, copies & live)
    if of_graph and graph_calls(situation).may_train:
        return
    everything = scaled(history, copies, 1.0)
    if not of_graph:
        # An operation's copies go before another line makes anything.
        run, begins = operations(history, situation.tables.stacks)
        own = np.flatnonzero(copies)
        gone = away(history, own, np.append(begins, history.events)[run[own] + 1])
        # Each call casts its weights again: at worst the largest are live at the new peak.
        largest = int(np.bincount(run[copies], weights=situation.at_worst[copies]).max())
        yield Change("autocast-cache", copies, (gone,), (gone,), (everything,), extra=largest)

    starts = np.append(situation.passes.of(FORWARD)[0], history.events)
    weights = situation.of(PARAMETER)
    weights[weights] = is_among(rows.size[weights], 2 * unique(rows.size[copies & live]))
    # The model is made, or loaded, in full precision, and then converted, a weight at a time.
    halved = np.flatnonzero(weights & (rows.free_requested_event > starts[0]))
    half = Edit(
        halved, np.full(len(halved), 0.5),
        np.maximum(starts[0], rows.alloc_event[halved]), rows.free_requested_event[halved],
    )  # fmt: skip
    results = situation.of(FORWARD_TEMPORARY, INPUT, CACHE, ACTIVATION, UNKNOWN, BUFFER, PARAMETER)
    yield Change(
        "low-precision-weights", copies | weights, (half, everything), (half, everything),
        (scaled(history, results, 0.5), everything),
        extra=situation.largest(weights, 0.5),
    )  # fmt: skip


def _go_with_a_graph(situation: Situation, copies: NDArray[np.bool_]) -> bool:
    """Say whether copies of weights are freed with a graph, not only when autocast's block ends.

    An operation that was given a copy then keeps what else it was given or made.
    """
    rows = situation.history.allocations
    allocates = np.zeros(situation.history.events + 1, np.int64)
    allocates[rows.alloc_event[rows.alloc_event > START]] = 1
    # Allocations before a free: the same number for all that is freed in a row.
    turn = np.cumsum(allocates)[rows.free_requested_event]
    others = (situation.passes.made == FORWARD) & ~situation.of(WEIGHT_COPY) & situation.live()
    others[others] = is_among(turn[others], unique(turn[copies]))
    return bool(_PER_RESULT * others.sum() >= copies.sum())


def _release_outputs(situation: Situation) -> Change:
    """Free outputs, which the program holds until after the backward pass, before it."""
    rows = situation.history.allocations
    held = situation.of(FORWARD_TEMPORARY) & (rows.free_requested_event > situation.next_backward)
    own = np.flatnonzero(held)
    edit = away(situation.history, own, situation.next_backward[own])
    return Change("free-earlier", held, (), (edit,), (edit,), about="outputs")


def _stop_leaks(situation: Situation) -> Iterator[Change]:
    """Free what each step keeps forever when the next step reaches the same line."""
    rows = situation.history.allocations
    kept = (rows.free_requested_event >= situation.history.events) & (rows.alloc_event > START)
    kept &= situation.of(ACTIVATION, FORWARD_TEMPORARY, UNKNOWN)
    at = np.flatnonzero(kept)
    at = at[np.lexsort((rows.alloc_event[at], rows.size[at], rows.stack[at]))]
    if not len(at):
        return
    new = np.append(True, (np.diff(rows.stack[at]) != 0) | (np.diff(rows.size[at]) != 0))
    group = np.cumsum(new) - 1
    # Count forward passes, not allocations: one pass keeps much until its own backward.
    turn = np.searchsorted(situation.passes.of(FORWARD)[0], rows.alloc_event[at], side="right")
    fresh = new | np.append(True, np.diff(turn) != 0)
    often = (np.bincount(group, weights=fresh) >= LEAKS)[group]
    again = np.flatnonzero(np.append(~new[1:], False) & often)  # the line makes another
    leaked = _mask(rows, at[often])
    sure = away(situation.history, at[again], rows.alloc_event[at[again + 1]])
    everything = scaled(situation.history, leaked, 1.0)
    yield Change("leak", leaked, (sure,), (everything,), (everything,))
