"""Infer roles of blocks from before the recording, mainly from sizes shared with gradients.

Each parameter has a gradient of its size, and an optimizer keeps the same number of states for each
parameter. So where k gradients of a size are live at once, the blocks of that size from before come
in sets of k. Models are built before the first step makes the states, so their sets are first in
memory. DDP's buckets are found by their sum: together they are as large as all parameters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import unique
from snapreport.ground.records import dataclass
from snapreport.model.history import START, DeviceHistory
from snapreport.model.roles import (
    ACTIVATION,
    BACKWARD_TEMPORARY,
    COMMUNICATION,
    FORWARD_TEMPORARY,
    GRADIENT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    ROLES,
    STATE,
    UNKNOWN,
    Evidence,
)
from snapreport.roles.passes import (
    BACKWARD,
    CLEARS,
    FILLS_BUCKETS,
    FORWARD,
    IN_BACKWARD,
    IN_DDP,
    IN_OPTIMIZER,
    ONE_STATE,
    OPTIMIZER,
    Passes,
)


class Judge:
    """Assigns roles to allocations, with evidence; the first role assigned stays."""

    def __init__(self, n: int) -> None:
        self.role = np.full(n, UNKNOWN, np.int8)
        self.evidence = np.zeros(n, np.int8)
        self.open = np.ones(n, np.bool_)
        self.seen = [Evidence("nothing tells", 0.0)]

    def give(self, chosen: NDArray[np.bool_], role: int, text: str, confidence: float) -> None:
        """Assign a role to the chosen allocations, except those that have one."""
        chosen = chosen & self.open
        if chosen.any():
            self.seen.append(Evidence(text, confidence))
            # What is open is unknown, by evidence 0. Sums have no jumps that depend on the values.
            ones = chosen.view(np.int8)
            self.role += ones * np.int8(role - UNKNOWN)
            self.evidence += ones * np.int8(len(self.seen) - 1)
            self.open ^= chosen

    def part(self, rows: NDArray[np.intp] | slice) -> Judge:
        """Return a judge of some of the allocations, which goes on: of a slice in place."""
        part = Judge(0)
        part.role, part.evidence, part.open = self.role[rows], self.evidence[rows], self.open[rows]
        part.seen = self.seen
        return part

    def join(self, rows: NDArray[np.intp], part: Judge) -> None:
        """Copy in what another judge found for some of these allocations."""
        self.role[rows], self.evidence[rows], self.open[rows] = part.role, part.evidence, part.open

    def follow(self, chosen: NDArray[np.bool_], alike: NDArray[np.int64]) -> None:
        """Assign to the chosen allocations the commonest role among those with the same number."""
        known = ~self.open & (self.role != UNKNOWN)
        kinds, count = np.unique(alike[known] * len(ROLES) + self.role[known], return_counts=True)
        order = np.argsort(count, kind="stable")  # the most comes last, and stays
        best = np.full(int(alike.max(initial=-1)) + 1, UNKNOWN, np.int8)
        best[kinds[order] // len(ROLES)] = kinds[order] % len(ROLES)
        for role in range(UNKNOWN):
            like = chosen & (best == role)[alike]
            self.give(like, role, f"as others of its call stack and size: {ROLES[role]}", 0.7)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """How many tensors of each size there are."""

    size: NDArray[np.int64]
    """int64, shape (n,), ascending; bytes that were asked for."""
    count: NDArray[np.int64]
    """int64, shape (n,)."""

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Bytes of all tensors of each size; int64, shape (n,)."""
        return self.size * self.count

    @classmethod
    def most(cls, size: NDArray[np.int64], count: NDArray[np.int64]) -> _Sizes:
        """Return the highest count of each size.

        Args:
            size: int64, shape (n,), ascending.
            count: int64, shape (n,).
        """
        sizes, first = np.unique(size, return_index=True)
        return cls(sizes, np.maximum.reduceat(count, first) if len(first) else count)

    def of(self, size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the count of each given size; int64, in the shape of ``size``."""
        if not len(self.size):
            return np.zeros(len(size), np.int64)
        place = np.minimum(np.searchsorted(self.size, size), len(self.size) - 1)
        return np.where(self.size[place] == size, self.count[place], 0)

    def less(self, others: _Sizes | None) -> _Sizes:
        """Return the counts minus those of others."""
        return self if others is None else _Sizes(self.size, self.count - others.of(self.size))

    def without(self, size: NDArray[np.int64]) -> _Sizes:
        """Return the counts without some sizes."""
        kept = ~np.isin(self.size, size)
        return _Sizes(self.size[kept], self.count[kept])


class _States(NamedTuple):
    """How an optimizer keeps its states."""

    each: int
    """How many states a parameter has."""
    times: int = 1
    """A state has ``times / parts`` as many bytes as the gradient."""
    parts: int = 1

    def of(self, parameters: _Sizes, size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many states have some sizes; int64, of the shape of ``size``."""
        gradient = size // self.times * self.parts
        return np.where(size % self.times == 0, self.each * parameters.of(gradient), 0)


_PRECISIONS = ((1, 1, 2), (2, 1, 3), (1, 2, 2), (1, 4, 2))
"""Size of a state relative to its gradient, as a fraction, and how many states a parameter may
have: in the same precision, as Adam's; in 32 bits for 16, including a 32-bit copy of the parameter;
in 16 or 8 bits for 32."""
_MOST_COPIES = 2
"""The most copies of the model: averaged weights, a reference model, or both."""


def _find_states(blocks: _Sizes, parameters: _Sizes, first: int) -> _States:
    """Return the kind of states that explains the counts of sizes with the most bytes exactly.

    If no kind does so for most parameters, as when a frozen model shares their sizes, the states
    are the further sets that most parameters have, at most Adam's two.

    Args:
        blocks: from before the recording, freed by no step.
        parameters: the parameters with known gradients.
        first: the least number of sets in the parameters' sizes besides the states.
    """
    size, n_blocks = blocks.size, blocks.count
    n_parameters = parameters.of(size)
    bytes_ = parameters.bytes
    further = blocks.of(parameters.size) // np.maximum(parameters.count, 1) - first
    usual = np.bincount(np.clip(further, 0, _PRECISIONS[0][2]), weights=bytes_, minlength=1)
    best, most = _States(int(usual.argmax())), 0
    for times, parts, states in _PRECISIONS:
        for each in range(states, 0, -1):
            guess = _States(each, times, parts)
            n_states = guess.of(parameters, size)
            for sets in range(first, first + _MOST_COPIES + 1):
                n = sets * n_parameters + n_states
                exact = (n_blocks == n) & (n > 0)
                explained = int((size * n_blocks)[exact].sum())
                has = np.isin(parameters.size * times // parts, size[exact & (n_states > 0)])
                has &= np.isin(parameters.size, size[exact])
                if explained > most and 2 * bytes_[has].sum() > bytes_.sum():
                    best, most = guess, explained
    return best


class _Sets(NamedTuple):
    """Blocks in the sizes of parameters and states, each with its set; all of shape (n,)."""

    rows: NDArray[np.intp]
    """The blocks, as places in those that are left."""
    turn: NDArray[np.int64]
    """0 for the first block of each parameter, 1 for the second, and so on."""
    is_state: NDArray[np.bool_]
    """Whether it is one of the states, which come last."""


def _sort_into_sets(
    left: _Left,
    parameters: _Sizes,
    first: int,
    states: _States,
    leaks: NDArray[np.int64],
) -> _Sets:
    """Sort blocks in the sizes of parameters and states into sets; others are left out.

    Args:
        left: the blocks.
        parameters: the sizes of the parameters.
        first: how many sets come before the states.
        states: of each parameter.
        leaks: int64, shape (n_leaks,): sizes of which the program keeps more and more blocks; those
            come after the states.
    """
    at = np.flatnonzero(left.chosen)
    at = at[np.lexsort((left.addr[at], left.size[at]))]
    size = left.size[at]
    begin = np.searchsorted(size, size)
    every = np.searchsorted(size, size, side="right") - begin
    before = np.arange(len(size)) - begin
    count, n_states = parameters.of(size), states.of(parameters, size)
    every = np.where(np.isin(size, leaks), np.minimum(every, first * count + n_states), every)
    # If blocks are too few for all sets, parameters have precedence.
    is_state = before >= np.maximum(every - n_states, np.minimum(first * count, every))
    there = (before < every) & ((count > 0) | is_state)
    turn = before // np.maximum(count, 1)
    return _Sets(at[there], turn[there], is_state[there])


_STACKED, _ALIKE, _IN_EACH = 2, 3, 4
"""The fewest layers of a stack, the fewest sizes that must occur equally often to show one, and the
most tensors of one size in a layer, such as the projections of its attention."""


def _in_layers(there: _Sizes) -> NDArray[np.int64]:
    """Return the sizes that occur as often as several others, or a small multiple of that."""
    found = np.zeros(len(there.count), np.bool_)
    for layers in unique(there.count[there.count >= _STACKED]).tolist():
        fits = np.isin(there.count, layers * np.arange(1, _IN_EACH + 1))
        found |= fits & (fits.sum() >= _ALIKE)
    return there.size[found]


_FIRST_CAP = 1 << 20
_MOST_SETS = 4
"""Blocks of a parameter besides its bucket: itself, its gradient, and Adam's two states."""
_NUMBER = 8
"""The most bytes of a tensor with a single number, such as an optimizer's step count."""
_DOUBTS = 0.05
"""At most this part of the parameters' bytes may be doubtful."""
_TRIES = 10_000


def _find_buckets(blocks: _Sizes, parameters: _Sizes, doubtful: int = _NUMBER) -> _Sizes | None:
    """Return how many of DDP's buckets there are of each size, None if there are none.

    Each trained parameter is in one bucket, without padding, so the buckets together are exactly as
    large as the parameters. A bucket is closed when it reaches its cap, 1 MiB for the first one, so
    only the last bucket may be smaller than that.

    Args:
        blocks: from before the recording, without a role yet.
        parameters: the trained ones.
        doubtful: in bytes; up to this size there may be fewer parameters than given.

    Source: torch/csrc/distributed/c10d/reducer.cpp, ``compute_bucket_assignment_by_size`` and
    ``initialize_buckets``.
    """
    bytes_ = parameters.bytes
    least, most = int(bytes_[parameters.size > doubtful].sum()), int(bytes_.sum())
    if most - least > _DOUBTS * most:
        return None
    for sets in range(_MOST_SETS, 0, -1):
        spare = np.maximum(blocks.count - sets * parameters.of(blocks.size), 0)
        size = np.repeat(blocks.size, spare)[::-1]
        small = [0, *unique(size[(size < _FIRST_CAP) & (size > _NUMBER)]).tolist()]
        found = _adding_up_to(least, most, size[size >= _FIRST_CAP].tolist(), small)
        if least and found:
            return _Sizes(*np.unique(np.array(found, np.int64), return_counts=True))
    return None


def _adding_up_to(
    least: int, most: int, sizes: Sequence[int], last: Sequence[int]
) -> tuple[int, ...] | None:
    """Return some of the sizes, plus one of ``last``, with a sum in a range; None if impossible.

    Args:
        least: the smallest sum allowed.
        most: the largest sum allowed.
        sizes: the largest first.
        last: ascending; 0 stands for no last bucket.
    """
    left = np.cumsum([0, *sizes[::-1]])[::-1].tolist()
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, most, ())]
    for _ in range(_TRIES):
        if not waiting:
            break
        at, rest, chosen = waiting.pop()
        one = last[bisect_right(last, rest) - 1]
        if rest - one <= most - least:
            return (*chosen, one) if one else chosen
        if at == len(sizes) or left[at] + last[-1] < rest - (most - least):
            continue
        waiting.append((at + 1, rest, chosen))
        if sizes[at] <= rest:
            waiting.append((at + 1, rest - sizes[at], (*chosen, sizes[at])))
    return None


