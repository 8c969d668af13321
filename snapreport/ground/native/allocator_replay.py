"""Replays a program's requests through the model of the caching allocator, or asks it live."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.library import (
    Replay,
    address,
    checked,
    copied,
    library,
    pointer,
    taken,
)
from snapreport.ground.records import dataclass

AS_RECORDED, ASCENDING, DESCENDING, FIRST_FIT, ANYWHERE = range(5)
"""Policies for where new segments lie, as in allocator.c."""
_SEGMENT_COLUMNS, EVENT_COLUMNS, BLOCK_COLUMNS = 6, 4, 8
_OF_OPS = ("op", "row", "given", "freeable", "failed_size", "failed_lane")
_OF_ROWS = ("rounded", "lane", "address", "block")


@dataclass(frozen=True, eq=False)
class Replayed:
    """The result of a replay; sizes in bytes."""

    placed: NDArray[np.int64]
    """Where each allocation lies, 0 for nowhere; int64, shape (n_rows,)."""
    events: NDArray[np.int64]
    """Segment events, shape (n, 4): operation, kind, address, size; at most ``most_events``."""
    n_events: int
    reserved: int
    """At the end."""
    peak: int
    """Most bytes reserved."""
    retries: int
    """How often all cached memory was returned to the driver to serve a request."""
    driver_calls: int
    """Segments got from or returned to the driver; of expandable ones each granule counts."""
    failed_op: int
    """The first operation whose request could not be served; -1 for none."""
    enough: int
    """The smallest capacity at which an attempt would have ended differently; 1 << 62 for none."""


_FOUND = tuple(each.name for each in fields(Replayed)[2:])


@dataclass(frozen=True, eq=False)
class ReplayColumns:
    """The input of many replays, in the columns that allocator.c takes, checked once."""

    columns: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(
        cls,
        operations: Mapping[str, NDArray[np.int64]],
        rows: Mapping[str, NDArray[np.int64]],
        lane_pool: NDArray[np.int64],
        segments: NDArray[np.int64],
    ) -> ReplayColumns:
        """Take columns.

        Args:
            operations: int64, shape (n_ops,): op, row, given, freeable, failed_size, failed_lane.
            rows: int64, shape (n_rows,): rounded, lane, address, block.
            lane_pool: int64, shape (n_lanes,), ascending; 0 is the default pool.
            segments: int64, shape (n, 6), by address: address, size, lane, large, expandable, and
                where the entire range of an expandable one begins.

        Raises:
            ValueError: a column has another shape.
        """
        n_ops, n_rows = len(operations["op"]), len(rows["block"])
        kept = {name: taken(np.int64, n_ops, operations[name])[0] for name in _OF_OPS}
        kept |= {name: taken(np.int64, n_rows, rows[name])[0] for name in _OF_ROWS}
        there = np.flatnonzero(kept["block"])
        kept["start_rows"] = there[np.argsort(kept["address"][there], kind="stable")]
        kept["lane_pool"] = taken(np.int64, len(lane_pool), lane_pool)[0]
        if segments.ndim != 2 or segments.shape[1] != _SEGMENT_COLUMNS:
            raise ValueError(f"segments have the shape {segments.shape}")
        kept["segments"] = taken(np.int64, segments.size, segments.reshape(-1))[0]
        return cls(kept)

    def replay(self, settings: Mapping[str, int], most_events: int = 0) -> Replayed:
        """Replay all operations, or up to the first request that fails.

        Args:
            settings: expandable, max_split, rounding, large_segment, garbage, capacity, limit,
                room, policy, seed, below, above and stop, as in allocator.c.
            most_events: segment events to keep.

        Raises:
            ValueError: a column or a setting is out of range.
            MemoryError: there is not enough memory for the model.
        """
        placed = np.zeros(len(self.columns["block"]), np.int64)
        events = np.zeros((most_events, EVENT_COLUMNS), np.int64)
        given = Replay(
            **self._places_and_lengths,
            placed=address(placed),
            events=address(events),
            room_events=most_events,
            **settings,
        )
        checked(library().replay(pointer(given)))
        found = {name: getattr(given, name) for name in _FOUND}
        return Replayed(placed, events[: given.n_events], **found)

    @cached_property
    def _places_and_lengths(self) -> dict[str, int]:
        """Return the columns' addresses and lengths, once for the dozens of replays of a search."""
        columns = self.columns
        return {
            **{name: address(column) for name, column in columns.items()},
            "n_ops": len(columns["op"]),
            "n_rows": len(columns["block"]),
            "n_start": len(columns["start_rows"]),
            "n_lanes": len(columns["lane_pool"]),
            "n_segments": len(columns["segments"]) // _SEGMENT_COLUMNS,
        }


