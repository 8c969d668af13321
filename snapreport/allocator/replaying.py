"""Replay a tape through the model of the allocator, with given settings and card size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.allocator.replay_tape import DEFAULT_POOL, MOST_ROOM, ReplayTape
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings
from snapreport.history.block_sizes import SplitRules, round_sizes
from snapreport.model.history import START
from snapreport.model.snapshot import NO_ID
from snapreport.native.allocator_replay import AS_RECORDED, ReplayColumns, Replayed

TOP = 1 << 60
"""Above all recorded addresses, as in allocator.c."""


@dataclass(frozen=True)
class Addresses:
    """Where the driver puts new segments, which is not known beforehand."""

    policy: int = AS_RECORDED
    seed: int = 0


class AllocatorModel:
    """The model of the allocator, ready to replay one tape under any settings."""

    def __init__(self, tape: ReplayTape) -> None:
        self.tape = tape
        self._columns: dict[tuple[int, ...], ReplayColumns] = {}

    def rounded(self, settings: AllocatorSettings) -> NDArray[np.int64]:
        """Return the bytes that each allocation asks of the pools; int64, shape (n_rows,)."""
        return round_sizes(self.tape.size, SplitRules(settings.roundup_power2_divisions))

    def replay(
        self,
        settings: AllocatorSettings,
        capacity: int = UNLIMITED,
        addresses: Addresses = Addresses(),
        *,
        limit: int | None = None,
        room: int | None = None,
        stop: bool = False,
        most_events: int = 0,
    ) -> Replayed:
        """Replay the program's requests.

        Args:
            settings: the allocator's.
            capacity: bytes that all segments may have together.
            addresses: where new segments lie.
            limit: bytes that the process may have of them; if None, by the settings, or else
                the capacity where the process was found to have one.
            room: addresses of an expandable segment; 9/8 of the capacity if None, or more than
                enough without one, unless some are there at the start.
            stop: whether the first request that cannot be served ends it.
            most_events: segment events to keep.
        """
        tape = self.tape
        if room is None:
            unlimited = tape.room if tape.reserved else MOST_ROOM
            room = unlimited if capacity >= UNLIMITED else capacity * 9 // 8
        if limit is None:
            share = settings.memory_fraction or float(tape.limited)
            limit = int(share * capacity) if share and capacity < UNLIMITED else UNLIMITED
        garbage = settings.garbage_collection_threshold
        return self._asked(settings).replay(
            {
                "expandable": int(settings.expandable_segments),
                "max_split": settings.max_split_size,
                "rounding": settings.rounding,
                "large_segment": settings.large_segment_size,
                "garbage": int(garbage * limit) if limit < UNLIMITED else 0,
                "capacity": min(capacity, UNLIMITED),
                "limit": limit,
                "room": min(room, 1 << 48),
                "policy": addresses.policy,
                "seed": addresses.seed,
                "below": int(tape.segments[0, 0]) if len(tape.segments) else TOP,
                "stop": int(stop),
            },
            most_events,
        )

    def _asked(self, settings: AllocatorSettings) -> ReplayColumns:
        divisions = settings.roundup_power2_divisions
        if divisions not in self._columns:
            tape = self.tape
            pools = [pool for pool, _ in tape.lanes]
            numbers = {pool: i for i, pool in enumerate(dict.fromkeys([DEFAULT_POOL, *pools]))}
            failed = tape.failed_size
            if divisions:
                failed = np.where(
                    failed > 0, round_sizes(np.maximum(failed, 1), SplitRules(divisions)), 0
                )
            self._columns[divisions] = ReplayColumns.of(
                {
                    "op": tape.op,
                    "row": tape.row,
                    "given": tape.given,
                    "freeable": tape.freeable,
                    "failed_size": failed,
                    "failed_lane": tape.failed_lane,
                },
                {
                    "rounded": self.rounded(settings),
                    "lane": tape.lane,
                    "address": tape.address,
                    "block": tape.block,
                },
                np.array([numbers[pool] for pool in pools], np.int64),
                tape.segments,
            )
        return self._columns[divisions]


_OPERATION_COLUMNS = (
    "op", "row", "event", "given", "freeable", "failed_size", "failed_lane", "waited",
)  # fmt: skip


def with_operations(
    tape: ReplayTape, kinds: list[int], rows: NDArray[np.int64] | int = NO_ID
) -> ReplayTape:
    """Return a tape with operations before all others, of some allocations or of none."""
    first: dict[str, Any] = {"op": kinds, "row": rows, "event": START}

    def longer(name: str) -> NDArray[np.int64]:
        values = np.broadcast_to(np.asarray(first.get(name, 0), np.int64), len(kinds))
        return np.concatenate([values, getattr(tape, name)])

    columns: dict[str, Any] = {name: longer(name) for name in _OPERATION_COLUMNS}
    return replace(tape, **columns)


def chosen_operations(tape: ReplayTape, chosen: NDArray[np.bool_] | slice) -> ReplayTape:
    """Return a tape of some of the operations; what was recorded of them stays as it is."""
    return replace(tape, **{name: getattr(tape, name)[chosen] for name in _OPERATION_COLUMNS})