_BEFORE = "from before the recording, "
_SETS = {
    PARAMETER: _BEFORE + "in the sizes of parameters",
    GRADIENT: _BEFORE + "a second set in the sizes of parameters",
    UNKNOWN: _BEFORE + "a second set in the sizes of parameters, of gradients or of states",
}
_COPIES = _BEFORE + "one set more, as of a copy of the model"


def match_baseline(
    judge: Judge,
    history: DeviceHistory,
    passes: Passes,
    marks: NDArray[np.int32],
    free_marks: NDArray[np.int32],
) -> None:
    """Assign roles to blocks that were live at the start, as far as they can be inferred."""
    rows = history.allocations
    first = rows.baseline
    judged = judge.part(first)
    made, freed, gone = marks[first], free_marks[first], rows.free_requested_event[first]
    for chosen, role, text, sure in (
        (made & IN_OPTIMIZER != 0, STATE, "made in an optimizer step", 0.9),
        (made & IN_BACKWARD != 0, GRADIENT, "made in backward", 0.8),
        (freed & CLEARS != 0, GRADIENT, "freed by zero_grad", 0.9),
        (passes.covers(BACKWARD, gone), ACTIVATION, "freed in backward", 0.8),
        (passes.covers(OPTIMIZER, gone), STATE, "replaced in an optimizer step", 0.8),
    ):
        judged.give(chosen, role, _BEFORE + text, sure)
    kept = gone >= history.events
    if passes.train:
        left = _Left(judged, rows.addr[first], rows.size[first], kept)
        _match_sizes(judge, history, passes, left, marks)
    elif (passes.phase == FORWARD).any():
        judged.give(kept, PARAMETER, "from before a recording of forward passes alone", 0.5)


