"""Infer roles of blocks from before the recording, mainly from sizes shared with gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import START, Allocations, DeviceHistory
from snapreport.model.roles import (
    ACTIVATION,
    BACKWARD_TEMPORARY,
    COMMUNICATION,
    FORWARD_TEMPORARY,
    GRADIENT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    STATE,
    UNKNOWN,
)
from snapreport.roles.bucket_sums import NUMBER, find_buckets
from snapreport.roles.judge import Judge
from snapreport.roles.parameter_sets import (
    Sizes,
    States,
    find_states,
    in_layers,
    sizes_of,
    sort_into_sets,
    usual_sets,
)
from snapreport.roles.passes import BACKWARD, FORWARD, OPTIMIZER, Passes
from snapreport.roles.stack_phases import (
    CLEARS,
    FILLS_BUCKETS,
    IN_BACKWARD,
    IN_DDP,
    IN_OPTIMIZER,
    ONE_STATE,
)

_BEFORE = "from before the recording, "
_SETS = {
    PARAMETER: _BEFORE + "in the sizes of parameters",
    GRADIENT: _BEFORE + "a second set in the sizes of parameters",
    UNKNOWN: _BEFORE + "a second set in the sizes of parameters, of gradients or of states",
}
_BUCKETS = {
    GRADIENT: _BEFORE + "DDP's buckets by their sum, and no gradients beside them",
    COMMUNICATION: _BEFORE + "DDP's buckets by their sum, to copy gradients into",
}
_STATES = _BEFORE + "a further set in the sizes of parameters"
_OTHER_STATES = _BEFORE + "a set in the sizes of parameters, but in another precision"
_COPIES = _BEFORE + "one set more, as of a copy of the model"
_LEAKED = _BEFORE + "in a size of which forward passes keep more and more"
_LAYERS = _BEFORE + "in sizes that come as often as layers"
_AMONG = _BEFORE + "among parameters"


_OF_CHANNELS = 8 << 10
"""The most bytes of a tensor with one number per channel."""


def match_baseline(
    judge: Judge,
    history: DeviceHistory,
    passes: Passes,
    marks: NDArray[np.int32],
    free_marks: NDArray[np.int32],
) -> None:
    """Assign roles to blocks that were live at the start, as far as they can be inferred."""
    rows = history.allocations
    start = rows.alloc_event == START
    judge.give(
        start & (marks & IN_OPTIMIZER != 0), STATE, _BEFORE + "made in an optimizer step", 0.9
    )
    judge.give(start & (marks & IN_BACKWARD != 0), GRADIENT, _BEFORE + "made in backward", 0.8)
    gone = rows.free_requested_event
    cleared = start & (free_marks & CLEARS != 0)
    judge.give(cleared, GRADIENT, _BEFORE + "freed by zero_grad", 0.9)
    in_backward = start & passes.covers(BACKWARD, gone)
    judge.give(in_backward, ACTIVATION, _BEFORE + "freed in backward", 0.8)
    in_step = start & passes.covers(OPTIMIZER, gone)
    judge.give(in_step, STATE, _BEFORE + "replaced in an optimizer step", 0.8)
    kept = start & (gone >= history.events)
    if passes.train:
        _match_sizes(judge, history, passes, kept, marks)
    elif (passes.phase == FORWARD).any():
        judge.give(kept, PARAMETER, "from before a recording of forward passes alone", 0.5)


def _match_sizes(
    judge: Judge,
    history: DeviceHistory,
    passes: Passes,
    kept: NDArray[np.bool_],
    marks: NDArray[np.int32],
) -> None:
    """Assign roles to blocks that no training step frees, by how many there are of each size.

    Args:
        judge: assigns the roles.
        passes: of the device.
        kept: bool, shape (n_allocations,): the blocks.
        marks: int32, shape (n_allocations,): the marks of their call stacks.
    """
    rows = history.allocations
    made = (judge.role == GRADIENT) & (marks & FILLS_BUCKETS == 0)
    left = _Left(judge, rows, kept)
    leaks = _kept_by_passes(judge, history, passes)
    if made.any():
        sizes = _most_at_once(history, np.flatnonzero(made))
        if (marks & IN_DDP).any():
            _give_buckets(left, find_buckets(left.sizes, sizes), COMMUNICATION)
        ended = bool((made & (rows.free_requested_event < history.events)).any())
        # If no gradient is ever freed, some may be from before the recording, too.
        others = (PARAMETER, _COPIES) if ended else (GRADIENT, _SETS[GRADIENT])
        _match_sets(left, sizes, (PARAMETER,), others, leaks)
    else:  # gradients are never made again; the optimizer's temporaries have their sizes
        sizes, first = _never_made(judge, history, passes, left, marks)
        _match_sets(left, sizes, first, (PARAMETER, _COPIES), leaks)
    for role, size in leaks.items():
        left.give_sizes(size, role, _LEAKED, 0.6)
    if not made.any() or not (passes.phase[:-1] == BACKWARD).any():
        return  # gradients, or memory that a backward pass still needs, may be among these
    left.give_sizes(in_layers(left.sizes), PARAMETER, _LAYERS, 0.5)
    known = rows.addr[(rows.alloc_event == START) & (judge.role == PARAMETER)]
    if len(known):
        among = (rows.addr > known.min()) & (rows.addr < known.max())
        left.give_rows(np.flatnonzero(left.chosen & among), PARAMETER, _AMONG, 0.5)


def _never_made(
    judge: Judge, history: DeviceHistory, passes: Passes, left: _Left, marks: NDArray[np.int32]
) -> tuple[Sizes, tuple[int, ...]]:
    """Return the sizes of parameters without new gradients, and the sets before the states.

    Their gradients are set to zero in place, or are in DDP's buckets. Besides buckets, one further
    set is of states; of two, one may be of gradients that are copied into the buckets. Adam has two
    states, SGD one.
    """
    of_steps = _most_in_a_step(judge, history, passes)
    in_place = (PARAMETER, GRADIENT)
    if not (marks & IN_DDP).any():
        return of_steps, in_place
    blocks = left.sizes
    if (of_steps.size > NUMBER).any():
        buckets = find_buckets(blocks, of_steps)
        if buckets is None and not (marks[judge.role == GRADIENT] & FILLS_BUCKETS).any():
            return of_steps, in_place
        of_one = bool((marks & ONE_STATE).any())
        further = usual_sets(blocks.less(buckets), of_steps) - 1
        first = in_place if further > (1 if of_one else 2) else (PARAMETER,)
        _give_buckets(left, buckets, COMMUNICATION if first == in_place else GRADIENT)
        return of_steps, first
    of_passes = _most_in_a_pass(judge, history, passes)
    explained, sets, trained, buckets = 0, 0, of_steps, None
    for n in (3, 2, 1):
        count = np.minimum(blocks.count // n, of_passes.of(blocks.size))
        guess = Sizes(blocks.size[count > 0], count[count > 0])
        # Buffers of normalization have the sizes of parameters, too.
        found = find_buckets(blocks, guess, _OF_CHANNELS)
        if found is not None and (n + 1) * found.bytes > explained:
            explained, sets, trained, buckets = (n + 1) * found.bytes, n, guess, found
    if buckets is None:
        return of_steps, in_place
    _give_buckets(left, buckets, COMMUNICATION if sets == 3 else GRADIENT)
    return trained, (PARAMETER, UNKNOWN) if sets == 3 else (PARAMETER,)


def _match_sets(
    left: _Left,
    parameters: Sizes,
    first: tuple[int, ...],
    others: tuple[int, str],
    leaks: dict[int, NDArray[np.int64]],
) -> None:
    """Assign roles to blocks that have the sizes of parameters and states.

    Args:
        left: the blocks.
        parameters: the sizes of the parameters.
        first: the roles of the sets that come before the states.
        others: role and text for all further sets.
        leaks: by role, sizes of which the program keeps more and more blocks.
    """
    leaking = np.concatenate([*leaks.values()])
    states = States(0)
    if 2 * left.known_states < (parameters.size * parameters.count).sum():
        states = find_states(left.sizes.without(leaking), parameters.without(leaking), len(first))
    sets = sort_into_sets(left.rows, left.chosen, parameters, len(first), states, leaking)
    text = _STATES if states.times == states.parts else _OTHER_STATES
    left.give_rows(sets.rows[sets.is_state], STATE, text, 0.7)
    for k, role in enumerate(first):
        left.give_rows(sets.rows[sets.turn == k], role, _SETS[role], 0.7)
    left.give_rows(sets.rows, *others, 0.6)


def _give_buckets(left: _Left, buckets: Sizes | None, role: int) -> None:
    """Assign a role to DDP's buckets: the blocks at the highest addresses of each size."""
    if buckets is None:
        return
    at = np.flatnonzero(left.chosen)
    at = at[np.lexsort((-left.rows.addr[at], left.rows.size[at]))]
    size = left.rows.size[at]
    place = np.arange(len(at)) - np.searchsorted(size, size)
    left.give_rows(at[place < buckets.of(size)], role, _BUCKETS[role], 0.8)


