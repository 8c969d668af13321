"""Match the allocations of several recordings of one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.stacks import StackTable
from snapreport.native.sorting import stable_order

NONE = -1
"""No matching allocation is known in the other recording."""

_SCRIPT = "<module>"
"""The name of a module's top-level frame; the outermost such frame is the script's."""

_Nodes = dict[tuple[int, str, str, int], int]


@dataclass(frozen=True, eq=False)
class SameRows:
    """The allocations of several recordings, matched to those of the last one."""

    rows: NDArray[np.int64]
    """int64, shape (n_recordings, n_allocations of the last); NONE where nothing matches."""
    exact: bool
    """Whether all recordings make the same allocations and frees, in the same order."""


def match_recordings(recordings: Sequence[tuple[History, DeviceHistory]]) -> SameRows:
    """Match the allocations of recordings to those of the last one.

    If all have the same events with the same call stacks, the n-th allocations match. Otherwise
    allocations are matched per call stack: in order if both have equally many, and else by size,
    in ascending order, if both have equally many distinct sizes.

    Args:
        recordings: of each the file and one of its devices.
    """
    nodes: _Nodes = {}
    keyed = [(device, _stack_keys(file.stacks, nodes)) for file, device in recordings]
    orders = [_in_order(device) for device, _ in keyed]
    last, keys = keyed[-1]
    number = len(last.allocations)
    rows = np.full((len(keyed), number), NONE, np.int64)
    tokens = _tokens(last, orders[-1])
    stacks = keys[last.allocations.stack[orders[-1]]]
    exact = True
    for place, ((device, own_keys), order) in enumerate(zip(keyed, orders, strict=True)):
        own = own_keys[device.allocations.stack[order]]
        if np.array_equal(own, stacks) and np.array_equal(_tokens(device, order), tokens):
            rows[place, orders[-1]] = order
        else:
            exact = False
            _match_by_stack(device, own_keys, last, keys, rows[place])
    return SameRows(rows, exact)


def _stack_keys(stacks: StackTable, nodes: _Nodes) -> NDArray[np.int64]:
    """Number call stacks so that equal ones have one number in all files; -2 for no stack.

    The script and its lines are left out: each batch size may have a script of its own.
    """
    frames = stacks.frames
    lines = frames.lines.tolist()
    keys: list[int] = []
    started: list[str] = []
    for parent, frame in zip(stacks.node_parent.tolist(), stacks.node_frame.tolist(), strict=True):
        above, script = (keys[parent], started[parent]) if parent >= 0 else (-1, "")
        name, file = frames.names[frame], frames.filenames[frame]
        if name == _SCRIPT and not script:
            key, script = above, file
        else:
            same = (above, name, "" if file == script else file, lines[frame])
            key = nodes.setdefault(same, len(nodes))
        keys.append(key)
        started.append(script)
    of_node = np.array([*keys, -1], np.int64)  # the empty stack has node -1
    return np.append(of_node[stacks.stack_node], -2)


def _in_order(device: DeviceHistory) -> NDArray[np.int64]:
    """Return the rows in order, but those that the trace never touches by size."""
    rows = device.allocations
    order = np.arange(len(rows))
    untouched = np.flatnonzero(
        (rows.alloc_event == START) & (rows.free_requested_event >= device.events)
    )
    order[untouched] = untouched[stable_order(rows.size[untouched])]
    return order


def _tokens(device: DeviceHistory, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each event's allocation, inverted for a free; frees between two allocs are sorted."""
    rows = device.allocations
    born, gone = rows.alloc_event[order], rows.free_requested_event[order]
    made, freed = np.flatnonzero(born >= 0), np.flatnonzero((gone >= 0) & (gone < device.events))
    which = np.concatenate([made, freed])
    frees = np.repeat([False, True], [len(made), len(freed)])
    when = stable_order(np.concatenate([born[made], gone[freed]]))
    which, frees = which[when], frees[when]
    sorted_frees = np.lexsort((which, frees, np.cumsum(~frees)))
    tokens: NDArray[np.int64] = np.where(frees, ~which, which)[sorted_frees]
    return tokens


def _match_by_stack(
    device: DeviceHistory,
    keys: NDArray[np.int64],
    last: DeviceHistory,
    last_keys: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    own = _by_stack(keys[device.allocations.stack])
    sizes, wanted = device.allocations.size, last.allocations.size
    for key, there in _by_stack(last_keys[last.allocations.stack]).items():
        here = own.get(key)
        if here is None:
            continue
        if key == -2:  # without a stack the order tells less than the size
            here = here[stable_order(sizes[here])]
            there = there[stable_order(wanted[there])]
        if len(here) == len(there):
            found[there] = here
            continue
        values, first = np.unique(sizes[here], return_index=True)
        others, place = np.unique(wanted[there], return_inverse=True)
        if len(values) == len(others):
            found[there] = here[first][place]


def _by_stack(keys: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    order = stable_order(keys)
    values, first = np.unique(keys[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))