def _match_sizes(
    judge: Judge,
    history: DeviceHistory,
    passes: Passes,
    left: _Left,
    marks: NDArray[np.int32],
) -> None:
    """Assign roles to blocks that no training step frees, by how many there are of each size.

    Args:
        judge: of all allocations.
        history: the device.
        passes: of the device.
        left: the blocks.
        marks: int32, shape (n_allocations,): the marks of their call stacks.
    """
    rows = history.allocations
    made = (judge.role == GRADIENT) & (marks & FILLS_BUCKETS == 0)
    leaks = _kept_by_passes(judge, history, passes)
    if made.any():
        sizes = _most_at_once(history, np.flatnonzero(made))
        if (marks & IN_DDP).any():
            _give_buckets(left, _find_buckets(left.sizes, sizes), COMMUNICATION)
        ended = bool((made & (rows.free_requested_event < history.events)).any())
        # If no gradient is ever freed, some may be from before the recording, too.
        others = (PARAMETER, _COPIES) if ended else (GRADIENT, _SETS[GRADIENT])
        _match_sets(left, sizes, (PARAMETER,), others, leaks)
    else:  # gradients are never made again; the optimizer's temporaries have their sizes
        sizes, first = _never_made(judge, history, passes, left, marks)
        _match_sets(left, sizes, first, (PARAMETER, _COPIES), leaks)
    for role, size in leaks.items():
        left.give_sizes(
            size, role, _BEFORE + "in a size of which forward passes keep more and more", 0.6
        )
    if not made.any() or not (passes.phase[:-1] == BACKWARD).any():
        return  # gradients, or memory that a backward pass still needs, may be among these
    text = _BEFORE + "in sizes that come as often as layers"
    left.give_sizes(_in_layers(left.sizes), PARAMETER, text, 0.5)
    known = left.addr[left.judge.role == PARAMETER]
    if len(known):
        among = (left.addr > known.min()) & (left.addr < known.max())
        left.give(among, PARAMETER, _BEFORE + "among parameters", 0.5)


