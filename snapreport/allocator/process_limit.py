"""The limit of a process, as ``set_per_process_memory_fraction()`` sets it: no file has it.

What was reserved when a request failed, and what was collected as garbage, tell of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.allocator.allocator_settings import (
    LEAST_SEGMENT,
    MIB,
    UNLIMITED,
    AllocatorSettings,
)
from snapreport.allocator.replay_tape import (
    ALLOCATE,
    MADE,
    MAPPED,
    RETURNED,
    UNMAPPED,
    ReplayTape,
    recorded_reserved,
)
from snapreport.allocator.replaying import AllocatorModel
from snapreport.model.snapshot import NO_ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLOSE = MIB
"""Limits that differ by less make no difference: segments come in steps of 2 MiB."""
_MOST_TRIES = 24
_STEP = 2 * MIB
"""Segments are multiples of it; a small one is as large."""


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
    low, high = least, max(int(_reserved_before(tape, tape.collected).min() / share), least + 1)
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
    """Return the least limit that lets every request through that got memory, in bytes.

    The limit is held against whole segments, as large as they would be if none could grow: so
    with expandable segments a request can fail for which the card has memory.
    """
    tape, recorded = model.tape, model.tape.recorded
    grew = np.flatnonzero((recorded.kind == MADE) | (recorded.kind == MAPPED))
    ops, first = np.unique(recorded.op[grew], return_index=True)
    served = (ops != NO_ID) & (tape.op[ops] == ALLOCATE)
    size = model.rounded(settings)[tape.row[ops[served]]]
    large = np.where(size < LEAST_SEGMENT, settings.large_segment_size, -(-size // _STEP) * _STEP)
    segment = np.where(size <= MIB, _STEP, large)
    before = recorded_reserved(tape)[grew[first[served]]]
    return int((before + segment).max(initial=0))


def _reserved_before(tape: ReplayTape, ops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes reserved before each of some operations with segment events."""
    first = [int((tape.recorded.op == op).argmax()) for op in ops.tolist()]
    return recorded_reserved(tape)[first]


def _wrong_by(tape: ReplayTape, events: NDArray[np.int64]) -> int:
    """Say of a replay whether its limit was too low (-1) or too high (1), by where it departs.

    Under too low a limit a request gives back too much, or gets nothing. 0 where no operation
    differs, or where that is not the difference.
    """
    recorded = np.stack(
        [tape.recorded.op, tape.recorded.kind, tape.recorded.address, tape.recorded.size], axis=1
    )
    both = min(len(recorded), len(events))
    differ = np.flatnonzero((recorded[:both] != events[:both]).any(axis=1))
    at = int(differ[0]) if len(differ) else both
    ops = [int(side[at, 0]) for side in (recorded, events) if at < len(side)]
    ops = [op for op in ops if op != NO_ID]
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
