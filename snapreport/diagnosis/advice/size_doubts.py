"""Why sizes at another batch may not follow their law, as far as a recording shows it."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_each
from snapreport.model.history import DeviceHistory, History
from snapreport.model.stacks import FrameTable
from snapreport.roles.passes import FORWARD, find_passes

_CONVOLVES = re.compile(r"conv(olution)?_?(transpose)?([123]d|_|backward|$)|cudnn|miopen", re.I)
_LONG = 200


def doubt_of(file: History, device: DeviceHistory) -> str:
    """Return why the program may behave differently at another batch, ``""`` for no reason.

    Returns:
        ``convolutions``: they choose an algorithm, and so its temporary memory, by the sizes.
        ``data``: sizes differ from step to step, so they depend on more than the batch size.
        ``one step``: there are not two steps to compare.
    """
    if _convolves(file.stacks.frames):
        return "convolutions"
    starts = find_passes(device, file).of(FORWARD)[0]
    if len(starts) < 2:
        return "one step"
    return "data" if _differ(device, starts) else ""


@once_for_each
def _convolves(frames: FrameTable) -> bool:
    return any(_CONVOLVES.search(name[:_LONG]) for name in frames.names)


def _differ(device: DeviceHistory, starts: NDArray[np.int64]) -> bool:
    """Say whether the n-th allocation of a call stack has another size in another pass."""
    rows = device.allocations
    turn = np.searchsorted(starts, rows.alloc_event, side="right")
    # Some memory is made in the first pass only, and stays for the others, such as gradients.
    chosen = np.flatnonzero((turn > (1 if len(starts) > 2 else 0)) & (rows.stack >= 0))
    stack, turn, size = rows.stack[chosen], turn[chosen], rows.size[chosen]
    order = np.lexsort((chosen, turn, stack))
    stack, turn, size = stack[order], turn[order], size[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (stack[1:] != stack[:-1]) | (turn[1:] != turn[:-1])
    first = np.flatnonzero(new)
    place = np.arange(len(order)) - first[np.cumsum(new) - 1]
    order = np.lexsort((size, place, stack))
    stack, place, size = stack[order], place[order], size[order]
    same = (stack[1:] == stack[:-1]) & (place[1:] == place[:-1])
    return bool((same & (size[1:] != size[:-1])).any())