class _Left:
    """The blocks that have no role yet."""

    def __init__(self, judge: Judge, rows: Allocations, blocks: NDArray[np.bool_]) -> None:
        self._judge, self.rows, self._blocks = judge, rows, blocks

    @property
    def known_states(self) -> int:
        """Bytes of optimizer states from before the recording that already have the role."""
        start = self.rows.alloc_event == START
        return int(self.rows.size[start & (self._judge.role == STATE)].sum())

    @property
    def chosen(self) -> NDArray[np.bool_]:
        """Whether each allocation is one of them; bool, shape (n_allocations,)."""
        found: NDArray[np.bool_] = self._blocks & (self._judge.role == UNKNOWN)
        return found

    @property
    def sizes(self) -> Sizes:
        """How many blocks there are of each size."""
        return sizes_of(self.rows, self.chosen)

    def give_rows(self, rows: NDArray[np.intp], role: int, text: str, sure: float) -> None:
        """Assign a role to the blocks among some rows."""
        there = np.zeros(len(self.rows), np.bool_)
        there[rows] = True
        self._judge.give(self.chosen & there, role, text, sure)

    def give_sizes(self, size: NDArray[np.int64], role: int, text: str, sure: float) -> None:
        """Assign a role to the blocks of some sizes."""
        self._judge.give(self.chosen & np.isin(self.rows.size, size), role, text, sure)


