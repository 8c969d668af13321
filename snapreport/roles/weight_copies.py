"""Find autocast's copies of weights among what forward passes make.

``torch.autocast`` casts each float32 weight to half precision where it is first used, and caches
the copy until its outermost block ends. A copy has half of its weight's bytes, is made on the
weight's line, and does not follow the batch. Where gradients are recorded, the graph keeps it, too.

Source: ``cached_cast`` in aten/src/ATen/autocast_mode.cpp.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.frame_kinds import is_native_file
from snapreport.ground.memoize import once_for_each
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import lowest_on_path
from snapreport.native.sorting import is_among, stable_order, unique
from snapreport.roles.passes import BUILD, FORWARD, Passes
from snapreport.roles.stack_phases import CASTS

_USES_WEIGHTS = re.compile(
    r".{0,400}(torch[/\\]nn[/\\](modules[/\\](linear|conv)|functional)|pytorch_utils)\.py$"
)
"""Files whose lines hand a weight to an operation."""
_AUTOCASTS = re.compile(r".{0,400}torch[/\\]amp[/\\]autocast_mode\.py$")


def find_weight_copies(
    history: DeviceHistory, tables: History, passes: Passes, marks: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which allocations are copies of weights, and of which of them that is sure.

    Where C++ frames or operators were recorded, a copy is made by a cast inside another operation.
    With Python frames alone the order tells: autocast copies an operation's bias, then its weight,
    before the operation makes its result.

    Returns:
        bool, shape (n_allocations,), both.
    """
    rows, n = history.allocations, len(history.allocations)
    copies, sure = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    order = np.flatnonzero(rows.alloc_event > START)
    order = order[stable_order(rows.alloc_event[order])]
    of_half = _has_half_of_a_weight(history, passes, order)
    if not of_half.any():
        return copies, sure
    run = operations(history, tables.stacks)[0][order]
    casts = marks[order] & CASTS != 0
    if casts.any():
        # The input may be cast, too, and have the size of a weight: the weight comes first.
        found = of_half & casts
        found[found] = _first_of_its_size(run[found], rows.size[order[found]])
        others = unique(rows.size[order[~found & (passes.made[order] == FORWARD)]])
        sure[order[found]] = ~is_among(rows.size[order[found]], others)
    else:
        # A copy is needed until its operation's result is made, the last of a run.
        new = np.append(True, run[1:] != run[:-1])
        last = np.append(new[1:], True)
        result = rows.alloc_event[order][last][run - run[0]]
        likely = of_half & (rows.free_requested_event[order] > result) & ~last
        likely &= _hands_on_weights(tables.stacks)[rows.stack[order]] & (
            passes.made[order] == FORWARD
        )
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


def _first_of_its_size(run: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.bool_]:
    first = np.zeros(len(run), np.bool_)
    first[np.unique(np.stack([run, size]), axis=1, return_index=True)[1]] = True
    return first


def operations(
    history: DeviceHistory, stacks: StackTable
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Number what one Python line makes without another's in between, such as an operation.

    Returns:
        intp, shape (n_allocations,): ascending in the order of allocation, 0 for all from before
        the recording; and the event at which each begins, ascending.
    """
    rows = history.allocations
    order = stable_order(rows.alloc_event)
    born = rows.alloc_event[order]
    line = np.append(_python_nodes(stacks), -1)[rows.stack[order]]
    new = np.append(True, (line[1:] != line[:-1]) & (born[1:] > START))[: len(order)]
    new[np.searchsorted(born, START, side="right") :][:1] = True
    run = np.empty(len(order), np.intp)
    run[order] = np.cumsum(new) - 1
    return run, born[new]


@once_for_each
def _python_nodes(stacks: StackTable) -> NDArray[np.intp]:
    """Return each stack's innermost Python node."""
    native = np.array([is_native_file(file) for file in stacks.frames.filenames], np.int8)
    return stacks.of_stacks(lowest_on_path(stacks.node_parent, native[stacks.node_frame]))


def _hands_on_weights(stacks: StackTable) -> NDArray[np.bool_]:
    """Say of which stacks the innermost Python line hands a weight to an operation."""
    uses = [bool(_USES_WEIGHTS.match(file)) for file in stacks.frames.filenames]
    node = np.append(_python_nodes(stacks), -1)
    if not len(stacks.node_frame):
        return np.zeros(len(node), np.bool_)
    found: NDArray[np.bool_] = np.array(uses, np.bool_)[stacks.node_frame[node]] & (node >= 0)
    return found
