"""Compare settings for a report: a table, and what each would have reserved over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.allocator.factual import ModelledDevice, failed_capacity
from snapreport.allocator.other_settings import replay_settings, table_of_settings
from snapreport.allocator.replay_tape import MADE, MAPPED
from snapreport.allocator.replaying import Addresses
from snapreport.ground.progress import Progress, silent
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings
from snapreport.model.history import START
from snapreport.model.replay.replays import ReservedCurve, SettingsStudy
from snapreport.native.allocator_replay import ASCENDING

QUICK = 20_000
"""A report has the tables by default up to this many operations on all devices (at most 2 s)."""
_RUNS = 128
"""The most runs of events in a curve, each with two points."""


def is_quick(devices: Sequence[ModelledDevice]) -> bool:
    """Return whether comparing settings is quick, by counts, which do not depend on the machine."""
    return sum(len(each.tape) for each in devices if each.factual.explains) <= QUICK


def study_settings(
    modelled: ModelledDevice, *, compare: bool, progress: Progress = silent
) -> SettingsStudy:
    """Return what a report says about other allocator settings.

    Args:
        modelled: the device.
        compare: whether to replay under them, which takes half a minute for a million events.
        progress: called with the work done.
    """
    wanted = table_of_settings(modelled.settings) if compare else []
    found = replay_settings(modelled, wanted, failed_capacity(modelled), progress)
    done = wanted if found.outcomes else []
    return SettingsStudy(
        found, tuple(reserved_curve(modelled, each) for each in done if each != modelled.settings)
    )


def reserved_curve(modelled: ModelledDevice, settings: AllocatorSettings) -> ReservedCurve:
    """Return the reserved bytes over time under a setting; new segments go above all others."""
    tape, model = modelled.tape, modelled.model
    count = model.replay(settings, UNLIMITED, Addresses(ASCENDING)).n_events
    replayed = model.replay(settings, UNLIMITED, Addresses(ASCENDING), most_events=count)
    op, kind, _, size = replayed.events.T
    values = np.cumsum(np.where((kind == MADE) | (kind == MAPPED), size, -size)) + tape.reserved
    event = np.maximum.accumulate(tape.event[op])
    last = np.ones(len(event), np.bool_)  # keep the last of several changes at one event
    last[:-1] = event[1:] != event[:-1]
    kept = _thinned(event[last], values[last], modelled.history.events)
    return ReservedCurve(
        str(settings),
        np.concatenate([[START], kept[0]]),
        np.concatenate([[tape.reserved], kept[1]]),
    )


def _thinned(
    event: NDArray[np.int64], values: NDArray[np.int64], events: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Reduce each run of events to its highest value, at its first change, and its last value."""
    if len(event) <= 2 * _RUNS:
        return event, values
    run = event * _RUNS // max(events, 1)
    first = np.flatnonzero(np.diff(run, prepend=-1))
    last = np.append(first[1:], len(run)) - 1
    most = np.maximum.reduceat(values, first)
    single = first == last
    where = np.stack([event[first], event[last]], axis=1)
    what = np.stack([most, values[last]], axis=1)
    keep = np.stack([np.ones(len(first), np.bool_), ~single], axis=1)
    return where[keep], what[keep]