def _never_made(
    judge: Judge, history: DeviceHistory, passes: Passes, left: _Left, marks: NDArray[np.int32]
) -> tuple[_Sizes, tuple[int, ...]]:
    """Return the sizes of parameters without new gradients, and the sets before the states.

    Their gradients are set to zero in place, or are in DDP's buckets. Besides buckets, one further
    set is of states; of two, one may be of gradients that are copied into the buckets. Adam has two
    states, SGD one.
    """
    of_steps = _most_in_a_pass(judge, history, passes, OPTIMIZER_TEMPORARY)
    in_place = (PARAMETER, GRADIENT)
    if not (marks & IN_DDP).any():
        return of_steps, in_place
    blocks = left.sizes
    if (of_steps.size > _NUMBER).any():
        buckets = _find_buckets(blocks, of_steps)
        if buckets is None and not (marks[judge.role == GRADIENT] & FILLS_BUCKETS).any():
            return of_steps, in_place
        of_one = bool((marks & ONE_STATE).any())
        # How many blocks most parameters, by bytes, have in their size, besides the parameter.
        each = blocks.less(buckets).of(of_steps.size) // np.maximum(of_steps.count, 1)
        further = int(np.bincount(each, of_steps.bytes, minlength=1).argmax()) - 1
        first = in_place if further > (1 if of_one else 2) else (PARAMETER,)
        _give_buckets(left, buckets, COMMUNICATION if first == in_place else GRADIENT)
        return of_steps, first
    of_passes = _most_in_a_pass(judge, history, passes, BACKWARD_TEMPORARY)
    explained, sets, trained, buckets = 0, 0, of_steps, None
    for n in (3, 2, 1):
        count = np.minimum(blocks.count // n, of_passes.of(blocks.size))
        guess = _Sizes(blocks.size[count > 0], count[count > 0])
        # Buffers of normalization, with one number per channel, have the sizes of parameters, too.
        found = _find_buckets(blocks, guess, doubtful=8 << 10)
        if found is not None and (n + 1) * found.bytes.sum() > explained:
            explained, sets, trained, buckets = (n + 1) * found.bytes.sum(), n, guess, found
    if buckets is None:
        return of_steps, in_place
    _give_buckets(left, buckets, COMMUNICATION if sets == 3 else GRADIENT)
    return trained, (PARAMETER, UNKNOWN) if sets == 3 else (PARAMETER,)


def _match_sets(
    left: _Left,
    parameters: _Sizes,
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
    states = _States(0)
    if 2 * left.known_states < parameters.bytes.sum():
        states = _find_states(left.sizes.without(leaking), parameters.without(leaking), len(first))
    sets = _sort_into_sets(left, parameters, len(first), states, leaking)
    text = "a further set in the sizes of parameters"
    if states.times != states.parts:
        text = "a set in the sizes of parameters, but in another precision"
    left.give_rows(sets.rows[sets.is_state], STATE, _BEFORE + text, 0.7)
    for k, role in enumerate(first):
        left.give_rows(sets.rows[sets.turn == k], role, _SETS[role], 0.7)
    left.give_rows(sets.rows, *others, 0.6)


_BUCKETS = {
    GRADIENT: _BEFORE + "DDP's buckets by their sum, and no gradients beside them",
    COMMUNICATION: _BEFORE + "DDP's buckets by their sum, to copy gradients into",
}


def _give_buckets(left: _Left, buckets: _Sizes | None, role: int) -> None:
    """Assign a role to DDP's buckets: the blocks at the highest addresses of each size."""
    if buckets is None:
        return
    at = np.flatnonzero(left.chosen)
    at = at[np.lexsort((-left.addr[at], left.size[at]))]
    size = left.size[at]
    place = np.arange(len(at)) - np.searchsorted(size, size)
    left.give_rows(at[place < buckets.of(size)], role, _BUCKETS[role], 0.8)


class _Left:
    """The blocks from before the recording that have no role yet; arrays of shape (n_blocks,)."""

    def __init__(
        self,
        judge: Judge,
        addr: NDArray[np.int64],
        size: NDArray[np.int64],
        kept: NDArray[np.bool_],
    ) -> None:
        """Take all blocks from before the recording.

        Args:
            judge: of these.
            addr, size: as in ``Allocations``.
            kept: those that no training step frees: only they may be left.
        """
        self.judge, self.addr, self.size, self._kept = judge, addr, size, kept

    @property
    def known_states(self) -> int:
        """Bytes of optimizer states from before the recording that already have the role."""
        return int(self.size[self.judge.role == STATE].sum())

    @property
    def chosen(self) -> NDArray[np.bool_]:
        """Whether each block is one of them."""
        found: NDArray[np.bool_] = self._kept & (self.judge.role == UNKNOWN)
        return found

    @property
    def sizes(self) -> _Sizes:
        """How many blocks there are of each size."""
        return _Sizes(*np.unique(self.size[self.chosen], return_counts=True))

    def give(self, blocks: NDArray[np.bool_], role: int, text: str, sure: float) -> None:
        """Assign a role to those among some blocks."""
        self.judge.give(self.chosen & blocks, role, text, sure)

    def give_rows(self, rows: NDArray[np.intp], role: int, text: str, sure: float) -> None:
        """Assign a role to those at some places."""
        there = np.zeros(len(self.size), np.bool_)
        there[rows] = True
        self.give(there, role, text, sure)

    def give_sizes(self, size: NDArray[np.int64], role: int, text: str, sure: float) -> None:
        """Assign a role to those that have one of some sizes."""
        self.give(np.isin(self.size, size), role, text, sure)


def _kept_by_passes(
    judge: Judge, history: DeviceHistory, passes: Passes
) -> dict[int, NDArray[np.int64]]:
    """Return, by role, the sizes of memory that forward passes made and nothing freed."""
    rows = history.allocations
    last = passes.of(BACKWARD)[0][-1:].max(initial=START)
    kept = (rows.alloc_event > START) & (rows.alloc_event < last)
    kept &= rows.free_requested_event >= history.events
    roles = (ACTIVATION, FORWARD_TEMPORARY)
    return {role: unique(rows.size[kept & (judge.role == role)]) for role in roles}


def _most_at_once(history: DeviceHistory, chosen: NDArray[np.intp]) -> _Sizes:
    """Return the sizes of some allocations, and how many of each are live at once at most."""
    rows = history.allocations
    size = np.concatenate([rows.size[chosen]] * 2)
    event = np.concatenate([rows.alloc_event[chosen], rows.free_requested_event[chosen]])
    change = np.repeat([1, -1], len(chosen))
    order = np.lexsort((change, event, size))
    live = np.cumsum(change[order])  # each size ends at 0
    return _Sizes.most(size[order], live)


def _most_in_a_pass(judge: Judge, history: DeviceHistory, passes: Passes, role: int) -> _Sizes:
    """Return the sizes of temporaries, and how many of each a pass makes at most.

    An optimizer's operation makes one temporary per parameter, so those of each line are counted.
    """
    rows = history.allocations
    made = np.flatnonzero(judge.role == role)
    of_step = role == OPTIMIZER_TEMPORARY
    line = rows.stack[made] if of_step else np.zeros(len(made), np.int32)
    begin = passes.of(OPTIMIZER if of_step else BACKWARD)[0]
    turn = np.searchsorted(begin, rows.alloc_event[made], side="right")
    keys, count = np.unique(np.stack([rows.size[made], line, turn]), axis=1, return_counts=True)
    return _Sizes.most(keys[0], count)
