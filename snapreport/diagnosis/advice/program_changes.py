"""Changes to a program, each as what it takes from the history: at least, as expected, at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snapreport.diagnosis.advice.call_blocks import Blocks
from snapreport.diagnosis.advice.edits import Edit, away, edited_peak, scaled
from snapreport.diagnosis.advice.situation import Situation, latest_free_after
from snapreport.model.roles import (
    ACTIVATION,
    BACKWARD_TEMPORARY,
    BUFFER,
    FORWARD_TEMPORARY,
    GRADIENT,
    INPUT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    STATE,
)
from snapreport.roles.passes import FORWARD
from snapreport.roles.stack_phases import RECOMPUTES

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Change:
    """One change, and what it would take from the history."""

    code: str
    acts_on: NDArray[np.bool_]
    """bool, shape (n_allocations,)."""
    least: tuple[Edit, ...]
    expected: tuple[Edit, ...]
    most: tuple[Edit, ...]
    about: str = ""
    blocks: Blocks | None = None
    extra: int = 0
    """Bytes that the change itself may need on top, at the worst."""


def find_changes(situation: Situation) -> Iterator[Change]:
    """Yield the changes whose conditions the recording meets."""
    yield from _checkpoint(situation)
    yield from _smaller_batch(situation)
    yield from _optimizer_temporaries(situation)
    yield from _low_bit_state(situation)
    yield from _clear_gradients(situation)


def _checkpoint(situation: Situation) -> Iterator[Change]:
    """Keep of each block only what the next one is given; make the rest again in backward."""
    again = situation.marks & RECOMPUTES != 0
    if not situation.trains or (again & situation.live()).any():
        return
    best: tuple[int, Change] | None = None
    for blocks in situation.blocks:
        change = _of_blocks(situation, blocks)
        left = edited_peak(situation.history, situation.curve, change.expected)[0]
        if best is None or left < best[0]:
            best = left, change
    if best is not None:
        yield best[1]


def _of_blocks(situation: Situation, blocks: Blocks) -> Change:
    history, rows = situation.history, situation.history.allocations
    n = len(blocks)
    born = rows.alloc_event[blocks.rows]
    last = np.full(n, -1, np.int64)
    np.maximum.at(last, blocks.instance, born)
    activation = situation.of(ACTIVATION)
    stays = activation[blocks.rows] & (
        rows.free_requested_event[blocks.rows] > last[blocks.instance]
    )
    own, of = blocks.rows[stays], blocks.instance[stays]
    first_free = np.full(n, history.events, np.int64)
    np.minimum.at(first_free, of, rows.free_requested_event[own])
    begins = np.minimum(first_free, latest_free_after(situation, activation)[last])
    begins = np.where(begins > last, begins, first_free)
    begin, end = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    begin[own], end[own] = last[of] + 1, begins[of]
    # The last of a block's tensors is what the next block is given, and stays.
    output = np.zeros(len(rows), np.bool_)
    output[own[np.append(of[1:] != of[:-1], True)]] = True
    chosen = np.zeros(len(rows), np.bool_)
    chosen[own] = True
    expected = away(history, chosen & ~output, begin, end)
    largest = np.zeros(len(rows), np.bool_)
    order = np.lexsort((rows.block_size[own], of))
    largest[own[order][np.append(of[order][1:] != of[order][:-1], True)]] = True
    least = away(history, chosen & ~output & ~largest, begin, end)
    made = np.zeros(len(rows), np.bool_)
    made[blocks.rows] = True
    extra = int(np.bincount(of, weights=rows.block_size[own], minlength=n).max(initial=0))
    return Change(
        "checkpoint",
        chosen,
        (least,),
        (expected,),
        (scaled(history, made & activation, 1.0),),
        blocks=blocks,
        extra=extra,
    )


def _smaller_batch(situation: Situation) -> Iterator[Change]:
    """Halve what grows with the batch."""
    if not situation.trains:
        return
    history, rows = situation.history, situation.history.allocations
    fixed = situation.of(PARAMETER, BUFFER, GRADIENT, STATE, OPTIMIZER_TEMPORARY)
    # Gradients of parameters are also made to be added to those that are there.
    like = rows.stack.astype(np.int64) * (1 << 40) + np.minimum(rows.size, (1 << 40) - 1)
    weights = np.isin(like, np.unique(like[situation.of(GRADIENT)]))
    grows = situation.of(ACTIVATION, INPUT, FORWARD_TEMPORARY, BACKWARD_TEMPORARY) & ~weights
    sure = situation.of(ACTIVATION) & ~weights
    yield Change(
        "smaller-batch",
        grows,
        (scaled(history, sure, 0.5),),
        (scaled(history, grows, 0.5),),
        (scaled(history, ~fixed, 0.5),),
    )


def _optimizer_temporaries(situation: Situation) -> Iterator[Change]:
    temporary = situation.of(OPTIMIZER_TEMPORARY)
    all_of_them = scaled(situation.history, temporary, 1.0)
    yield Change("fused-optimizer", temporary, (all_of_them,), (all_of_them,), (all_of_them,))


def _low_bit_state(situation: Situation) -> Iterator[Change]:
    state = situation.of(STATE)
    half = scaled(situation.history, state, 0.5)
    yield Change("low-bit-state", state, (half,), (half,), (half,))


def _clear_gradients(situation: Situation) -> Iterator[Change]:
    """Free gradients before the forward pass, not after it."""
    rows = situation.history.allocations
    starts = situation.passes.of(FORWARD)[0]
    gradient = situation.of(GRADIENT)
    begin = np.append(starts, situation.history.events)[np.searchsorted(starts, rows.alloc_event)]
    late = gradient & (rows.free_requested_event > begin)
    edit = away(situation.history, late, begin, rows.free_requested_event)
    yield Change("free-earlier", late, (edit,), (edit,), (edit,), about="gradients")
