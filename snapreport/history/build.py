"""Build a history for each device from a snapshot's columns.

Besides what its events tell, a device has what the program said: the stages between annotations,
notes on single allocations, and what the storages in them were at the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import distinct, is_among, stable_order
from snapreport.ground.progress import Progress, silent
from snapreport.history.allocations import build_allocations, match_blocks, match_profiler_blocks
from snapreport.history.allocator_settings import NPU_PADDING, recorded_settings
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
from snapreport.history.segments import known_lives
from snapreport.model.history import (
    ANNOTATE,
    INTERNAL,
    START,
    Allocations,
    DeviceHistory,
    Events,
    History,
    Stages,
    forecast_time,
)
from snapreport.model.snapshot import (
    INACTIVE,
    NO_ID,
    NO_TIME,
    PENDING,
    Annotation,
    DeviceId,
    RawSnapshot,
    RecorderInfo,
    Trace,
)

_PAIRED = (ALLOC, REQUESTED, COMPLETED)


def build_history(snapshot: RawSnapshot, progress: Progress = silent) -> History:
    """Infer from the events of each device what was allocated when.

    Nothing here fails on odd data: what does not fit is counted in ``anomalies``.
    """
    devices = []
    backend = backend_in(snapshot.stacks)
    timeless = snapshot.recorder is not None and snapshot.recorder.forecast is not None
    for done, trace in enumerate(snapshot.traces):
        progress("Pairing events", done / len(snapshot.traces))
        built = _build_device(snapshot, trace, backend)
        devices.append(_without_times(built) if timeless else built)
    oddities = _oddities(snapshot, devices)
    annotated, strings = _join_annotations(devices, snapshot, oddities)
    stated, strings = _state_categories(annotated, strings, snapshot.recorder)
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
    lives, misfits = known_lives(other, segments, len(trace))
    if snapshot.layout != "profiler" and len(trace):
        skipped += skipped_of_segments(other, pairs, segments, misfits)
    if misfits:
        anomalies["segment event that fits no segment"] = misfits
    rules = foreign = None
    if snapshot.layout != "profiler":  # which sees sizes, not blocks
        rules = recorded_settings(snapshot.settings, trace.device.kind)
        rules = replace(rules, mixed=bool(lives.expandable.any()))
        if trace.device.kind == "cuda":
            pool = _default_pool(snapshot)
            foreign = other_allocator(backend, trace, pairs, segments, rules, pool)
        if foreign is not None:
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


def _without_times(history: DeviceHistory) -> DeviceHistory:
    """Forget when a forecast computed what: it says nothing of the program's own times.

    Until here times placed its stages among the events. Theirs are then those of ``forecast_time``;
    where a marker was lost there is none, as before.
    """
    rows, other, stages = history.allocations, history.other, history.stages

    def none(times: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.full(len(times), NO_TIME, np.int64)

    def counted(times: NDArray[np.int64], event: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(times == NO_TIME, NO_TIME, forecast_time(event) - 1)

    return replace(
        history,
        allocations=replace(
            rows,
            alloc_time_us=none(rows.alloc_time_us),
            free_requested_time_us=none(rows.free_requested_time_us),
            free_time_us=none(rows.free_time_us),
        ),
        other=replace(other, time_us=none(other.time_us)),
        stages=replace(
            stages,
            start_time_us=counted(stages.start_time_us, stages.start_event),
            end_time_us=counted(stages.end_time_us, stages.end_event),
        ),
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
    lost = int((~is_among(never, live)).sum()) if len(segments) else 0
    return skipped_of_allocations(pairs, lost)


def _other_events(trace: Trace, pairs: Pairs, internal: NDArray[np.int64]) -> Events:
    """Return the events that do not belong to an allocation of the program."""
    paired = np.array([name in _PAIRED for name in trace.actions], np.bool_)
    chosen: NDArray[np.bool_] = ~paired[trace.action] if len(trace) else np.empty(0, np.bool_)
    chosen[pairs.leftover] = True
    chosen[internal] = True
    event = np.flatnonzero(chosen)
    names = [*trace.actions, *(INTERNAL + name for name in trace.actions)]
    code = trace.action[event] + len(trace.actions) * is_among(event, internal)
    return Events(
        event=event.astype(np.int64),
        action=[names[number] for number in code.tolist()],
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


# Stages

_FOREVER = 2**62


def build_stages(annotations: Sequence[Annotation], time_us: NDArray[np.int64]) -> Stages:
    """Pair one device's markers and place them among its events.

    An END belongs to the latest open START of its name. At equal times a START counts as before
    and an END as after the events: a convention, the file does not say.

    Args:
        annotations: in recorded order.
        time_us: int64, shape (n_events,); without times stages cannot be placed, and none are.
    """
    spans = _pair(annotations)
    if len(time_us) and (time_us == NO_TIME).all():
        spans = []
    # Stages in order of their start, an outer one before what begins with it.
    spans.sort(key=lambda span: (span[1] if span[1] != NO_TIME else -1, -(_end(span))))
    # A lower max_entries in mid-recording can put times out of order; the index is the clock.
    clock = time_us if (time_us[1:] >= time_us[:-1]).all() else np.maximum.accumulate(time_us)
    starts = np.array([span[1] for span in spans], np.int64)
    ends = np.array([span[2] for span in spans], np.int64)
    start_event = np.searchsorted(clock, starts, side="left").astype(np.int64)
    end_event = np.searchsorted(clock, ends, side="right").astype(np.int64)
    first = int(clock[0]) if len(clock) else 0
    start_event[(starts == NO_TIME) | ((starts < first) & (len(clock) > 0))] = START
    end_event[ends == NO_TIME] = len(time_us)
    end_event[(ends != NO_TIME) & (ends < first)] = START
    parent, depth = _nest(spans)
    return Stages(
        name=[span[0] for span in spans],
        parent=np.array(parent, np.int32),
        depth=np.array(depth, np.int32),
        start_event=start_event,
        end_event=np.maximum(end_event, start_event),
        start_time_us=starts,
        end_time_us=ends,
    )


_Span = tuple[str, int, int]
"""Name, start and end in microseconds, NO_TIME where the marker is not there."""


def _end(span: _Span) -> int:
    return span[2] if span[2] != NO_TIME else _FOREVER


def _pair(annotations: Sequence[Annotation]) -> list[_Span]:
    names: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    opened: dict[str, list[int]] = {}
    for marker in annotations:
        if marker.start:
            opened.setdefault(marker.name, []).append(len(names))
        elif opened.get(marker.name):
            ends[opened[marker.name].pop()] = marker.time_us
            continue
        names.append(marker.name)
        # An END alone: its START was overwritten in the ring.
        starts.append(marker.time_us if marker.start else NO_TIME)
        ends.append(NO_TIME if marker.start else marker.time_us)
    return list(zip(names, starts, ends, strict=True))


def _nest(spans: list[_Span]) -> tuple[list[int], list[int]]:
    """Return each stage's parent, the innermost stage that contains it entirely, and its depth."""
    parent: list[int] = []
    depth: list[int] = []
    # Stages that none after them outlasts, so that each ends before the one before it; and their
    # ends, negative, as bisect wants them to grow.
    around: list[int] = []
    ends: list[int] = []
    for index, span in enumerate(spans):
        # The latest that is still on and lasts as long. Threads can overlap without nesting: such
        # a stage stays open, but is no parent.
        holder = bisect_right(ends, -max(_end(span), span[1] + 1)) - 1
        parent.append(around[holder] if holder >= 0 else -1)
        depth.append(depth[around[holder]] + 1 if holder >= 0 else 0)
        while ends and ends[-1] >= -_end(span):
            ends.pop()
            around.pop()
        ends.append(-_end(span))
        around.append(index)
    return parent, depth


