"""Writes the text of ``allocations.json``, in parts: each can be packed while the next is written.

The native library lays out the strips as it writes them, with no array of their points.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.cut_strips import Strip, lay_rest
from snapreport.bundle.strips import sampled_events, with_last_event
from snapreport.model.cut import Drawn
from snapreport.model.history import DeviceHistory
from snapreport.native.strip_rows import StripRows

POINTS_AT_ONCE = 1 << 14
"""How many points are yielded at a time, if no row has more."""
ROWS_AT_ONCE = 1 << 12
"""How many rows of a cut device are yielded at a time; the last part has the sum's rows too."""


def strips_text(
    history: DeviceHistory,
    first_id: int = 0,
    drawn: Drawn | None = None,
    columns: int | None = None,
) -> Iterator[bytes]:
    """Yield a JSON array with a row for each strip.

    Args:
        history: the device.
        first_id: the first row's ``elem``.
        drawn: the allocations that are drawn one by one; None for all.
        columns: the most events to sample; None for the manifest's rule.
    """
    events = sampled_events(history, columns)
    mask = None
    if drawn is not None:
        mask = np.zeros(len(history.allocations), np.bool_)
        mask[drawn.rows] = True
    all_of_them = history.allocations
    rows = StripRows(
        (all_of_them.alloc_event, all_of_them.free_event, all_of_them.size),
        mask,
        with_last_event(history, events),
        history.events,
        first_id,
        POINTS_AT_ONCE,
    )
    if drawn is None:
        texts = rows.up_to(len(all_of_them))
    else:
        texts = _cut_parts(rows, history, first_id, drawn, events)
    before = b"["
    for text in texts:
        yield before + text
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _cut_parts(
    rows: StripRows, history: DeviceHistory, first_id: int, drawn: Drawn, events: NDArray[np.int64]
) -> Iterator[bytes]:
    """Yield all rows, some at a time, and then the sum of what is not drawn."""
    n = len(history.allocations)
    for until in range(ROWS_AT_ONCE, n + 1, ROWS_AT_ONCE):
        yield b",".join(rows.up_to(until))
    rest = _rows(list(lay_rest(history, drawn, events)), first_id + n)
    last = [*rows.up_to(n), *([rest] if rest else [])]
    if last:
        yield b",".join(last)


def _rows(strips: list[Strip], first_id: int) -> bytes:
    """Return rows as JSON, with commas between them."""
    return orjson.dumps(
        [
            {"elem": i, "size": size, "timesteps": events, "offsets": offsets, "color": i}
            for i, (size, events, offsets) in enumerate(strips, start=first_id)
        ],
        option=orjson.OPT_SERIALIZE_NUMPY,
    )[1:-1]
