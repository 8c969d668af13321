"""Calls of a model that keep a graph for a backward pass that never came, and their number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.call_blocks import program_call
from snapreport.diagnosis.advice.edits import Calls
from snapreport.diagnosis.advice.situation import Situation
from snapreport.ground.memoize import once_for_each
from snapreport.model.history import START
from snapreport.model.roles import ACTIVATION
from snapreport.model.stacks import StackTable
from snapreport.native.sorting import is_among, stable_order, unique
from snapreport.roles.loop_period import parts_of_steps
from snapreport.roles.passes import FORWARD

LEAKS = 3
"""A line whose memory is kept in this many forward passes is taken to leak in every step."""
_NEARLY_ALL = 0.8
"""Memory grows with calls if at least this part of them keep it, not only the last few."""
_VISIBLE, _SMALL = 0.01, 1 << 20
"""That is worth a finding from this part of the peak, and these bytes, on."""


@once_for_each
def graph_calls(situation: Situation) -> Calls:
    """Return how often the program called its model, where no backward pass followed any call.

    What comes once in a call, such as an embedding, comes as often as there are calls.
    """
    rows, stacks = situation.history.allocations, situation.tables.stacks
    starts = situation.passes.of(FORWARD)[0]
    kept = np.flatnonzero(situation.of(ACTIVATION) & (rows.alloc_event > START) & (rows.stack >= 0))
    if not len(kept):
        return Calls(-1, starts, 0, kept, 0, may_train=False)
    kept = kept[stable_order(rows.alloc_event[kept])]
    stack, count = np.unique(rows.stack[kept], return_counts=True)
    # A call or two may take another way through C++, so the most call stacks decide.
    often = int(np.bincount(count[count < 2 * count.min()]).argmax())
    once = is_among(rows.stack[kept], stack[count == often])
    if often > 1 and (count.max() > often or _in_several_parts(stacks, stack)):
        at = np.flatnonzero(rows.stack[kept] == rows.stack[kept[once][0]])
        if at[0]:  # it does not begin a call, so it ends it
            at = np.append(0, at[:-1] + 1)
        starts = rows.alloc_event[kept[at]]
    heaviest = np.bincount(rows.stack[kept], weights=rows.block_size[kept]).argmax()
    live = kept[situation.live()[kept]]
    calls = len(unique(np.searchsorted(starts, rows.alloc_event[kept], side="right")))
    alive = len(unique(np.searchsorted(starts, rows.alloc_event[live], side="right")))
    held = int(rows.block_size[live].sum()) // max(alive, 1)
    to_the_end = bool((rows.free_requested_event[live] >= situation.history.events).any())
    return Calls(
        program_call(stacks, int(heaviest)), starts, held if alive >= LEAKS else 0, live, alive,
        may_train=calls < LEAKS and to_the_end,
    )  # fmt: skip


def _in_several_parts(stacks: StackTable, chosen: NDArray[np.int32]) -> bool:
    """Say whether call stacks pass through several lines of a model: the loop is around its calls.

    Layers that a model calls in a loop all pass through one.
    """
    return len(unique(parts_of_steps(stacks)[stacks.stack_node[chosen]])) > 1


def growing_calls(situation: Situation) -> Calls | None:
    """Return the calls of a model that keep their graphs, where memory grows with each.

    Returns:
        None where there is a backward pass, or only the last few calls keep theirs, or little.
    """
    if situation.trains:
        return None
    calls, sizes = graph_calls(situation), situation.history.allocations.block_size
    least = max(_VISIBLE * situation.peak, _SMALL)
    much = int(sizes[calls.rows].sum()) >= least
    return calls if calls.kept and calls.held >= _NEARLY_ALL * len(calls.starts) and much else None
