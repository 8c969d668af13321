"""Real and simulated traces through the reference model of the allocator."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from snapreport import read
from snapreport.figures.allocator.factual import ModelledDevice, model_device
from snapreport.figures.allocator.tape import ALLOCATE
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings
from snapreport.history.build import build_history
from snapreport.model.history import History
from tests.reference.allocator import Replay, recorded_events
from tests.reference.allocator_parts import Conf, Rules


def conf_of(settings: AllocatorSettings, **other: Any) -> Conf:
    """Return settings as the reference takes them."""
    return Conf(
        expandable=settings.expandable_segments,
        max_split=settings.max_split_size,
        divisions=settings.roundup_power2_divisions,
        large_segment=settings.large_segment_size,
        max_rounding=settings.rounding,
        gc_threshold=settings.garbage_collection_threshold,
        **other,
    )


def recorded_bounds(modelled: ModelledDevice) -> dict[str, int]:
    """Return the capacity or the limit of the process that the recording shows."""
    bound, limited = modelled.factual.capacity, modelled.tape.limited
    return {"limit" if limited else "capacity": UNLIMITED if bound is None else bound}


def replay(modelled: ModelledDevice, rules: Rules | None = None) -> Replay:
    """Replay a recording as it was, through the reference."""
    conf = conf_of(modelled.settings, **recorded_bounds(modelled), room=modelled.tape.room)
    return Replay(modelled.tape, conf, rules).run()


def is_exact(modelled: ModelledDevice, found: Replay) -> bool:
    """Say whether each allocation and each segment event is the recorded one."""
    rows = modelled.tape.row[modelled.tape.op == ALLOCATE]
    placed = np.array(found.address)[rows]
    right = bool((placed == modelled.tape.address[rows]).all())
    return right and list(recorded_events(modelled.tape)) == found.events


def same_outcome(modelled: ModelledDevice, conf: Conf, found: Replay) -> None:
    """Hold the product's model to what the reference found under the same settings."""
    settings = AllocatorSettings(
        expandable_segments=conf.expandable,
        max_split_size=conf.max_split,
        max_non_split_rounding=conf.max_rounding,
        roundup_power2_divisions=conf.divisions,
        large_segment_size=conf.large_segment,
        garbage_collection_threshold=conf.gc_threshold,
        memory_fraction=conf.limit / conf.capacity if conf.limit < UNLIMITED else 0.0,
    )
    from snapreport.figures.allocator.replaying import Addresses

    native = modelled.model.replay(
        settings,
        conf.capacity,
        Addresses(conf.policy),
        room=conf.room,
        stop=conf.stop,
        most_events=len(found.events) + 1,
    )
    assert native.placed.tolist() == found.address
    assert [tuple(each) for each in native.events.tolist()] == found.events
    assert native.n_events == len(found.events)
    outcome = (native.peak, native.reserved, native.retries, native.failed_op)
    assert outcome == (found.peak, found.reserved, found.retries, found.failed_op)


def modelled_devices(history: History) -> list[ModelledDevice]:
    """Return the devices of a file that have something to replay."""
    found = [model_device(history, device) for device in history.devices]
    return [each for each in found if each is not None]


def without_first(path: Path, part: float) -> History:
    """Read a real file whose rings lost a part of their events."""
    snapshot = pickle.loads(path.read_bytes())
    traces = snapshot["device_traces"]
    snapshot["device_traces"] = [trace[int(len(trace) * part) :] for trace in traces]
    return build_history(read.read_bytes(pickle.dumps(snapshot, 4), path.name))