class LiveReplay:
    """The model of a device that is empty at first, to be asked one operation at a time.

    An allocation is a row of the columns. Of those that are not live, the caller may make any,
    once its size and lane are in there. One thread may ask at a time.
    """

    def __init__(self, n_lanes: int, settings: Mapping[str, int]) -> None:
        """Begin.

        Args:
            n_lanes: how many streams there can be; all are served from the default pool.
            settings: as for ``ReplayColumns.replay``, and checked likewise.
        """
        # Arrays of Python's: NumPy takes three times as long for a single number.
        self.rounded, self.lane, self.placed, self.sizes = (array("q") for _ in range(4))
        """Of each row: rounded bytes and lane, to be set before it is allocated; then where it lies
        or 0 for nowhere, and the bytes of its block."""
        self._op, self._row, *nothing = (array("q", [0]) for _ in _OF_OPS)
        self._pools = np.zeros(n_lanes, np.int64)
        places = [each.buffer_info()[0] for each in (self._op, self._row, *nothing)]
        self._nothing = nothing
        self.state = Replay(
            **dict(zip(_OF_OPS, places, strict=True)),
            **settings,
            lane_pool=address(self._pools),
            n_lanes=n_lanes,
            n_ops=1,
            live=1,
        )
        """How much is reserved and allocated, among others: ``replay`` in allocator.c."""
        self._pointer, self._go_on = pointer(self.state), library().replay_go_on
        checked(library().replay_begin(self._pointer))
        weakref.finalize(self, library().replay_end, self._pointer)

    def add_rows(self, count: int) -> None:
        """Add rows that may be allocated."""
        for name in ("rounded", "lane", "placed", "sizes"):
            column = getattr(self, name)
            column.frombytes(bytes(count * column.itemsize))
            setattr(self.state, name, column.buffer_info()[0])
        self.state.n_rows = len(self.placed)

    def do(self, op: int, row: int = 0) -> None:
        """Do an operation, of a row or of none.

        Raises:
            ValueError: there is no such row, it is live and is to be made again, or its size or
                lane is out of range; all is as before.
            MemoryError: there is not enough memory for the model, which is of no more use.
        """
        self._op[0], self._row[0] = op, row
        if answer := self._go_on(self._pointer):
            checked(answer)

    def take_events(self) -> NDArray[np.int64]:
        """Return the segment events since the last call, as in ``Replayed``."""
        state = self.state
        events = copied(state.events, state.n_events * EVENT_COLUMNS, np.int64)
        state.n_events = 0
        return events.reshape(-1, EVENT_COLUMNS)

    def blocks(self) -> NDArray[np.int64]:
        """Return all blocks.

        Returns:
            int64, shape (n, 8), by address: address, size, state, row or -1, lane, large,
            expandable, and whether a segment begins with it.
        """
        table = np.empty((0, BLOCK_COLUMNS), np.int64)
        n = library().replay_blocks(self._pointer, table, 0)
        table = np.empty((n, BLOCK_COLUMNS), np.int64)
        library().replay_blocks(self._pointer, table, n)
        return table[np.argsort(table[:, 0])]