# What the program said of its allocations


def _join_annotations(
    devices: Sequence[DeviceHistory], snapshot: RawSnapshot, oddities: dict[str, int]
) -> tuple[tuple[DeviceHistory, ...], list[str]]:
    """Add each annotation to the metadata of the allocation that was live at its address.

    Metadata that was set when memory was allocated stays the first line. Each annotation is a line
    of its own, in the order of the events.

    Args:
        devices: the devices of the file.
        snapshot: the file.
        oddities: annotations that fit no allocation are counted here.

    Returns:
        the devices and all texts, both new where there is an annotation.
    """
    if not any(ANNOTATE in trace.actions for trace in snapshot.traces):
        return tuple(devices), snapshot.strings
    texts = list(snapshot.strings)
    known = {text: i for i, text in enumerate(texts)}
    left = snapshot.length  # a file can repeat one long text for each of its allocations
    changed = []
    for device, trace in zip(devices, snapshot.traces, strict=True):
        events, rows = _annotated(device.allocations, trace)
        metadata = device.allocations.metadata.copy()
        for event, row in zip(events.tolist(), rows.tolist(), strict=True):
            what = trace.metadata[event]
            if what == NO_ID:
                continue
            if row == NO_ID:
                name = "annotation of memory that is not allocated"
                oddities[name] = oddities.get(name, 0) + 1
                continue
            if metadata[row] != NO_ID:
                left -= len(texts[metadata[row]]) + len(texts[what])
                if left < 0:
                    name = "annotation that is too long to keep"
                    oddities[name] = oddities.get(name, 0) + 1
                    continue
                text = f"{texts[metadata[row]]}\n{texts[what]}"
                what = known.setdefault(text, len(texts))
                if what == len(texts):
                    texts.append(text)
            metadata[row] = what
        allocations = replace(device.allocations, metadata=metadata)
        changed.append(replace(device, allocations=allocations))
    return tuple(changed), texts


