"""Replay a tape through the model of the allocator, with given settings and limits.

From that follow the limit that a process had, the least capacity with which a setting serves every
request, and, as a recording leaves some things open, the tapes that are consistent with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.allocator.tape import (
    ALLOCATE,
    AWAIT,
    DEFAULT_POOL,
    EMPTY_CACHE,
    FAIL,
    FREE,
    MADE,
    MAPPED,
    MOST_ROOM,
    PERHAPS,
    RETURNED,
    UNMAPPED,
    ReplayTape,
    recorded_reserved,
    where_apart,
)
from snapreport.ground.native.allocator_replay import AS_RECORDED, ReplayColumns, Replayed
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import MIB, UNLIMITED, AllocatorSettings, segment_sizes
from snapreport.history.block_sizes import MIN_BLOCK, round_sizes
from snapreport.model.history import START
from snapreport.model.snapshot import NO_ID

TOP = 1 << 60
"""Above all recorded addresses, as in allocator.c."""


@dataclass(frozen=True)
class Addresses:
    """Where the driver puts new segments, which is not known beforehand."""

    policy: int = AS_RECORDED
    seed: int = 0
    above: int = TOP
    """Where addresses that go up begin."""


def native_settings(
    settings: AllocatorSettings,
    capacity: int,
    addresses: Addresses,
    *,
    limit: int | None = None,
    room: int | None = None,
    stop: bool = False,
    tape: ReplayTape | None = None,
) -> dict[str, int]:
    """Return settings as allocator.c takes them.

    Args:
        settings, capacity, addresses, limit, room, stop: as for ``AllocatorModel.replay``.
        tape: what is replayed; None for a program that runs and has nothing at the start.
    """
    if room is None:
        unlimited = tape.room if tape is not None and tape.reserved else MOST_ROOM
        room = unlimited if capacity >= UNLIMITED else capacity * 9 // 8
    if limit is None:
        share = settings.memory_fraction or float(tape is not None and tape.limited)
        limit = int(share * capacity) if share and capacity < UNLIMITED else UNLIMITED
    garbage = settings.garbage_collection_threshold
    return {
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
        "below": int(tape.segments[0, 0]) if tape is not None and len(tape.segments) else TOP,
        "above": addresses.above,
        "stop": int(stop),
    }


class AllocatorModel:
    """The model of the allocator, ready to replay one tape under any settings."""

    def __init__(self, tape: ReplayTape) -> None:
        self.tape = tape
        self._columns: dict[tuple[int, ...], ReplayColumns] = {}

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
        given = native_settings(
            settings, capacity, addresses, limit=limit, room=room, stop=stop, tape=self.tape
        )
        return self._asked(settings).replay(given, most_events)

    def _asked(self, settings: AllocatorSettings) -> ReplayColumns:
        divisions = settings.roundup_power2_divisions
        if divisions not in self._columns:
            tape = self.tape
            pools = [pool for pool, _ in tape.lanes]
            numbers = {pool: i for i, pool in enumerate(dict.fromkeys([DEFAULT_POOL, *pools]))}
            failed = tape.failed_size
            if divisions:
                failed = np.where(failed > 0, round_sizes(np.maximum(failed, 1), settings), 0)
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
                    "rounded": round_sizes(tape.size, settings),
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


# The limit of a process, set by set_per_process_memory_fraction(): no file has it, but it shows in
# what was reserved when a request failed, and in what was collected as garbage.

_CLOSE = MIB
"""Limits that differ by less make no difference: segments come in steps of 2 MiB."""
_MOST_TRIES = 24


def limit_that_collects(model: AllocatorModel, settings: AllocatorSettings, least: int) -> int:
    """Return a limit under which the model collects garbage where the recording shows it.

    Segments are given back as garbage only where more is reserved than a share of the limit, and
    until that is reached. So what was reserved then bounds the limit from above, and each attempt
    that collects too much or too little bounds it further.

    Args:
        model: of a device that collected garbage.
        settings: the recorded ones.
        least: bytes that were reserved at most, so the limit is no lower.

    Returns:
        Bytes, ``least`` or more; UNLIMITED where none was.
    """
    tape, share = model.tape, settings.garbage_collection_threshold
    if not (len(tape.collected) and share > 0):
        return UNLIMITED
    first = [int((tape.recorded.op == op).argmax()) for op in tape.collected.tolist()]
    low, high = least, max(int(recorded_reserved(tape)[first].min() / share), least + 1)
    tried = high - 1
    for _ in range(_MOST_TRIES):
        found = model.replay(
            settings, limit=tried, room=tape.room, most_events=len(tape.recorded) + 1
        )
        wrong = _wrong_by(tape, found.events)
        if not wrong:
            break
        low, high = (tried + 1, high) if wrong < 0 else (low, tried)
        if high - low < _CLOSE:
            break
        tried = (low + high) // 2
    return tried


def least_limit(model: AllocatorModel, settings: AllocatorSettings) -> int:
    """Return the lowest limit that allows every request that was served, in bytes.

    The limit is checked for entire segments, as large as they would be if none could grow. So with
    expandable segments a request can fail even if the card has enough memory.
    """
    tape, recorded = model.tape, model.tape.recorded
    grew = np.flatnonzero((recorded.kind == MADE) | (recorded.kind == MAPPED))
    ops, first = np.unique(recorded.op[grew], return_index=True)
    served = (ops != NO_ID) & (tape.op[ops] == ALLOCATE)
    size = round_sizes(tape.size[tape.row[ops[served]]], settings)
    before = recorded_reserved(tape)[grew[first[served]]]
    return int((before + segment_sizes(size, settings)).max(initial=0))


def _wrong_by(tape: ReplayTape, events: NDArray[np.int64]) -> int:
    """Say whether a replay's limit was too low (-1) or too high (1), by its first difference.

    Under too low a limit a request gives back too much, or gets nothing. 0 where no operation
    differs, or where that is not the difference.
    """
    recorded = tape.recorded.table
    ops = [op for op in where_apart(recorded, events) if op != NO_ID]
    if not ops:
        return 0
    for kinds, too_high in (((RETURNED, UNMAPPED), -1), ((MADE, MAPPED), 1)):
        wanted, found = (
            int(np.isin(side[side[:, 0] == min(ops), 1], kinds).sum())
            for side in (recorded, events)
        )
        if found != wanted:
            return too_high if found > wanted else -too_high
    return 0


# The least capacity

LONG = 300_000
"""Above this many operations the search tries fewer capacities, to answer while one waits."""
UNIT = 2 << 20
"""Segments and granules are multiples of this, so capacities between have no effect."""
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Fit:
    """The results of one replay without a limit, and of the search for the smallest capacity."""

    capacity: int
    peak: int
    retries: int
    driver_calls: int


class CapacitySearch:
    """Replays of one start of a recording under one setting."""

    def __init__(
        self,
        model: AllocatorModel,
        settings: AllocatorSettings,
        floor: int,
    ) -> None:
        self._model, self._settings = model, settings
        self._stride = 4 if len(model.tape) > LONG else 2
        # Before a smaller capacity than what was reserved at the start there was no cache.
        self._emptied = (
            AllocatorModel(with_operations(model.tape, [EMPTY_CACHE]))
            if model.tape.reserved
            else model
        )
        self._may_last = _depends_on_capacity_alone(model, settings)
        self._known: dict[Addresses, list[tuple[int, Replayed]]] = {}
        least = floor
        if model.tape.reserved:
            only = chosen_operations(self._emptied.tape, slice(1))
            least = max(floor, AllocatorModel(only).replay(settings).reserved)
        self._least = -(-least // UNIT) * UNIT

    def at(self, capacity: int, addresses: Addresses) -> Replayed:
        """Replay on a card with this capacity, up to the first request that fails.

        Where another capacity had the same result, that one is returned, without its columns.
        """
        if capacity < self._model.tape.reserved:
            return self._emptied.replay(self._settings, capacity, addresses, stop=True)
        known = self._known.setdefault(addresses, [])
        for least, found in known:
            if least <= capacity < found.enough:
                return found
        found = self._model.replay(self._settings, capacity, addresses, stop=True)
        if self._may_last:
            known.append((found.peak, _without_columns(found)))
        return found

    def serves(self, capacity: int, addresses: Addresses) -> bool:
        """Say whether every request is served."""
        return capacity >= self._least and self.at(capacity, addresses).failed_op < 0

    def find(self, addresses: Addresses, near: int | None = None) -> Fit:
        """Find the smallest capacity that serves everything, as does every larger one tried.

        Success is not monotone in the capacity: with more, more is cached, in other places. So
        larger capacities than the boundary found by bisection are tried as well.

        Args:
            addresses: where new segments lie.
            near: a capacity that is likely the answer, or close to it.
        """
        free = self._model.replay(self._settings, UNLIMITED, addresses)
        if self._may_last and free.failed_op < 0:
            self._known.setdefault(addresses, []).append((free.peak, _without_columns(free)))
        high = -(-max(free.peak, self._least) // UNIT) * UNIT
        low = self._least - UNIT  # does not serve
        if near is not None and low < near < high:
            low, high = self._around(near, low, high, addresses)
        low, high = self._bisected(low, high, addresses)
        step = UNIT
        while high + step < free.peak:
            if not self.serves(high + step, addresses):
                low, high = self._bisected(high + step, -(-free.peak // UNIT) * UNIT, addresses)
                step = UNIT
                continue
            step *= self._stride
        found = self.at(high, addresses)
        return Fit(high, free.peak, found.retries, found.driver_calls)

    def _around(self, near: int, low: int, high: int, addresses: Addresses) -> tuple[int, int]:
        """Return closer bounds: one that does not serve and one that does."""
        step = UNIT
        if self.serves(near, addresses):
            high = near
            while high - step > low and self.serves(high - step, addresses):
                high -= step
                step *= 4
            return max(low, high - step), high
        low = near
        while low + step < high and not self.serves(low + step, addresses):
            low += step
            step *= 4
        return low, min(high, low + step)

    def _bisected(self, low: int, high: int, addresses: Addresses) -> tuple[int, int]:
        while high - low > UNIT:
            middle = (low + high) // (2 * UNIT) * UNIT
            if self.serves(middle, addresses):
                high = middle
            else:
                low = middle
        return low, high


def _without_columns(found: Replayed) -> Replayed:
    """Return a result without where each allocation lies: a search keeps dozens of results."""
    return replace(found, placed=_NOTHING, events=_NOTHING)


def _depends_on_capacity_alone(model: AllocatorModel, settings: AllocatorSettings) -> bool:
    """Say whether replays are the same as long as each attempt to get a segment ends alike.

    Then one is valid from its own peak up to what would have been enough for an attempt that
    failed. The room of an expandable segment depends on the capacity, and so does a limit.
    """
    expandable = settings.expandable_segments or bool(model.tape.segments[:, 4].any())
    return not (expandable or settings.memory_fraction or model.tape.limited)


# Tapes for what a recording leaves open. Under the recorded settings they all give the same result;
# under others they may differ.


def possible_tapes(tape: ReplayTape, recorded: AllocatorSettings) -> list[ReplayTape]:
    """Return the tapes that are consistent with a recording, the recorded one first.

    A request that lacks memory waits until other streams are done with freed memory. When they
    would have been done otherwise is not known: at once at the earliest, never at the latest. And
    of a failed request, only the size after the recorded rounding is known.
    """
    found = [tape]
    if (tape.waited == PERHAPS).any():
        found.append(_completed_before(tape))
    if tape.waited.any():
        found.append(chosen_operations(tape, tape.waited == 0))
    if recorded.roundup_power2_divisions and (tape.op == FAIL).any():
        found += [_less_failed(each, recorded) for each in found]
    return found


def from_scratch(tape: ReplayTape) -> ReplayTape:
    """Return a tape that begins with empty memory and first requests what was there, by address.

    It is the best layout that another setting could have had when the recording began.
    """
    there = _held_at_start(tape)
    longer = with_operations(tape, [ALLOCATE] * len(there), there)
    return replace(longer, block=np.zeros_like(tape.block), segments=tape.segments[:0])


def scattered(tape: ReplayTape) -> ReplayTape:
    """Return a tape that begins with every large block in a segment of its own.

    What the program had done before, and so what was between the blocks, is only known under the
    recorded settings. This is the most memory that these blocks can keep from being given back.
    """
    there = _held_at_start(tape)
    size = round_sizes(tape.size[there], AllocatorSettings())
    segment = segment_sizes(size, AllocatorSettings())
    behind = np.where(size > MIB, segment - size, 0)
    filled = np.flatnonzero(behind > MIB)
    first = len(tape.size)
    rows = first + np.arange(len(filled))
    # Each block, then what fills its segment; once all are there, the latter is freed.
    place = np.concatenate([2 * np.arange(len(there)), 2 * filled + 1])
    begun = np.concatenate([there, rows])[np.argsort(place)]
    kinds = [ALLOCATE] * len(begun) + [FREE] * len(rows)

    def more(column: NDArray[np.int64], values: NDArray[np.int64] | int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.concatenate([column, np.zeros(len(rows), np.int64) + values])
        return found

    return replace(
        with_operations(tape, kinds, np.concatenate([begun, rows])),
        size=more(tape.size, behind[filled]),
        lane=more(tape.lane, tape.lane[there[filled]]),
        address=more(tape.address, 0),
        block=np.zeros(first + len(rows), np.int64),
        segments=tape.segments[:0],
    )


def _held_at_start(tape: ReplayTape) -> NDArray[np.int64]:
    """Return the allocations from before the recording, by address."""
    there = np.flatnonzero(tape.block)
    return there[np.argsort(tape.address[there], kind="stable")]


def _completed_before(tape: ReplayTape) -> ReplayTape:
    """Return a tape in which frees that may or may not have waited did not wait."""
    perhaps = tape.waited == PERHAPS
    waited_for = np.isin(tape.row, tape.row[perhaps]) & (tape.op == AWAIT)
    at_once = replace(tape, op=np.where(waited_for, FREE, tape.op))
    return chosen_operations(at_once, ~perhaps)


def _less_failed(tape: ReplayTape, recorded: AllocatorSettings) -> ReplayTape:
    """Return a tape in which failed requests have the smallest size that is rounded to theirs."""
    failed = np.flatnonzero(tape.op == FAIL)
    size = tape.failed_size[failed]
    high = size // MIN_BLOCK
    low = high // 2 - 1  # rounding adds less than as much again
    while (high - low > 1).any():
        middle = (low + high) // 2
        fits = round_sizes(middle * MIN_BLOCK, recorded) >= size
        open_ = high - low > 1
        high = np.where(open_ & fits, middle, high)
        low = np.where(open_ & ~fits, middle, low)
    least = tape.failed_size.copy()
    least[failed] = high * MIN_BLOCK
    return replace(tape, failed_size=least)
