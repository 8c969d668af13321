"""The strips of a device as other tools read them, and histories of any rows to lay out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import orjson

from snapreport.bundle.strips import strips_text
from snapreport.model.history import START, Allocations, DeviceHistory, Drawn, Rest
from tests.builders import trace


@dataclass(frozen=True)
class Strips:
    """One path for each allocation; row i is allocation i of the device."""

    timesteps: list[list[int]]
    offsets: list[list[int]]
    size: list[int]


def rows_of(
    device: DeviceHistory, columns: int | None = None, drawn: Drawn | None = None
) -> list[dict[str, Any]]:
    """Return the rows of ``allocations.json``."""
    text = b"".join(part.data for part in strips_text(device, drawn=drawn, columns=columns))
    rows: list[dict[str, Any]] = orjson.loads(text)
    return rows


def make_strips(device: DeviceHistory, columns: int | None = None) -> Strips:
    """Lay out a device; ``columns`` as of ``strips_text``."""
    rows = rows_of(device, columns)
    each = {name: [row[name] for row in rows] for name in ("timesteps", "offsets", "size")}
    return Strips(**each)


def device_of(rows: Sequence[tuple[int, int, int]], events: int) -> DeviceHistory:
    """Return a device of allocations that are given by alloc event, free event and size."""
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    given = dict(zip(("alloc_event", "free_event", "size"), columns.copy(), strict=True))
    given["free_requested_event"] = given["free_event"]
    zeros = np.zeros(len(rows), np.int64)
    kept = Allocations(
        **{field.name: given.get(field.name, zeros) for field in fields(Allocations)}
    )
    (device,) = trace().alloc("a", 1).file().devices
    return replace(device, events=events, allocations=kept)


def drawn_rows(device: DeviceHistory, rows: Sequence[int]) -> Drawn:
    """Return that these rows are drawn, and the sum of the others at every event."""
    of_all = device.allocations
    left = np.setdiff1d(np.arange(len(of_all)), rows)
    events = np.arange(START, max(device.events, 1))
    live = (of_all.alloc_event[left] <= events[:, None]) & (
        events[:, None] < of_all.free_event[left]
    )
    requested = np.where(live, of_all.size[left], 0).sum(axis=1)
    rest = Rest(events, *[requested] * 5)
    return Drawn(np.array(rows, np.int64), rest, None, len(left), 0, 0, 0, 0, 0, None, 0)
