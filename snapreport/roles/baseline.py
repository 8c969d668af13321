"""Roles of blocks from before the recording, told by sizes that gradients repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from snapreport.model.history import START, DeviceHistory
from snapreport.model.roles import ACTIVATION, GRADIENT, PARAMETER, STATE
from snapreport.roles.passes import BACKWARD, OPTIMIZER, Passes
from snapreport.roles.stack_phases import BACKWARD as BACK
from snapreport.roles.stack_phases import BUILDS, CLEARS
from snapreport.roles.stack_phases import OPTIMIZER as OPTIMIZES

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    are live at once are parameters, and further whole sets are an optimizer's state.
    """
    rows = history.allocations
    start = rows.alloc_event == START
    text = "from before the recording, made "
    judge.give(start & (marks & OPTIMIZES != 0), STATE, text + "in an optimizer step", 0.9)
    judge.give(start & (marks & BACK != 0), GRADIENT, text + "in backward", 0.8)
    judge.give(start & (marks & BUILDS != 0), PARAMETER, text + "while the model was built", 0.9)
    in_backward, in_step = (
        _freed_in(history, passes, BACKWARD),
        _freed_in(history, passes, OPTIMIZER),
    )
    cleared = start & (free_marks & CLEARS != 0)
    judge.give(cleared, GRADIENT, "from before the recording, freed by zero_grad", 0.9)
    judge.give(start & in_backward, ACTIVATION, "from before the recording, freed in backward", 0.8)
    judge.give(
        start & in_step, STATE, "from before the recording, replaced in an optimizer step", 0.8
    )
    before = start & (rows.free_requested_event >= history.events)
    made = np.flatnonzero(judge.role == GRADIENT)
    if not before.any() or not len(made):
        return
    sizes, count = _most_at_once(history, made)
    parameter = np.zeros(len(rows), np.bool_)
    state = np.zeros(len(rows), np.bool_)
    at = np.flatnonzero(before)
    order = at[np.lexsort((rows.addr[at], rows.size[at]))]
    size = rows.size[order]
    place = np.searchsorted(sizes, size)
    known = np.append(sizes, -1)[np.minimum(place, len(sizes))] == size
    rank = np.arange(len(size)) - np.searchsorted(size, size)
    wanted = np.append(count, 0)[np.minimum(place, len(sizes))]
    parameter[order[known & (rank < wanted)]] = True
    state[order[known & (rank >= wanted) & (rank < 3 * wanted)]] = True
    judge.give(parameter, PARAMETER, "from before the recording, with a gradient of its size", 0.8)
    judge.give(
        state, STATE, "from before the recording, a further set of the parameters' sizes", 0.7
    )


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


def _freed_in(history: DeviceHistory, passes: Passes, phase: int) -> NDArray[np.bool_]:
    """Say which allocations were freed in a pass of a phase; bool, shape (n_allocations,)."""
    start, end = passes.of(phase)
    gone = history.allocations.free_requested_event
    place = np.searchsorted(start, gone, side="right") - 1
    return (place >= 0) & (gone <= np.append(end, START)[place])