def _kept_by_passes(
    judge: Judge, history: DeviceHistory, passes: Passes
) -> dict[int, NDArray[np.int64]]:
    """Return, by role, the sizes of memory that forward passes made and nothing freed."""
    rows = history.allocations
    last = passes.of(BACKWARD)[0][-1:].max(initial=START)
    kept = (rows.alloc_event > START) & (rows.alloc_event < last)
    kept &= rows.free_requested_event >= history.events
    roles = (ACTIVATION, FORWARD_TEMPORARY)
    return {role: np.unique(rows.size[kept & (judge.role == role)]) for role in roles}


def _most_at_once(history: DeviceHistory, chosen: NDArray[np.intp]) -> Sizes:
    """Return the sizes of some allocations, and how many of each are live at once at most."""
    rows = history.allocations
    size = np.concatenate([rows.size[chosen]] * 2)
    event = np.concatenate([rows.alloc_event[chosen], rows.free_requested_event[chosen]])
    change = np.repeat([1, -1], len(chosen))
    order = np.lexsort((change, event, size))
    live = np.cumsum(change[order])  # each size ends at 0
    return Sizes.most(size[order], live)


def _most_in_a_pass(judge: Judge, history: DeviceHistory, passes: Passes) -> Sizes:
    """Return the sizes of backward's temporaries, and how many of each a pass makes at most."""
    rows = history.allocations
    made = np.flatnonzero(judge.role == BACKWARD_TEMPORARY)
    turn = np.searchsorted(passes.of(BACKWARD)[0], rows.alloc_event[made], side="right")
    keys, count = np.unique(np.stack([rows.size[made], turn]), axis=1, return_counts=True)
    return Sizes.most(keys[0], count)


def _most_in_a_step(judge: Judge, history: DeviceHistory, passes: Passes) -> Sizes:
    """Return the sizes of optimizer temporaries, and how many of each a line makes in a step.

    An optimizer's operation makes one temporary per parameter.
    """
    rows = history.allocations
    made = np.flatnonzero(judge.role == OPTIMIZER_TEMPORARY)
    step = np.searchsorted(passes.of(OPTIMIZER)[0], rows.alloc_event[made], side="right")
    keys, count = np.unique(
        np.stack([rows.size[made], rows.stack[made], step]), axis=1, return_counts=True
    )
    return Sizes.most(keys[0], count)
