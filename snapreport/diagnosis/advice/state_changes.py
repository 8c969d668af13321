"""Changes to the optimizer, its state and gradients: what each takes from the history."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.edits import Change, Edit, away, scaled
from snapreport.diagnosis.advice.situation import Situation
from snapreport.ground.memoize import once_for_each
from snapreport.model.history import START
from snapreport.model.roles import GRADIENT, OPTIMIZER_TEMPORARY, PARAMETER, STATE
from snapreport.model.stacks import FrameTable
from snapreport.native.sorting import is_among, unique
from snapreport.roles.passes import BACKWARD, FORWARD, OPTIMIZER
from snapreport.roles.stack_phases import FEW_BITS, FUSES

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
_KEEPS_HISTORY = re.compile(r"torch[/\\]optim[/\\]lbfgs\.py$")
_GROWS = 3
"""A line that makes state in this many steps, and keeps it all, is taken to add to it in each."""
_LONG = 200


def optimizer_changes(situation: Situation) -> Iterator[Change]:
    """Yield what can be changed about the optimizer, its state and gradients.

    Args:
        situation: of a program that trains.
    """
    yield _temporaries(situation)
    yield _low_bit_state(situation)
    yield from _shard_state(situation)
    if situation.to_host:
        yield from _offload_state(situation)
    yield _clear_gradients(situation)


def state_depends_on_data(situation: Situation) -> bool:
    """Say whether steps add to the optimizer's state, by amounts that depend on data (LBFGS)."""
    if any(_KEEPS_HISTORY.search(name) for name in situation.tables.stacks.frames.filenames):
        return True
    rows = situation.history.allocations
    at = np.flatnonzero(situation.of(STATE) & situation.live() & (rows.alloc_event > START))
    turn = np.searchsorted(situation.passes.of(FORWARD)[0], rows.alloc_event[at], side="right")
    once = np.unique(np.stack([rows.stack[at], rows.size[at], turn]), axis=1)[:2]
    _, turns = np.unique(once, axis=1, return_counts=True)
    return int(turns.max(initial=0)) >= _GROWS


def _temporaries(situation: Situation) -> Change:
    """Update parameters in one fused operation, in those of PyTorch's optimizers that can."""
    temporary = situation.of(OPTIMIZER_TEMPORARY) & (situation.marks & FUSES != 0)
    all_of_them = scaled(situation.history, temporary, 1.0)
    return Change("fused-optimizer", temporary, (), (all_of_them,), (all_of_them,))


def _low_bit_state(situation: Situation) -> Change:
    """Keep the optimizer's state in 16 bits; what is small, such as a count of steps, stays."""
    state = situation.of(STATE) & (situation.marks & FEW_BITS == 0)
    large = _large(situation, state)
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


def _large(situation: Situation, state: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which state tensors have the size of a parameter."""
    rows = situation.history.allocations
    large = state & (rows.block_size >= _SMALL)
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
    large = scaled(history, _large(situation, state), 1.0)
    everything = scaled(history, state, 1.0)
    temporary = scaled(history, situation.of(OPTIMIZER_TEMPORARY), 1.0)
    yield Change(
        "offload", state,
        (large, _one_by_one(situation, state, _COPIES)),
        (everything, temporary),
        (everything, temporary),
    )  # fmt: skip


@once_for_each
def _files(frames: FrameTable) -> frozenset[str]:
    return frozenset(file[-_LONG:] for file in frames.filenames)


def _has(frames: FrameTable, pattern: re.Pattern[str]) -> bool:
    """Say whether the name of any file of these frames matches a pattern."""
    return any(pattern.search(file) for file in _files(frames))


def _clear_gradients(situation: Situation) -> Change:
    """Free gradients before the next forward pass instead of after it."""
    rows = situation.history.allocations
    starts = situation.passes.of(FORWARD)[0]
    gradient = situation.of(GRADIENT)
    # The next optimizer step reads them last, however many passes come before it.
    events, steps = situation.history.events, situation.passes.of(OPTIMIZER)[1]
    ends = np.append(steps, events)
    used = ends[np.searchsorted(steps, rows.alloc_event)] if len(steps) else rows.alloc_event
    begin = np.append(starts, events)[np.searchsorted(starts, used, side="right")]
    late = gradient & (rows.free_requested_event > begin)
    if not len(steps):  # gradients freed before the next backward pass are not accumulated
        backward = situation.passes.of(BACKWARD)[0]
        added = np.append(backward, events)[np.searchsorted(backward, begin)]
        late &= rows.free_requested_event < added
    edit = away(situation.history, late, begin, rows.free_requested_event)
    return Change("free-earlier", late, (edit,), (edit,), (edit,), about="gradients")
