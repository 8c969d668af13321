"""Roles of blocks from before the recording, told by sizes that gradients repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from snapreport.model.history import START, DeviceHistory
from snapreport.model.roles import (
    ACTIVATION,
    GRADIENT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    STATE,
    UNKNOWN,
)
from snapreport.roles.passes import BACKWARD, FORWARD, OPTIMIZER, Passes
from snapreport.roles.stack_phases import BUILDS, CLEARS, IN_BACKWARD, IN_OPTIMIZER

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SETS = {
    PARAMETER: "from before the recording, in the sizes of parameters",
    GRADIENT: "from before the recording, a second set in the sizes of parameters",
    STATE: "from before the recording, a further set in the sizes of parameters",
}


class Judge(Protocol):
    """Who gives the roles."""

    role: NDArray[np.int8]

    def give(self, chosen: NDArray[np.bool_], role: int, text: str, confidence: float) -> None:
        """Give the chosen allocations a role, but for those that have one."""


def match_baseline(
    judge: Judge,
    history: DeviceHistory,
    passes: Passes,
    marks: NDArray[np.int32],
    free_marks: NDArray[np.int32],
) -> None:
    """Give blocks that were live at the start roles, as far as stacks, frees and sizes tell.

    Each parameter has a gradient of its size. So of the blocks of a size, as many as gradients
    are live at once are parameters, and further sets are an optimizer's state. Equal
    blocks cannot be told apart, but the bytes of each set can be counted.
    """
    rows = history.allocations
    start = rows.alloc_event == START
    text = "from before the recording, made "
    judge.give(start & (marks & IN_OPTIMIZER != 0), STATE, text + "in an optimizer step", 0.9)
    judge.give(start & (marks & IN_BACKWARD != 0), GRADIENT, text + "in backward", 0.8)
    judge.give(start & (marks & BUILDS != 0), PARAMETER, text + "while the model was built", 0.9)
    in_backward, in_step = (
        passes.covers(BACKWARD, rows.free_requested_event),
        passes.covers(OPTIMIZER, rows.free_requested_event),
    )
    cleared = start & (free_marks & CLEARS != 0)
    judge.give(cleared, GRADIENT, "from before the recording, freed by zero_grad", 0.9)
    judge.give(start & in_backward, ACTIVATION, "from before the recording, freed in backward", 0.8)
    judge.give(
        start & in_step, STATE, "from before the recording, replaced in an optimizer step", 0.8
    )
    before = start & (rows.free_requested_event >= history.events)
    if not passes.train:
        inference = before & bool((passes.phase == FORWARD).any())
        judge.give(inference, PARAMETER, "from before a recording of forward passes alone", 0.5)
        return
    made = np.flatnonzero(judge.role == GRADIENT)
    kept = before & (judge.role == UNKNOWN)
    if len(made):
        _match_sets(judge, history, kept, *_most_at_once(history, made), (PARAMETER, STATE, STATE))
    else:  # cleared in place, so never made again; the optimizer's temporaries have their sizes
        sets = (PARAMETER, GRADIENT, STATE, STATE)
        _match_sets(judge, history, kept, *_most_in_a_step(judge, history, passes), sets)


def _match_sets(
    judge: Judge,
    history: DeviceHistory,
    kept: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    count: NDArray[np.int64],
    sets: tuple[int, ...],
) -> None:
    """Give blocks the roles of sets of tensors in which each size comes equally often.

    Args:
        judge: who gives the roles.
        history: the device.
        kept: bool, shape (n_allocations,): the blocks.
        sizes: int64, shape (n,), ascending: of parameters.
        count: int64, shape (n,): how many parameters have each size.
        sets: the role of the first set, and of each further one if it is whole.
    """
    rows = history.allocations
    at = np.flatnonzero(kept)
    if not len(at) or not len(sizes):
        return
    order = at[np.lexsort((rows.addr[at], rows.size[at]))]
    size = rows.size[order]
    place = np.minimum(np.searchsorted(sizes, size), len(sizes) - 1)
    known = sizes[place] == size
    turn = (np.arange(len(size)) - np.searchsorted(size, size)) // np.maximum(count[place], 1)
    for k, role in enumerate(sets):
        chosen = np.zeros(len(rows), np.bool_)
        chosen[order[known & (turn == k)]] = True
        judge.give(chosen, role, _SETS[role], 0.7)


def _most_at_once(
    history: DeviceHistory, chosen: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes of some allocations, ascending, and the most of each live at once."""
    rows = history.allocations
    size = np.concatenate([rows.size[chosen]] * 2)
    event = np.concatenate([rows.alloc_event[chosen], rows.free_requested_event[chosen]])
    change = np.repeat([1, -1], len(chosen))
    order = np.lexsort((change, event, size))
    sizes, first = np.unique(size[order], return_index=True)
    live = np.cumsum(change[order])  # each size ends at 0
    return sizes, np.maximum.reduceat(live, first).astype(np.int64)


def _most_in_a_step(
    judge: Judge, history: DeviceHistory, passes: Passes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes of an optimizer's temporaries, ascending, and how many each line makes.

    One operation of an optimizer makes one temporary for each parameter.
    """
    rows = history.allocations
    made = np.flatnonzero(judge.role == OPTIMIZER_TEMPORARY)
    step = np.searchsorted(passes.of(OPTIMIZER)[0], rows.alloc_event[made], side="right")
    keys, count = np.unique(
        np.stack([rows.size[made], rows.stack[made], step]), axis=1, return_counts=True
    )
    sizes, first = np.unique(keys[0], return_index=True)
    return sizes, np.maximum.reduceat(count, first).astype(np.int64) if len(first) else count
