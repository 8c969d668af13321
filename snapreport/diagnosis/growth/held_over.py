"""Find memory made in one turn of the program's outer loop and freed only in a later one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.block_room import freed_by
from snapreport.diagnosis.growth.growth_types import HeldOver
from snapreport.frames.missing_stacks import HAS_FRAMES
from snapreport.model.diagnoses import Frees
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, History
from snapreport.native.sorting import is_among, median, unique
from snapreport.native.sweeps import sum_live

_SOON = 2
"""Memory freed within this many turns after its own is held over, not kept."""
_AGAIN = 0.5
"""A call site counts if its memory is held over in at least this part of the turns."""
_OWN = ("parameter", "optimizer state", "optimizer", "gradient")
"""Categories that are meant to outlive a step."""
_GRADIENTS = ("backward",)
"""Categories that may hide gradients: the engine's own threads make them without Python frames."""


def is_own(
    device: DeviceFigures, rows: NDArray[np.int64], names: tuple[str, ...] = _OWN
) -> NDArray[np.bool_]:
    """Say for some allocations whether they are meant to outlive a step; shape (n,)."""
    own = [i for i, category in enumerate(device.categories) if category.name in names]
    return is_among(device.category[rows], own)


def bounds_until(bounds: NDArray[np.int64], events: int) -> NDArray[np.int64]:
    """Count the bounds up to each event, so that no row has to search for its own.

    Args:
        bounds: int64, ascending, none before START or after ``events``.
        events: how many events there are.

    Returns:
        int64, shape (events + 2,): for START, each event, and the one after the last.
    """
    lengths = np.diff(bounds, prepend=START, append=events + 1)
    return np.repeat(np.arange(len(bounds) + 1), lengths)


def find_held_over(
    tables: History,
    device: DeviceFigures,
    bounds: NDArray[np.int64],
    number: NDArray[np.int64],
    growing: NDArray[np.int64],
) -> HeldOver:
    """Find what was made in a turn and is freed soon after it.

    Args:
        bounds: of the turns.
        number: each allocation's call site.
        growing: the call sites that grow, which have findings of their own.
    """
    history = device.history
    rows = history.allocations
    until = bounds_until(bounds, history.events)
    enter, leave = until[rows.alloc_event - START], until[rows.free_requested_event - START]
    soon = (leave > enter) & (leave - enter <= _SOON) & (rows.alloc_event > START)
    # What is still live at the last bound may live on: its end is not known.
    soon &= rows.free_requested_event < history.events
    soon &= device.missing == HAS_FRAMES  # without frames it may be a gradient
    chosen = np.flatnonzero(soon)
    chosen = chosen[~is_own(device, chosen, _OWN + _GRADIENTS)]
    # The last items of a growing list are also freed soon after their turns.
    chosen = chosen[~is_among(number[chosen], growing)]
    sites = number[chosen]
    pairs = unique(sites * (len(bounds) + 1) + enter[chosen]) // (len(bounds) + 1)
    often = np.bincount(pairs) >= _AGAIN * (len(bounds) - 1) if len(chosen) else sites
    chosen = chosen[often[sites]] if len(chosen) else chosen
    if not len(chosen):
        return HeldOver(chosen, 0, Frees.exactly(0))
    held = sum_live(rows.block_size[chosen], enter[chosen] - 1, leave[chosen] - 1, len(bounds) - 1)
    # Without the first turn: nothing is held over into it.
    later = slice(int(bounds[1]), int(bounds[-1]) + 1)
    frees = freed_by(tables, history, chosen, bounds[enter[chosen]] - 1, within=later)
    typical = int(median(held[2:])) if len(held) > 2 else 0
    return HeldOver(chosen, typical, frees)
