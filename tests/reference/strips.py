"""The rows of ``allocations.json``, each by itself: what ``bundle.strips_text`` writes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.strips import lay_rest, sampled_events, with_last_event
from snapreport.model.history import DeviceHistory, Drawn

Points = list[tuple[int, int]]
"""Events and offsets."""


def strips_text(
    history: DeviceHistory,
    first_id: int,
    drawn: Drawn | None,
    columns: int | None,
    most: int,
) -> list[bytes]:
    """Return the text in its parts.

    Args:
        history: the device.
        first_id: the first row's ``elem``.
        drawn: what is drawn one by one; None for all.
        columns: the most events to sample; None for the rule that the manifest states.
        most: points of a part, if it is not one row.
    """
    events = sampled_events(history, columns)
    rows, end = history.allocations, max(history.events, 1)
    if drawn is None:
        laid = _paths(rows.alloc_event, rows.free_event, rows.size, events, history)
        sizes = rows.size.tolist()
    else:
        taken = drawn.rows
        some = _paths(
            rows.alloc_event[taken], rows.free_event[taken], rows.size[taken], events, history
        )
        paths = iter(some)
        kept = set(taken.tolist())
        laid, sizes = [], []
        for row, (born, freed) in enumerate(
            zip(rows.alloc_event.tolist(), rows.free_event.tolist(), strict=True)
        ):
            flat = [(max(born, 0), 0), (min(freed, end), 0)]
            laid.append(next(paths) if row in kept else flat)
            sizes.append(int(rows.size[row]) if row in kept else 0)
    texts = [
        _row(first_id + i, size, path)
        for i, (size, path) in enumerate(zip(sizes, laid, strict=True))
    ]
    parts = list(_by_points(texts, [len(path) for path in laid], most))
    joined = [(b"," if i else b"[") + b",".join(part) for i, part in enumerate(parts)]
    rest = []
    if drawn is not None:
        for i, (size, at, offsets) in enumerate(lay_rest(history, drawn, events), len(texts)):
            path = list(zip(at.tolist(), offsets.tolist(), strict=True))
            rest.append(_row(first_id + i, size, path))
    if not texts:
        return [b"[" + b",".join(rest) + b"]"]
    return [*joined, b"".join(b"," + row for row in rest) + b"]"]


def _row(number: int, size: int, path: Points) -> bytes:
    events, offsets = ([point[i] for point in path] for i in (0, 1))
    return orjson.dumps(
        {"elem": number, "size": size, "timesteps": events, "offsets": offsets, "color": number}
    )


def _by_points(texts: list[bytes], points: list[int], most: int) -> Iterator[list[bytes]]:
    low = 0
    while low < len(texts):
        high = low + 1
        while high < len(texts) and sum(points[low : high + 1]) <= most:
            high += 1
        yield texts[low:high]
        low = high


def _paths(
    born: NDArray[np.int64],
    freed: NDArray[np.int64],
    size: NDArray[np.int64],
    events: NDArray[np.int64],
    history: DeviceHistory,
) -> list[Points]:
    """Return where each row lies, on those before it, from its birth to its end."""
    events = with_last_event(history, events)
    end = max(history.events, 1)
    gone = np.where(freed >= history.events, end, freed)
    paths = []
    for row in range(len(born)):
        first, last = max(int(born[row]), 0), int(gone[row])
        older, frees = size[:row], gone[:row]
        # A newcomer goes on top of all that is there; and what goes with it is there to the last.
        path = [(first, int(older[freed[:row] > born[row]].sum()))]
        before = None  # the sample before
        for event in events[(events >= born[row]) & (events < last)].tolist():
            below = int(older[frees > event].sum())
            if below != path[-1][1]:
                _hold(path, first, events, event)
                path.append((event, below))
            before = event
        at_last = int(older[frees >= last].sum())
        if before is not None and at_last != path[-1][1]:
            after = events[events > before]
            _hold(path, first, events, int(after[0]) if len(after) else end)
        paths.append([*path, (last, at_last)])
    return paths


def _hold(path: Points, first: int, events: NDArray[np.int64], event: int) -> None:
    """Let a row stay where it is up to the sample before an event."""
    before = events[events < event]
    if len(before) and first < before[-1] and path[-1][0] != before[-1]:
        path.append((int(before[-1]), path[-1][1]))
