"""Replay a recording under its own settings, and compare with what the allocator did."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from snapreport.figures.allocator.replaying import AllocatorModel, least_limit, limit_that_collects
from snapreport.figures.allocator.tape import (
    ALLOCATE,
    DEFAULT_POOL,
    FAIL,
    ReplayTape,
    make_tape,
    recorded_reserved,
    reserved_after,
    where_apart,
)
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings, possible_settings
from snapreport.history.block_sizes import find_unsplit_pools
from snapreport.model.history import DeviceHistory, History
from snapreport.model.replays import FactualReplay
from snapreport.model.snapshot import NO_ID

_MOST_SETTINGS = 6
"""How many of the settings that a program may have run under are tried."""
LEAST_EVENTS = 2
"""A trace with fewer events comes from a ring of one entry, and is not a history."""

_known: WeakKeyDictionary[DeviceHistory, tuple[Any, Any]] = WeakKeyDictionary()
"""Cached models of devices, each with the part of its file that it depends on."""


@dataclass(frozen=True, eq=False)
class ModelledDevice:
    """A device with its model and the settings that it was recorded under."""

    history: DeviceHistory
    tape: ReplayTape
    model: AllocatorModel
    settings: AllocatorSettings
    factual: FactualReplay


def model_device(history: History, device: DeviceHistory) -> ModelledDevice | None:
    """Model a device and replay its recording; None where there is nothing to replay.

    What is worked out is kept as long as the device's history is in use.
    """
    about = history.layout, history.settings, history.pools
    before = _known.get(device)
    if before is None or before[0] != about:
        before = _known[device] = about, _model(history, device)
    # Not kept with it: what holds its own key is never let go.
    return None if before[1] is None else ModelledDevice(device, *before[1])


def _model(
    history: History, device: DeviceHistory
) -> tuple[ReplayTape, AllocatorModel, AllocatorSettings, FactualReplay] | None:
    if not device.device.on_card or device.events < LEAST_EVENTS:
        return None
    if history.layout not in ("trace", "torch-2.0") or not len(device.segments):
        return None
    possible = possible_settings(history.settings, device)[:_MOST_SETTINGS]
    settings = possible[0]
    found: tuple[ReplayTape, AllocatorModel, AllocatorSettings, FactualReplay] | None = None
    # Garbage is collected only if the process has a limit, which no file states; and stacks may be
    # too short to distinguish a request from a call of empty_cache().
    garbage = [(False, False)]
    if settings.garbage_collection_threshold > 0:
        garbage = [(True, True), (True, False), (False, False)]
    for settings, (collects, spares), by_stack in product(possible, garbage, (True, False)):
        if found is not None and not by_stack and not _rests_on_stacks(found[0]):
            continue  # it would be the same tape again
        try:
            tape = make_tape(
                device,
                history.pools,
                settings.max_split_size,
                collects=collects,
                spares=spares,
                by_stack=by_stack,
            )
            if not (tape.op == ALLOCATE).any():
                return None
            model = AllocatorModel(tape)
            factual, limited = replay_as_recorded(device, model, settings)
        except ValueError:  # sizes or addresses that no allocator would produce
            return None
        if limited:
            tape = replace(tape, limited=True)
            model = AllocatorModel(tape)
        if found is None or factual.exact:
            found = tape, model, settings, factual
        if factual.exact:
            break
    return found


def _rests_on_stacks(tape: ReplayTape) -> bool:
    """Say whether only stacks show that a successful request gave segments back first."""
    return bool((tape.op[tape.retried] == ALLOCATE).any())


def failed_capacity(modelled: ModelledDevice) -> int | None:
    """Return the bytes segments could have when a request failed; None if none failed.

    That is what was reserved then, plus what the driver reported as free.
    """
    other = modelled.history.other
    reserved = reserved_after(modelled.history)
    failed = [i for i, action in enumerate(other.action) if action == "oom" and other.addr[i] > 0]
    return max((int(reserved[i] + other.addr[i]) for i in failed), default=None)


def replay_as_recorded(
    device: DeviceHistory, model: AllocatorModel, settings: AllocatorSettings
) -> tuple[FactualReplay, bool]:
    """Replay under the recorded settings, never corrected, and compare.

    Returns:
        The comparison, and whether the process has a limit of its own.
    """
    most = int(recorded_reserved(model.tape).max())
    (found, limited), *others = (
        (_compared(device, model, settings, most, bounds), bounds[1] < UNLIMITED)
        for bounds in _bounds(model, settings, most)
    )
    for other in others:
        if other[0].exact and not found.exact:
            return other
    return found, limited


def _bounds(model: AllocatorModel, settings: AllocatorSettings, most: int) -> list[tuple[int, int]]:
    """Return pairs of limits, in bytes, that the card and the process may have set on segments."""
    tape = model.tape
    if len(tape.collected):
        return [(UNLIMITED, limit_that_collects(model, settings, most))]
    if not (len(tape.retried) or (tape.op == FAIL).any()):
        return [(UNLIMITED, UNLIMITED)]
    # What was ever reserved fitted; a request that gave segments back would not have, and what it
    # lacked lay above all that ever was: so this limit decides as the card did.
    bounds = [(most, UNLIMITED)]
    if settings.expandable_segments:
        bounds.append((UNLIMITED, least_limit(model, settings)))
    return bounds


def _compared(
    device: DeviceHistory,
    model: AllocatorModel,
    settings: AllocatorSettings,
    most: int,
    bounds: tuple[int, int],
) -> FactualReplay:
    tape, recorded = model.tape, model.tape.recorded
    capacity, limit = bounds
    found = model.replay(
        settings, capacity, limit=limit, room=tape.room, most_events=len(recorded) + 1
    )
    rows = tape.row[tape.op == ALLOCATE]
    right = found.placed[rows] == tape.address[rows]
    wanted = recorded.table
    count = min(len(wanted), len(found.events))
    met = (wanted[:count] == found.events[:count]).all(axis=1)
    apart = [op if op != NO_ID else len(tape) - 1 for op in where_apart(wanted, found.events)]
    apart += np.flatnonzero(tape.op == ALLOCATE)[~right][:1].tolist()
    if device.other_allocator is not None:  # where it happens to agree, that predicts nothing
        apart.append(0)
    divergence = int(tape.event[min(apart)]) if apart else None
    curve = [0, 1, 3]  # segments of the same sizes come and go at the same operations
    return FactualReplay(
        settings=str(settings),
        allocations=len(rows),
        placed=int(right.sum()),
        segment_events=len(wanted),
        segment_events_met=int(met.sum()),
        reserved_equal=found.n_events == len(wanted)
        and bool((wanted[:, curve] == found.events[:, curve]).all()),
        peak_reserved=most,
        peak_reserved_model=found.peak,
        capacity=None if min(bounds) == UNLIMITED else min(bounds),
        retries=len(tape.retried),
        undecided=tape.undecided,
        divergence=divergence,
        cause="" if divergence is None else _cause(device, tape, settings, divergence),
        not_modelled=settings.refusal,
    )


def _cause(device: DeviceHistory, tape: ReplayTape, settings: AllocatorSettings, event: int) -> str:
    """Name the likely cause of a first divergence: a code of ``CAUSES``."""
    rows = device.allocations
    if device.other_allocator is not None:
        return "other-allocator"
    if device.anomalies or device.skipped:
        return "events-missing"
    if settings.not_modelled:
        return "setting-unknown"
    expandable = device.segments.expandable
    if expandable.any() and not expandable.all():
        return "settings-changed"
    if len(find_unsplit_pools(device.segments, settings)):
        return "no-split-pool"
    if any(pool != DEFAULT_POOL for pool, _ in tape.lanes):
        return "private-pool"
    if (rows.block_size < rows.block_size_max).any():
        return "block-range"
    at = np.flatnonzero(tape.event == event)
    if len(at) and (tape.retried <= at[0]).any():
        return "other-memory"
    return "unknown"
