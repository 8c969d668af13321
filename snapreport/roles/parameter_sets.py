"""Find parameters and states among blocks from before the recording, as sets by size.

Each parameter has a gradient of its size, and an optimizer keeps the same number of states for each
parameter. So where k gradients of a size are live at once, the blocks of that size from before come
in sets of k. Models are built before the first step makes the states, so their sets are first in
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import Allocations

_PRECISIONS = ((1, 1, 2), (2, 1, 3), (1, 2, 2), (1, 4, 2))
"""Size of a state relative to its gradient, as a fraction, and how many states a parameter may
have: in the same precision, as Adam's; in 32 bits for 16, including a 32-bit copy of the parameter;
in 16 or 8 bits for 32."""
_MOST_COPIES = 2
"""The most copies of the model: averaged weights, a reference model, or both."""
_LAYERS, _ALIKE, _IN_EACH = 2, 3, 4
"""The fewest layers of a stack, the fewest sizes that must occur equally often to show one, and the
most tensors of one size in a layer, such as the projections of its attention."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """How many tensors of each size there are."""

    size: NDArray[np.int64]
    """int64, shape (n,), ascending; bytes that were asked for."""
    count: NDArray[np.int64]
    """int64, shape (n,)."""

    @property
    def bytes(self) -> int:
        """Bytes of all tensors together."""
        return int((self.size * self.count).sum())

    @classmethod
    def most(cls, size: NDArray[np.int64], count: NDArray[np.int64]) -> Sizes:
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

    def less(self, others: Sizes | None) -> Sizes:
        """Return the counts minus those of others."""
        return self if others is None else Sizes(self.size, self.count - others.of(self.size))

    def without(self, size: NDArray[np.int64]) -> Sizes:
        """Return the counts without some sizes."""
        kept = ~np.isin(self.size, size)
        return Sizes(self.size[kept], self.count[kept])


def sizes_of(rows: Allocations, chosen: NDArray[np.bool_]) -> Sizes:
    """Count the chosen allocations of each size.

    Args:
        rows: all allocations.
        chosen: bool, shape (n_allocations,).
    """
    return Sizes(*np.unique(rows.size[chosen], return_counts=True))


class States(NamedTuple):
    """How an optimizer keeps its states."""

    each: int
    """How many states a parameter has."""
    times: int = 1
    """A state has ``times / parts`` as many bytes as the gradient."""
    parts: int = 1

    def of(self, parameters: Sizes, size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many states have some sizes; int64, of the shape of ``size``."""
        gradient = size // self.times * self.parts
        return np.where(size % self.times == 0, self.each * parameters.of(gradient), 0)


def find_states(blocks: Sizes, parameters: Sizes, first: int) -> States:
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
    bytes_ = parameters.size * parameters.count
    further = blocks.of(parameters.size) // np.maximum(parameters.count, 1) - first
    usual = np.bincount(np.clip(further, 0, _PRECISIONS[0][2]), weights=bytes_, minlength=1)
    best, most = States(int(usual.argmax())), 0
    for times, parts, states in _PRECISIONS:
        for each in range(states, 0, -1):
            guess = States(each, times, parts)
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


def usual_sets(blocks: Sizes, parameters: Sizes) -> int:
    """Return how many blocks most parameters (by bytes) have in their size; 0 without any."""
    sets = blocks.of(parameters.size) // np.maximum(parameters.count, 1)
    return int(np.bincount(sets, parameters.size * parameters.count, minlength=1).argmax())


class Sets(NamedTuple):
    """Blocks in the sizes of parameters and states, each with its set; all of shape (n,)."""

    rows: NDArray[np.intp]
    """The blocks as rows of the allocations."""
    turn: NDArray[np.int64]
    """0 for the first block of each parameter, 1 for the second, and so on."""
    is_state: NDArray[np.bool_]
    """Whether it is one of the states, which come last."""


def sort_into_sets(
    rows: Allocations,
    chosen: NDArray[np.bool_],
    parameters: Sizes,
    first: int,
    states: States,
    leaks: NDArray[np.int64],
) -> Sets:
    """Sort blocks in the sizes of parameters and states into sets; others are left out.

    Args:
        rows: all allocations.
        chosen: bool, shape (n_allocations,): the blocks.
        parameters: the sizes of the parameters.
        first: how many sets come before the states.
        states: of each parameter.
        leaks: int64, shape (n_leaks,): sizes of which the program keeps more and more blocks; those
            come after the states.
    """
    at = np.flatnonzero(chosen)
    at = at[np.lexsort((rows.addr[at], rows.size[at]))]
    size = rows.size[at]
    begin = np.searchsorted(size, size)
    every = np.searchsorted(size, size, side="right") - begin
    before = np.arange(len(size)) - begin
    count, n_states = parameters.of(size), states.of(parameters, size)
    every = np.where(np.isin(size, leaks), np.minimum(every, first * count + n_states), every)
    # If blocks are too few for all sets, parameters have precedence.
    is_state = before >= np.maximum(every - n_states, np.minimum(first * count, every))
    there = (before < every) & ((count > 0) | is_state)
    turn = before // np.maximum(count, 1)
    return Sets(at[there], turn[there], is_state[there])


def in_layers(there: Sizes) -> NDArray[np.int64]:
    """Return the sizes that occur as often as several others, or a small multiple of that."""
    found = np.zeros(len(there.count), np.bool_)
    for layers in np.unique(there.count[there.count >= _LAYERS]).tolist():
        fits = np.isin(there.count, layers * np.arange(1, _IN_EACH + 1))
        found |= fits & (fits.sum() >= _ALIKE)
    return there.size[found]
