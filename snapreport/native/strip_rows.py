"""Lays out strips, and writes the rows of ``allocations.json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.native.library import Strips, address, library, pointer, taken, text_at

_POINT_TEXT = 2 * 21 + (64 + 3 * 20) // 2
"""Characters of a point at most, with its share of the rest of its row: as in strips.c."""


class StripRows:
    """Writes the rows of a device; each call goes on where the last one stopped."""

    def __init__(
        self,
        rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        drawn: NDArray[np.bool_] | None,
        samples: NDArray[np.int64],
        events: int,
        first_id: int,
        most_points: int,
    ) -> None:
        """Make the tables, and check the input.

        Args:
            rows: the event of each allocation's birth, ascending from -1 on, the later event of its
                end, and its size. int64, shape (n,).
            drawn: bool, shape (n,), whether each is drawn; None where all are.
            samples: int64, shape (n_samples,), where to sample: ascending, with the last event.
            events: how many events there are.
            first_id: the first row's ``elem``.
            most_points: of rows that are written at once, if they are more than one.

        Raises:
            ValueError: events or sizes are not valid.
        """
        self._n, end = len(rows[0]), max(events, 1)
        room = 2 * len(samples) + 2
        alloc_event, free_event, size = taken(np.int64, self._n, *rows)
        self._tables: dict[str, NDArray[Any]] = {
            "alloc_event": alloc_event,
            "free_event": free_event,
            "size": size,
            "samples": taken(np.int64, len(samples), samples)[0],
            "live": np.zeros(len(samples), np.uint64),
            "freed": np.zeros(end + 1, np.uint64),
            "point_events": np.empty(room, np.int64),
            "point_offsets": np.empty(room, np.uint64),
            "text": np.empty(max(room, most_points) * _POINT_TEXT, np.uint8),
        }
        if drawn is not None:
            self._tables["drawn"] = taken(np.bool_, self._n, drawn)[0]
        self._strips = Strips(
            **{name: address(table) for name, table in self._tables.items()},
            n_rows=self._n,
            n_samples=len(samples),
            room_points=room,
            room_text=len(self._tables["text"]),
            most_points=most_points,
            events=events,
            end=end,
            first_id=first_id,
        )
        if not library().strips_begin(pointer(self._strips)):
            raise ValueError("the allocations or the events are not in order")

    def up_to(self, row: int) -> Iterator[bytes]:
        """Yield the next rows up to this one, some at a time, with commas between them."""
        while length := library().strips_go_on(pointer(self._strips), row):
            yield text_at(self._strips.text, length)
