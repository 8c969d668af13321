"""Memory by category over time: a curve for each group; together they add up to the total."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.answer_tables import GroupCurve, Profile
from snapreport.model.history import DeviceHistory
from snapreport.native.sorting import unique
from snapreport.native.sweeps import sum_live


def find_profile(
    history: DeviceHistory,
    number: NDArray[np.int64],
    names: list[str],
    rules: list[str],
    curve: str = "allocated",
    points: int = 0,
) -> Profile:
    """Add up each group's live bytes after some events.

    Args:
        history: the device.
        number: int64, shape (n_allocations,): each allocation's group.
        names: of the groups.
        rules: the rule of each group.
        curve: ``allocated``, ``requested`` or ``active``.
        points: about how many events to return. Each stands for a run of events, and is the one
            with the highest total, so that no maximum is lost. 0 for every event.

    Returns:
        Groups with the highest peak first; those that hold nothing in this curve are left out.
    """
    rows = history.allocations
    weight, end = rows.weights(curve), rows.ends(curve)
    whole = sum_live(weight, rows.alloc_event, end, history.events)
    events = _pick(whole, points)
    top = int(whole.argmax())
    groups = []
    for k, name in enumerate(names):
        of = number == k
        series = sum_live(weight[of], rows.alloc_event[of], end[of], history.events)
        peak = int(series.argmax())
        if not series[peak]:
            continue
        groups.append(
            GroupCurve(
                name=name,
                rule=rules[k],
                peak_bytes=int(series[peak]),
                peak_event=peak - 1,
                at_peak=int(series[top]),
                count=int(of.sum()),
                bytes=series[events + 1],
            )
        )
    groups.sort(key=lambda group: (-group.at_peak, -group.peak_bytes, group.name))
    return Profile(curve, top - 1, int(whole[top]), events, whole[events + 1], tuple(groups))


def _pick(whole: NDArray[np.int64], points: int) -> NDArray[np.int64]:
    """The events to show; the first and the last are among them."""
    count = len(whole)
    if points <= 0 or count <= points:
        return np.arange(-1, count - 1, dtype=np.int64)
    edges = np.linspace(0, count, points + 1).astype(np.int64)
    picked = [
        int(low + whole[low:high].argmax())
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if high > low
    ]
    return unique(np.array([0, *picked, count - 1], np.int64)) - 1
