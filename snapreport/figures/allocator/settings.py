"""Replay a recording under other settings and on other cards, if its own replay is exact.

That tells what a setting would have needed, which one would have served a request that failed, and
what each would have reserved over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.allocator.factual import ModelledDevice, failed_capacity
from snapreport.figures.allocator.replaying import (
    LONG,
    Addresses,
    AllocatorModel,
    CapacitySearch,
    Fit,
    chosen_operations,
    from_scratch,
    possible_tapes,
    scattered,
)
from snapreport.figures.allocator.tape import DEFAULT_POOL, FAIL, MADE, MAPPED
from snapreport.ground.native.allocator_replay import ANYWHERE, ASCENDING, DESCENDING, FIRST_FIT
from snapreport.ground.progress import Progress, silent
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import MIB, UNLIMITED, AllocatorSettings, parse_settings
from snapreport.history.block_sizes import live_floor
from snapreport.model.history import START
from snapreport.model.replays import (
    CAUSES,
    Between,
    OtherSettings,
    ReservedCurve,
    SettingOutcome,
    SettingsStudy,
)

WAYS = (
    *(Addresses(ASCENDING), Addresses(DESCENDING), Addresses(FIRST_FIT)),
    *(Addresses(ANYWHERE, seed) for seed in range(1, 6)),
)
"""Where the driver may put new segments; which of these it would choose is not known."""
_FEW_WAYS = 3
TABLE = (
    "default",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:256",
    "roundup_power2_divisions:8",
)
"""The settings of the table besides the recorded ones."""


def replay_settings(
    modelled: ModelledDevice,
    wanted: Sequence[AllocatorSettings],
    capacity: int | None = None,
    progress: Progress = silent,
) -> OtherSettings:
    """Replay a recording under settings, each for its smallest capacity.

    Args:
        modelled: the device.
        wanted: the settings.
        capacity: bytes that the segments may have together; None if not asked for.
        progress: called with the work done.
    """
    divided = bool(modelled.settings.roundup_power2_divisions)
    least = live_floor(modelled.history, divided)
    floor = least.bytes
    refused = _refusal(modelled)
    hopeless = capacity is not None and floor > capacity
    ways = WAYS[:_FEW_WAYS] if len(modelled.tape) > LONG else WAYS
    outcomes = []
    if refused or hopeless:
        wanted = ()
    # Each start is as long as the recording, so none is built unless needed.
    starts, worst = _starts(modelled) if wanted else ([], [])
    from_tapes = len(starts) - len(worst)
    for done, settings in enumerate(wanted):
        fits: list[Fit] = []
        fitting: list[bool] = []
        for number, start in enumerate(starts):
            if number >= from_tapes and settings == modelled.settings:
                continue  # this setting made the recorded layout
            search = CapacitySearch(start, settings, floor)
            for each, way in enumerate(ways):
                share = (number + each / len(ways)) / len(starts)
                progress("Replaying under other settings", (done + share) / len(wanted))
                fits.append(search.find(way, fits[-1].capacity if fits else None))
                if capacity is not None:
                    serves = search.serves(capacity, way)
                    # A capacity below one that fails may still serve, but only by luck.
                    fitting += [serves, serves and capacity >= fits[-1].capacity]
        recorded = settings == modelled.settings
        if worst and capacity is not None and not recorded:
            # The initial layout under this setting is not known: so no setting is said to fail, and
            # one is said to serve only if it does so with every layout tried.
            for start in worst if all(fitting) else ():
                search = CapacitySearch(start, settings, floor)
                fitting += [search.serves(capacity, way) for way in ways]
            fitting = fitting if all(fitting) else []
        outcomes.append(_outcome(settings, recorded, fits, fitting))
    return OtherSettings(
        factual=modelled.factual,
        floor=floor,
        floor_event=least.event,
        capacity=capacity,
        refused=refused,
        outcomes=tuple(outcomes),
        tried=len(ways),
        starts=2 if modelled.tape.reserved else 1,
    )


def _starts(modelled: ModelledDevice) -> tuple[list[AllocatorModel], list[AllocatorModel]]:
    """Return the starts to replay from: as recorded, then, if it began late, as many tidy ones.

    The second list has as many untidy ones; it is empty if the recording did not begin late.
    """
    tapes = possible_tapes(modelled.tape, modelled.settings)
    recorded = [modelled.model, *map(AllocatorModel, tapes[1:])]
    if not modelled.tape.reserved:
        return recorded, []
    tidy = [AllocatorModel(from_scratch(tape)) for tape in tapes]
    return [*recorded, *tidy], [AllocatorModel(scattered(tape)) for tape in tapes]


def table_of_settings(recorded: AllocatorSettings) -> list[AllocatorSettings]:
    """Return the settings of the table, the recorded ones first."""
    others = [parse_settings(text) for text in TABLE]
    return [recorded, *(each for each in others if each != recorded)]


def _refusal(modelled: ModelledDevice) -> str:
    """Return a sentence that says why other settings are not replayed; ``""`` if they are."""
    factual = modelled.factual
    if factual.not_modelled:
        return f"Other settings are not replayed: {factual.not_modelled}."
    if factual.exact:
        return ""
    return (
        f"Other settings are not replayed: under the recorded one the model puts"
        f" {factual.placed:,} of {factual.allocations:,} allocations where they were, and"
        f" departs from the recording at event {factual.divergence:,}; the likely cause:"
        f" {CAUSES[factual.cause]}."
    )


def _outcome(
    settings: AllocatorSettings, recorded: bool, fits: list[Fit], fitting: list[bool]
) -> SettingOutcome:
    def between(name: str) -> Between:
        values = [getattr(fit, name) for fit in fits]
        return Between(min(values), max(values))

    serves = fitting[0] if fitting and len(set(fitting)) == 1 else None
    return SettingOutcome(
        settings=str(settings),
        recorded=recorded,
        capacity=between("capacity"),
        peak=between("peak"),
        retries=between("retries"),
        driver_calls=between("driver_calls"),
        serves=serves,
    )


# A request that failed

_MOST_WORK = 2_500_000
"""The most operations to replay, so that a report does not have to wait: about 0.3 s."""
_SPLIT_SIZES = tuple(size * MIB for size in (512, 256, 128, 64, 32))
"""For ``max_split_size_mb``: large ones first, as they cost least."""
_DIVISIONS = (8,) * 16


@dataclass(frozen=True)
class FailedSettings:
    """Other settings for a request that failed, as ``PYTORCH_ALLOC_CONF`` has them."""

    allocations: int
    """Allocations made in the recording, all at the addresses that the model predicts."""
    late: bool
    """Whether memory was allocated before the recording. Where it would be under other settings is
    not known, so both its recorded layout and a fresh one are tried."""
    serve: tuple[str, ...]
    """Settings that serve every request up to and including this one, wherever the driver puts
    segments; the least intrusive first."""
    fail: tuple[str, ...]
    """Settings under which it fails wherever the driver puts segments; ranges are in words."""


def settings_for_failed(
    modelled: ModelledDevice, event: int, capacity: int
) -> FailedSettings | None:
    """Replay a recording up to its first failed request under other settings.

    Args:
        modelled: the device.
        event: of the request.
        capacity: bytes that segments could have together when it failed.

    Returns:
        None where the model does not explain the recording and this failure, and nothing follows:
        the replay is not exact, another request failed before, the request was for a private pool,
        the process has a limit of its own or was recorded with rounded sizes, or the model would
        have served the request or refused an earlier one at this capacity. Likewise where it
        decides nothing.
    """
    tape, recorded = modelled.tape, modelled.settings
    failed = [int(op) for op in (tape.op == FAIL).nonzero()[0]]
    if not modelled.factual.explains or not failed or int(tape.event[failed[0]]) != event:
        return None
    if tape.limited or recorded.memory_fraction or recorded.roundup_power2_divisions:
        return None
    if tape.lanes[int(tape.failed_lane[failed[0]])][0] != DEFAULT_POOL:
        return None
    tape = chosen_operations(tape, slice(failed[0] + 1))
    model = AllocatorModel(tape)
    as_it_was = model.replay(recorded, capacity, room=tape.room, stop=True)
    if capacity < tape.reserved or as_it_was.failed_op != failed[0]:
        return None
    tapes = possible_tapes(tape, recorded)
    if tape.reserved:
        tapes += [*map(from_scratch, tapes), *map(scattered, tapes)]
    starts = [AllocatorModel(each) for each in tapes]
    left = _MOST_WORK
    serve, fail = [], []
    for name, group in _candidates(recorded):
        failed_too = 0
        for settings in group:
            answers: set[bool] = set()
            for start, way in product(starts, WAYS[:_FEW_WAYS]):
                left -= len(start.tape)
                if len(answers) == 2 or left < 0:
                    answers.clear()
                    break
                found = start.replay(settings, capacity, way, stop=True)
                answers.add(found.failed_op < 0)
            if answers == {True}:
                serve.append(_text(settings))
                break
            failed_too += answers == {False}
        if failed_too == len(group):
            fail.append(name)
    if not (serve or fail):
        return None
    return FailedSettings(
        modelled.factual.allocations, bool(tape.reserved), tuple(serve), tuple(fail)
    )


def _candidates(recorded: AllocatorSettings) -> list[tuple[str, list[AllocatorSettings]]]:
    """Return groups, the least intrusive first; of each, the first that serves is enough."""
    other = replace(recorded, expandable_segments=not recorded.expandable_segments)
    rounded = replace(recorded, roundup_power2_divisions=_DIVISIONS)
    groups = [(_text(other), [other])]
    if recorded.max_split_size == UNLIMITED and recorded.large_segment_size <= _SPLIT_SIZES[0]:
        sizes = [size for size in _SPLIT_SIZES if size >= recorded.large_segment_size]
        name = f"max_split_size_mb from {min(sizes) // MIB} to {max(sizes) // MIB}"
        groups.append((name, [replace(recorded, max_split_size=size) for size in sizes]))
    return [*groups, (_text(rounded), [rounded])]


def _text(settings: AllocatorSettings) -> str:
    """Return what to set the environment variable to."""
    text = str(settings)
    return "expandable_segments:False" if text == "default" else text


# Comparing settings in a report

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
