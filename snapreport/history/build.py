"""Build a history for each device from a snapshot's columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.progress import Progress, silent
from snapreport.history.allocations import build_allocations, match_blocks
from snapreport.history.block_sizes import NPU_PADDING, SplitRules, split_rules
from snapreport.history.derived_snapshots import match_profiler_blocks
from snapreport.history.other_allocators import backend_in, other_allocator
from snapreport.history.pairing import (
    ABSENT,
    ALLOC,
    COMPLETED,
    REQUESTED,
    Pairs,
    pair_events,
    skipped_of_allocations,
    skipped_of_segments,
    without_events,
    without_internal,
)
from snapreport.history.segment_replay import segment_lives
from snapreport.history.stage_spans import build_stages
from snapreport.history.storage_blocks import join_annotations, state_categories
from snapreport.model.history import INTERNAL, Allocations, DeviceHistory, Events, History
from snapreport.model.snapshot import INACTIVE, NO_ID, PENDING, DeviceId, RawSnapshot, Trace
from snapreport.native.sorting import is_among, stable_order

_PAIRED = (ALLOC, REQUESTED, COMPLETED)


def build_history(snapshot: RawSnapshot, progress: Progress = silent) -> History:
    """Infer from the events of each device what was allocated when.

    Nothing here fails on odd data: what does not fit is counted in ``anomalies``.
    """
    devices = []
    backend = backend_in(snapshot.stacks)
    for done, trace in enumerate(snapshot.traces):
        progress("Pairing events", done / len(snapshot.traces))
        devices.append(_build_device(snapshot, trace, backend))
    oddities = _oddities(snapshot, devices)
    annotated, strings = join_annotations(devices, snapshot, oddities)
    stated, strings = state_categories(annotated, strings, snapshot.recorder)
    return History(
        source=snapshot.source,
        layout=snapshot.layout,
        stacks=snapshot.stacks,
        strings=strings,
        pools=snapshot.pools,
        devices=tuple(_named(device) for device in stated),
        default_device=_default(devices),
        settings=snapshot.settings,
        oddities=oddities,
        recorder=snapshot.recorder,
        length=snapshot.length,
    )


def _build_device(snapshot: RawSnapshot, trace: Trace, backend: tuple[str, str]) -> DeviceHistory:
    segments = snapshot.segments[trace.device]
    pending = segments.block_address[segments.block_state == PENDING]
    pairs = pair_events(trace, pending)
    skipped = _skipped(snapshot, trace, pairs)
    if ALLOC in skipped or {REQUESTED, COMPLETED} <= set(skipped):
        trace = without_events(trace)
        pairs = pair_events(trace, pending)
    pairs, internal = without_internal(pairs, trace)
    anomalies = dict(pairs.anomalies)
    other = _other_events(trace, pairs, internal)
    if snapshot.layout == "profiler":
        held = match_profiler_blocks(pairs, segments, trace)
    else:
        held = match_blocks(pairs, segments, trace, anomalies)
    lives, misfits = segment_lives(other, segments, len(trace))
    if snapshot.layout != "profiler" and len(trace):
        skipped += skipped_of_segments(trace, pairs, segments, misfits)
    if misfits:
        anomalies["segment event that fits no segment"] = misfits
    rules = _rules(snapshot, trace.device, mixed=bool(lives.expandable.any()))
    foreign = None
    if rules is not None and trace.device.kind == "cuda":
        foreign = other_allocator(backend, trace, pairs, segments, rules, _default_pool(snapshot))
    if rules is not None and foreign is not None:
        padding = NPU_PADDING if foreign.known else 0
        rules = replace(rules, padding=padding, unknown=not foreign.known)
    allocations, block_allocation, checks = build_allocations(
        pairs,
        held,
        trace,
        segments,
        lives.where(~lives.expandable),
        snapshot.stacks,
        rules,
    )
    if checks.get("disagreed"):
        anomalies["block of another size than the allocator's rules give"] = checks["disagreed"]
    return DeviceHistory(
        device=trace.device,
        events=len(trace),
        allocations=allocations,
        other=other,
        segments=segments,
        block_allocation=block_allocation,
        stages=build_stages(
            [each for each in snapshot.annotations if each.device == trace.device], trace.time_us
        ),
        anomalies=anomalies,
        skipped=skipped,
        other_allocator=foreign,
    )


def _named(history: DeviceHistory) -> DeviceHistory:
    """Give a device the kind of its allocator: in the file all are numbers."""
    if history.other_allocator is None:
        return history
    kind = history.other_allocator.kind
    return replace(history, device=DeviceId(kind, history.device.ordinal))


def _default_pool(snapshot: RawSnapshot) -> int:
    return snapshot.pools.index((0, 0)) if (0, 0) in snapshot.pools else NO_ID


def _skipped(snapshot: RawSnapshot, trace: Trace, pairs: Pairs) -> tuple[str, ...]:
    """Return which kinds of events a trace left out of those that make allocations."""
    if snapshot.layout == "profiler":
        return ()
    segments = snapshot.segments[trace.device]
    live = segments.block_address[segments.block_state != INACTIVE]
    never = pairs.addr[pairs.completed == ABSENT]
    lost = int((~np.isin(never, live)).sum()) if len(segments) else 0
    return skipped_of_allocations(trace, pairs, lost)


def _rules(snapshot: RawSnapshot, device: DeviceId, *, mixed: bool) -> SplitRules | None:
    """Return the rules for block sizes; None for a profiler, which sees sizes, not blocks."""
    if snapshot.layout == "profiler":
        return None
    rules = split_rules(snapshot.settings, device.kind)
    return rules if rules.pinned else replace(rules, mixed=mixed)


def _other_events(trace: Trace, pairs: Pairs, internal: NDArray[np.int64]) -> Events:
    """Return the events that do not belong to an allocation of the program."""
    paired = np.array([name in _PAIRED for name in trace.actions], np.bool_)
    chosen: NDArray[np.bool_] = ~paired[trace.action] if len(trace) else np.empty(0, np.bool_)
    chosen[pairs.leftover] = True
    chosen[internal] = True
    event = np.flatnonzero(chosen)
    own = is_among(event, internal).tolist()
    actions = [trace.actions[code] for code in trace.action[event].tolist()]
    return Events(
        event=event.astype(np.int64),
        action=[INTERNAL + name if its else name for name, its in zip(actions, own, strict=True)],
        addr=trace.addr[event],
        size=trace.size[event],
        time_us=trace.time_us[event],
        stream=trace.stream[event],
        pool=trace.pool[event],
        stack=trace.stack[event],
    )


def _default(devices: list[DeviceHistory]) -> int:
    """Choose the device to open with: one that ran out of memory, else the one that used most."""

    def weight(history: DeviceHistory) -> tuple[bool, bool, int]:
        failed = "oom" in history.other.action
        return failed, history.device.on_card, _most_requested(history.allocations)

    if len(devices) < 2:
        return 0
    return max(range(len(devices)), key=lambda i: weight(devices[i]))


def _most_requested(allocations: Allocations) -> int:
    events = np.concatenate([allocations.alloc_event, allocations.free_event])
    order = stable_order(events)
    deltas = np.concatenate([allocations.size, -allocations.size])[order]
    return int(np.cumsum(deltas).max(initial=0))


def _oddities(snapshot: RawSnapshot, devices: list[DeviceHistory]) -> dict[str, int]:
    """Add annotations that belong to no device of the file, or to none with event times."""
    oddities = dict(snapshot.oddities)
    placed = {history.device: len(history.stages) for history in devices}
    unplaced = sum(not placed.get(annotation.device) for annotation in snapshot.annotations)
    if unplaced:
        oddities["annotation that cannot be placed"] = unplaced
    return oddities
