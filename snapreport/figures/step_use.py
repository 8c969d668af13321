"""How much memory each step of the program took, and which of the steps are alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import DeviceHistory, History
from snapreport.model.iterations import Iterations, Kind, Steps, StepUse
from snapreport.native.sorting import sum_groups
from snapreport.roles.repeating_step import find_iterations

ALIKE = 0.01
"""Steps are alike if the bytes they allocate, and how far memory rises above their start, differ by
at most this part; what stays may differ by this part of the rise."""
_FEWEST = 2
_OF_THE_LATER = 0.5
"""So many of the steps after the first must be alike, or none is called steady."""


def find_steps(
    history: DeviceHistory, tables: History, allocated: NDArray[np.int64]
) -> Steps | None:
    """Measure each complete step, or return None if the recording shows no repeating step.

    Args:
        history: the device.
        tables: the file that it is from.
        allocated: int64, shape (n_events + 1,): its allocated curve, index 0 is the start.
    """
    turns = find_iterations(history, tables)
    return None if turns is None else measure_steps(history, turns, allocated)


def measure_steps(history: DeviceHistory, turns: Iterations, allocated: NDArray[np.int64]) -> Steps:
    """Measure steps that are known.

    A step's peak is over the state it began with and every event inside.

    Args:
        history: the device.
        turns: where the steps are.
        allocated: as for ``find_steps``.
    """
    rows, bounds, n = history.allocations, turns.bounds, len(turns)
    # Index s + 1 of the curve holds event s, so index s is what is allocated just before it.
    start, end = allocated[bounds[:-1]], allocated[bounds[1:]]
    peak, place = _peaks(allocated, bounds)
    made_in = np.searchsorted(bounds, rows.alloc_event, side="right") - 1
    inside = (made_in >= 0) & (made_in < n)
    step, size = made_in[inside], rows.block_size[inside]
    count = np.bincount(step, minlength=n)
    still = rows.free_requested_event[inside] >= bounds[step + 1]
    made, kept = sum_groups(step, size, n), sum_groups(step[still], size[still], n)
    kinds = _kinds(_steady(peak - start, made, end - start))
    columns = (bounds[:-1], bounds[1:], start, peak, place - 1, end, kept, count, made)
    found = zip(turns.names, kinds, *(column.tolist() for column in columns), strict=True)
    inside_peak = np.maximum.reduceat(allocated[: bounds[-1] + 1], bounds[:-1] + 1)
    highest = np.flatnonzero(inside_peak == allocated.max())
    event = int(allocated.argmax()) - 1
    number = int(np.searchsorted(bounds, event, side="right"))
    return Steps(
        source=turns.source,
        confidence=turns.confidence,
        how=turns.how,
        peak=number if 0 < number <= n else None,
        peak_before=number == 0,
        as_high=int(highest[0]) + 1 if len(highest) else None,
        steps=tuple(
            StepUse(i, "" if name == f"step {i}" else name, *figures)
            for i, (name, *figures) in enumerate(found, 1)
        ),
    )


def _peaks(
    curve: NDArray[np.int64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most of a curve from each bound to the next, that included, and its first place.

    Args:
        curve: int64, shape (n,).
        bounds: int64, shape (m + 1,), m > 0; ascending, each once.
    """
    inside = curve[bounds[0] : bounds[-1]]
    most = np.maximum.reduceat(inside, bounds[:-1] - bounds[0])
    at = np.flatnonzero(inside == np.repeat(most, np.diff(bounds))) + bounds[0]
    first = at[np.searchsorted(at, bounds[:-1])]
    last = curve[bounds[1:]]
    return np.maximum(most, last), np.where(last > most, bounds[1:], first)


def _steady(
    rise: NDArray[np.int64], made: NDArray[np.int64], change: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which steps are alike, the most that are; none where those are too few.

    Args:
        rise: int64, shape (n,): how far each peaks above its start.
        made: int64, shape (n,): bytes that it allocates.
        change: int64, shape (n,): what stays.
    """
    chosen = np.arange(len(rise))
    for values in (rise, made):
        low = values[chosen]
        chosen = chosen[_densest(low, low + (ALIKE * low).astype(np.int64))]
    # What the last step keeps is mostly what the next step would have freed first.
    ended, last = chosen[chosen < len(rise) - 1], chosen[chosen == len(rise) - 1]
    if len(ended):
        within = int(ALIKE * rise[chosen].min())
        ended = ended[_densest(change[ended], change[ended] + within)]
    chosen = np.append(ended, last)
    alike = np.zeros(len(rise), np.bool_)
    alike[chosen] = len(chosen) >= max(_FEWEST, _OF_THE_LATER * (len(rise) - 1))
    return alike


def _densest(values: NDArray[np.int64], to: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which values lie between one of them and its upper bound, for the one with the most."""
    ordered = np.sort(values)
    # The bounds grow with the values, so sorted they are those of the sorted values.
    bounds = np.sort(to)
    held = np.searchsorted(ordered, bounds, side="right") - np.searchsorted(ordered, ordered)
    best = int(held.argmax())
    inside: NDArray[np.bool_] = (values >= ordered[best]) & (values <= bounds[best])
    return inside


def _kinds(steady: NDArray[np.bool_]) -> list[Kind]:
    """Return the kind of each step."""
    if not steady.any():
        return ["unknown"] * len(steady)
    first = int(steady.argmax())
    return [
        "steady" if alike else "warm-up" if i < first else "other"
        for i, alike in enumerate(steady.tolist())
    ]
