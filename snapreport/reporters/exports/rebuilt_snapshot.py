"""Turns a history back into what PyTorch would have pickled: plain dicts, lists and numbers.

Nothing that snapreport counts is lost. What a bundle does not hold is missing: keys that it does
not know, the stale sizes of inactive blocks, which equal lists were the same object, and the
stacks of frees if they repeated those of the allocations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapreport.model.history import (
    ANNOTATE,
    INTERNAL,
    START,
    Allocations,
    DeviceHistory,
    History,
    Stages,
    forecast_time,
)
from snapreport.model.snapshot import (
    BLOCK_STATES,
    GRADIENT_OF,
    NO_ID,
    NO_STACK,
    NO_TIME,
    SOURCE,
    STATED,
    UNKNOWN_LINE,
    Segments,
)

Event = dict[str, Any]


def rebuild(history: History) -> dict[str, Any]:
    """Return a snapshot that gives the same history when it is read."""
    return _Rebuilder(history).snapshot()


class _Rebuilder:
    """Makes each frame and each call stack once, and shares it wherever it occurs."""

    def __init__(self, history: History) -> None:
        self._history = history
        frames = history.stacks.frames
        self._frames = [
            {
                "name": name,
                "filename": filename,
                "line": 2**64 - 1 if line == UNKNOWN_LINE else line,
                **frames.extra.get(i, {}),
            }
            for i, (name, filename, line) in enumerate(
                zip(frames.names, frames.filenames, frames.lines.tolist(), strict=True)
            )
        ]
        self._forward = frames.of_forward().tolist()
        self._stacks: dict[int, dict[str, list[Any]]] = {}

    def snapshot(self) -> dict[str, Any]:
        """Return the snapshot, with devices at the places that PyTorch gives them."""
        by_kind: dict[str, dict[int, DeviceHistory]] = {"cuda": {}, "host": {}, "cpu": {}}
        for device in self._history.devices:
            kind = "cuda" if device.device.on_card else device.device.kind
            by_kind[kind][device.device.ordinal] = device
        cuda = by_kind["cuda"]
        traces = [
            self._trace(cuda[ordinal]) if ordinal in cuda else []
            for ordinal in range(max(cuda, default=-1) + 1)
        ]
        segments = [
            segment
            for ordinal in sorted(cuda)
            for segment in self._segments(cuda[ordinal], ordinal)
        ]
        places = dict(cuda)
        for device in by_kind["cpu"].values():  # the profiler's, after the GPUs
            segments += self._segments(device, len(traces))
            places[len(traces)] = device
            traces.append(self._trace(device))
        whole: dict[str, Any] = {"segments": segments, "device_traces": traces}
        if self._history.layout == "no-segments":
            del whole["segments"]
        if self._history.layout == "segments":  # that layout has no traces, not even empty ones
            whole["device_traces"] = []
        host = by_kind["host"]
        if host:
            whole["host_segments"] = [s for o in sorted(host) for s in self._segments(host[o], o)]
            whole["host_traces"] = [
                self._trace(host[ordinal]) if ordinal in host else []
                for ordinal in range(max(host) + 1)
            ]
        if self._history.settings:
            whole["allocator_settings"] = self._history.settings
        if self._history.recorder is not None:
            whole["snapreport"] = self._history.recorder.as_plain()
        markers = [
            {**marker, "device": place}
            for place in sorted(places)
            for marker in _markers(places[place].stages)
        ]
        if markers:
            whole["external_annotations"] = markers
        return whole

    def _stack(self, stack: int) -> dict[str, list[Any]]:
        """Return the fields of an event or block that has a stack."""
        known = self._stacks.get(stack)
        if known is None:
            path = list(self._history.stacks.path(stack))
            known = {"frames": [self._frames[f] for f in path if not self._forward[f]]}
            forward = [self._traceback_line(f) for f in reversed(path) if self._forward[f]]
            if forward:
                known["forward_frames"] = forward
            self._stacks[stack] = known
        return known

    def _traceback_line(self, frame: int) -> str:
        frames = self._history.stacks.frames
        function = frames.names[frame].removeprefix(GRADIENT_OF)
        line = f'  File "{frames.filenames[frame]}", line {frames.lines[frame]}, in {function}\n'
        code = frames.extra.get(frame, {}).get(SOURCE)
        return f"{line}    {code}\n" if code else line

    def _trace(self, device: DeviceHistory) -> list[Event]:
        events: list[Event | None] = [None] * device.events
        self._add_allocations(device, events)
        other, rows = device.other, device.allocations
        # No other event names these, so their annotation has all that was said of them.
        lasting = (rows.alloc_event == START) & (rows.free_event == device.events)
        said = lasting & (rows.metadata != NO_ID)
        texts = dict(zip(rows.addr[said].tolist(), rows.metadata[said].tolist(), strict=True))
        for i, index in enumerate(other.event.tolist()):
            action = other.action[i]
            addr = "device_free" if action == "oom" else "addr"
            event: Event = {addr: int(other.addr[i]), "size": int(other.size[i])}
            event["action"] = action.removeprefix(INTERNAL)
            if action.startswith(INTERNAL):
                event["internal_metadata"] = "mallocWithAddress"
            event["stream"] = int(other.stream[i])
            if action == ANNOTATE and (text := texts.pop(int(other.addr[i]), None)) is not None:
                event["user_metadata"] = self._history.strings[text]
            if other.pool[i] != NO_ID:
                event["pool_id"] = self._history.pools[other.pool[i]]
            self._finish(event, int(other.time_us[i]), int(other.stack[i]))
            events[index] = event
        found = [event for event in events if event is not None]
        if self._history.forecast is not None:  # so that a reader can place the stages
            times = forecast_time(np.arange(len(found)))
            for event, time in zip(found, times.tolist(), strict=True):
                event["time_us"] = time
        return found

    def _add_allocations(self, device: DeviceHistory, events: list[Event | None]) -> None:
        rows = device.allocations
        # context="alloc": frees carry the stack of their allocation, the only one of a baseline
        # block whose own alloc was not recorded.
        repeats = bool((rows.free_stack == NO_STACK).all())
        free_stack = (rows.stack if repeats else rows.free_stack).tolist()
        alloc_stack = rows.stack.tolist()
        frees: list[tuple[int, str, int, int]] = []
        columns = zip(
            rows.alloc_event.tolist(),
            rows.free_requested_event.tolist(),
            rows.free_event.tolist(),
            strict=True,
        )
        for i, (alloc, requested, completed) in enumerate(columns):
            if alloc != START:
                events[alloc] = self._event(
                    "alloc", rows, i, int(rows.alloc_time_us[i]), alloc_stack[i]
                )
            if START < requested < device.events and requested != completed:
                time = int(rows.free_requested_time_us[i])
                frees.append((requested, "free_requested", i, time))
            if completed < device.events:
                frees.append((completed, "free_completed", i, int(rows.free_time_us[i])))
        for index, action, i, time in frees:
            if events[index] is None:  # an alloc at the same address ends it without a free
                events[index] = self._event(action, rows, i, time, free_stack[i])

    def _event(self, action: str, rows: Allocations, i: int, time: int, stack: int) -> Event:
        event = {
            "action": action,
            "addr": int(rows.addr[i]),
            "size": int(rows.size[i]),
            "stream": int(rows.stream[i]),
        }
        self._finish(event, time, stack)
        strings = self._history.strings
        for key, column in (
            ("compile_context", rows.compile_context),
            ("user_metadata", rows.metadata),
            ("category", rows.category),
        ):
            if column[i] != NO_ID:
                event[key] = strings[column[i]]
        if rows.pool[i] != NO_ID:
            event["pool_id"] = self._history.pools[rows.pool[i]]
        return event

    def _finish(self, event: Event, time: int, stack: int) -> None:
        if time != NO_TIME:
            event["time_us"] = time
        if stack != NO_STACK:
            event.update(self._stack(stack))

    def _segments(self, device: DeviceHistory, ordinal: int) -> list[dict[str, Any]]:
        segments = device.segments
        rows = [self._segment(segments, i, ordinal) for i in range(len(segments))]
        for i, segment in enumerate(segments.block_segment.tolist()):
            stack = int(segments.block_stack[i])
            rows[segment]["blocks"].append(
                {
                    "address": int(segments.block_address[i]),
                    "size": int(segments.block_size[i]),
                    "requested_size": int(segments.block_requested[i]),
                    "state": BLOCK_STATES[segments.block_state[i]],
                    **({"frames": []} if stack == NO_STACK else self._stack(stack)),
                }
            )
        return rows

    def _segment(self, segments: Segments, i: int, ordinal: int) -> dict[str, Any]:
        stack = int(segments.stack[i])
        row: dict[str, Any] = {
            "device": ordinal,
            "address": int(segments.address[i]),
            "total_size": int(segments.size[i]),
        }
        stated = zip(STATED, segments.stated[i].tolist(), strict=True)
        row.update({name: size for name, size in stated if size >= 0})
        row["stream"] = int(segments.stream[i])
        if self._history.layout != "profiler":  # a profiler's segments have no type
            row["segment_type"] = "large" if segments.large[i] else "small"
        if segments.pool[i] != NO_ID:
            row["segment_pool_id"] = self._history.pools[segments.pool[i]]
        row["is_expandable"] = bool(segments.expandable[i])
        row.update({"frames": []} if stack == NO_STACK else self._stack(stack))
        row["blocks"] = []
        return row


def _markers(stages: Stages) -> list[dict[str, Any]]:
    """Return the START and END markers of stages, ordered so that they pair as recorded."""
    found = []
    for i, name in enumerate(stages.name):
        start, end = int(stages.start_time_us[i]), int(stages.end_time_us[i])
        if start != NO_TIME:
            found.append((start, 1, {"name": name, "stage": "START", "time_us": start}))
        if end != NO_TIME:
            # At the same time, ends come before starts, but a stage of no length starts first.
            rank = 2 if start == end else 0
            found.append((end, rank, {"name": name, "stage": "END", "time_us": end}))
    return [marker for _, _, marker in sorted(found, key=lambda each: each[:2])]
