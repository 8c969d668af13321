"""The text of ``allocations.json``, in parts: each can be packed while the next one is written.

Where ``strips.c`` was compiled it lays out the strips as well, with no array of their points, and
gives the same parts as the Python code here and beside this.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from snapreport.bundle.cut_strips import ROWS_AT_ONCE, lay_cut_strips, lay_rest
from snapreport.bundle.strips import (
    POINTS_AT_ONCE,
    Strip,
    lay_strips,
    sampled_steps,
    with_last_step,
)
from snapreport.libraries import Shape, open_library
from snapreport.model.cut import Drawn
from snapreport.model.history import DeviceHistory

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINT_TEXT = 2 * 21 + (64 + 3 * 20) // 2
"""Characters of a point at most, with its share of the rest of its row: as in strips.c."""


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
        drawn: what is drawn one by one; None for all.
        columns: the most steps to sample; None for the rule that the manifest states.
    """
    steps = sampled_steps(history, columns)
    compiled = _begin(history, first_id, drawn, steps)
    if compiled is not None:
        texts = compiled.parts() if drawn is None else compiled.cut_parts(drawn, steps)
    else:
        texts = _texts(history, first_id, drawn, steps)
    before = b"["
    for text in texts:
        yield before + text
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _texts(
    history: DeviceHistory, first_id: int, drawn: Drawn | None, steps: NDArray[np.int64]
) -> Iterator[bytes]:
    parts = lay_strips(history, steps) if drawn is None else lay_cut_strips(history, drawn, steps)
    for strips in parts:
        yield _rows(strips, first_id)
        first_id += len(strips)


def _rows(strips: list[Strip], first_id: int) -> bytes:
    """Return rows as JSON, with commas between them."""
    return orjson.dumps(
        [
            {"elem": i, "size": size, "timesteps": steps, "offsets": offsets, "color": i}
            for i, (size, steps, offsets) in enumerate(strips, start=first_id)
        ],
        option=orjson.OPT_SERIALIZE_NUMPY,
    )[1:-1]


class _Fields(ctypes.Structure):  # as in strips.c
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("alloc_step", "free_step", "size", "drawn")),
        *((name, ctypes.c_void_p) for name in ("steps", "live", "freed")),
        *((name, ctypes.c_void_p) for name in ("point_steps", "point_offsets", "text")),
        *((name, ctypes.c_uint64) for name in ("n_rows", "n_steps", "room_points", "room_text")),
        ("most_points", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("events", "end", "first_id")),
        *((name, ctypes.c_uint64) for name in ("row", "first_sample", "n_points", "total")),
        ("moving", ctypes.c_uint64),
    )


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return the library made from ``strips.c``, None where there is none to use."""
    shapes: dict[str, Shape] = {
        "snapreport_strips_begin": (ctypes.c_int32, ctypes.c_void_p),
        "snapreport_strips_go_on": (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64),
    }
    path = Path(__file__).with_name("_strips.so")
    library: ctypes.CDLL | None = open_library(
        ctypes.CDLL, path, "snapreport_strips_version", shapes
    )
    return library


def _begin(
    history: DeviceHistory, first_id: int, drawn: Drawn | None, steps: NDArray[np.int64]
) -> _Compiled | None:
    """Return what writes the rows; None where there is no library, or it does not take them."""
    library = _library()
    if library is None:
        return None
    compiled = _Compiled(library, history, first_id, drawn, with_last_step(history, steps))
    taken = library.snapreport_strips_begin(ctypes.byref(compiled.fields))
    return compiled if taken else None


class _Compiled:
    """The rows of a device as ``strips.c`` writes them; it goes on where it stopped."""

    def __init__(
        self,
        library: ctypes.CDLL,
        history: DeviceHistory,
        first_id: int,
        drawn: Drawn | None,
        steps: NDArray[np.int64],
    ) -> None:
        self._library, self._history, self._first_id = library, history, first_id
        rows, end = history.allocations, max(history.events, 1)
        room = 2 * len(steps) + 2
        most = POINTS_AT_ONCE
        self._tables: dict[str, NDArray[np.generic]] = {
            "alloc_step": np.ascontiguousarray(rows.alloc_step, np.int64),
            "free_step": np.ascontiguousarray(rows.free_step, np.int64),
            "size": np.ascontiguousarray(rows.size, np.int64),
            "steps": np.ascontiguousarray(steps, np.int64),
            "live": np.zeros(len(steps), np.uint64),
            "freed": np.zeros(end + 1, np.uint64),
            "point_steps": np.empty(room, np.int64),
            "point_offsets": np.empty(room, np.uint64),
            "text": np.empty(max(room, most) * _POINT_TEXT, np.uint8),
        }
        if drawn is not None:
            mask = np.zeros(len(rows), np.uint8)
            mask[drawn.rows] = 1
            self._tables["drawn"] = mask
        self.fields = _Fields(
            **{name: table.ctypes.data for name, table in self._tables.items()},
            n_rows=len(rows),
            n_steps=len(steps),
            room_points=room,
            room_text=len(self._tables["text"]),
            most_points=most,
            events=history.events,
            end=end,
            first_id=first_id,
        )

    def parts(self) -> Iterator[bytes]:
        """Yield the rows in the parts that ``lay_strips`` makes."""
        return self._up_to(len(self._history.allocations))

    def cut_parts(self, drawn: Drawn, steps: NDArray[np.int64]) -> Iterator[bytes]:
        """Yield the rows in the parts that ``lay_cut_strips`` makes."""
        n = len(self._history.allocations)
        for until in range(ROWS_AT_ONCE, n + 1, ROWS_AT_ONCE):
            yield b",".join(self._up_to(until))
        rest = _rows(list(lay_rest(self._history, drawn, steps)), self._first_id + n)
        last = [*self._up_to(n), *([rest] if rest else [])]
        if last:
            yield b",".join(last)

    def _up_to(self, until: int) -> Iterator[bytes]:
        while length := self._library.snapreport_strips_go_on(ctypes.byref(self.fields), until):
            yield ctypes.string_at(self.fields.text, length)
