"""Infer the limit of a process set by ``set_per_process_memory_fraction()``: no file has it.

It shows in what was reserved when a request failed, and in what was collected as garbage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.allocator.replay_tape import (
    ALLOCATE,
    MADE,
    MAPPED,
    RETURNED,
    UNMAPPED,
    ReplayTape,
    recorded_reserved,
    where_apart,
)
from snapreport.allocator.replaying import AllocatorModel
from snapreport.history.allocator_settings import (
    MIB,
    UNLIMITED,
    AllocatorSettings,
    segment_sizes,
)
from snapreport.model.snapshot import NO_ID

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
    size = model.rounded(settings)[tape.row[ops[served]]]
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