def _annotated(rows: Allocations, trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the events that annotate, and the allocation that each names; NO_ID for none."""
    names = np.array([name == ANNOTATE for name in trace.actions], np.bool_)
    events = np.flatnonzero(names[trace.action]) if len(trace) else np.empty(0, np.int64)
    addresses, place = distinct(rows.addr)
    turns = len(trace) + 2
    key = place * turns + rows.alloc_event + 1
    order = stable_order(key)
    at = np.searchsorted(addresses, trace.addr[events])
    before = np.searchsorted(key[order], at * turns + events + 1) - 1
    found = np.full(len(events), NO_ID, np.int64)
    named = np.flatnonzero(before >= 0)
    row = order[before[named]]
    live = (rows.addr[row] == trace.addr[events[named]]) & (events[named] < rows.free_event[row])
    found[named[live]] = row[live]
    return events, found


def _state_categories(
    devices: Sequence[DeviceHistory], strings: list[str], noted: RecorderInfo | None
) -> tuple[tuple[DeviceHistory, ...], list[str]]:
    """Give allocations the categories and names of the storages in them at the end.

    A name is that of a parameter or buffer in its module, such as ``blocks.3.mlp.weight``; it is
    the allocation's metadata where PyTorch recorded none.

    Args:
        devices: the devices of a file.
        strings: its texts, which categories point into; left as they are.
        noted: what the recorder noted, with the storages.

    Returns:
        the devices and texts, both new where a storage was found. What the trace states itself
        stays, and a storage that begins inside an allocation names nothing: the rest is not its.
    """
    if noted is None or not noted.storages:
        return tuple(devices), strings
    texts = list(strings)
    known = {text: i for i, text in reversed(list(enumerate(texts)))}

    def place(text: str) -> int:
        if text not in known:
            known[text] = len(texts)
            texts.append(text)
        return known[text]

    changed = []
    for device in devices:
        storages = {
            each.address: each for each in noted.storages if each.device == str(device.device)
        }
        rows = device.allocations
        category, metadata = rows.category.copy(), rows.metadata.copy()
        # Only one allocation can be live at an address; older ones there were something else.
        live = rows.free_requested_event == device.events
        for row in np.flatnonzero(live).tolist():
            storage = storages.get(int(rows.addr[row]))
            if storage is None:
                continue
            if category[row] < 0:
                category[row] = place(storage.kind)
            if metadata[row] < 0 and storage.name:
                metadata[row] = place(storage.name)
        named = replace(rows, category=category, metadata=metadata)
        changed.append(replace(device, allocations=named))
    return tuple(changed), texts
