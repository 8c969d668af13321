"""Writes a trace for ui.perfetto.dev: a counter for each curve, a slice for each allocation.

The format is Perfetto's protobuf, not Chrome's JSON: counters are exact integers, times have
nanoseconds, and each call stack is stored once. An event lasts at least a nanosecond, so that
events of the same microsecond keep their order and no peak between two of them is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.protobuf import data, number, text, varint
from snapreport.model.asked import (
    CURVES,
)
from snapreport.model.findings import DeviceFigures
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import NO_TIME
from snapreport.reporters.exports.stack_weights import Export, site_names, stack_nodes, stack_texts


def lanes(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return each span's lane, from 0: the lowest that is free when the span begins.

    Args:
        spans: begin and end of each, in order of their begin; a lane is free again at the end.
    """
    found = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for begin, end in spans:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found


# Numbers of fields and values in Perfetto's trace_packet.proto, track_event.proto, ...
_SLICE_BEGIN, _SLICE_END, _INSTANT, _COUNTER = 1, 2, 3, 4
_SIZE_BYTES = 3
_EXPLICIT_ORDER = 3
_BOOTTIME, _REALTIME = 6, 1
_SEQUENCE = number(10, 1)
_CLEARED, _NEEDED = _SEQUENCE + number(13, 1), _SEQUENCE + number(13, 2)

MIB = 2**20
SIZES = (
    ("Allocations of 256 MiB and more", 256 * MIB),
    ("Allocations of 16 to 256 MiB", 16 * MIB),
    ("Allocations of 1 to 16 MiB", MIB),
    ("Allocations under 1 MiB", 0),
)
"""Rows of the timeline, so that the few large allocations do not get lost among small ones."""


_Emit = Callable[[bytes], None]


def write_perfetto(export: Export, out: BinaryIO) -> None:
    """Write each device as a group of tracks; slices last as long as they count in the curve."""

    def emit(packet: bytes) -> None:
        out.write(b"\x0a" + varint(len(packet)) + packet)

    begin = min(
        (d.found.first_time_us for d in export.devices if d.found.first_time_us is not None),
        default=None,
    )
    if begin is not None:
        # Says that the trace's clock is the wall clock, so that the page can show dates.
        clocks = [number(1, clock) + number(2, begin * 1000) for clock in (_BOOTTIME, _REALTIME)]
        snapshot = b"".join(data(1, clock) for clock in clocks) + number(2, _BOOTTIME)
        emit(data(6, snapshot) + _SEQUENCE)
    names = _Interner()
    emit(_CLEARED + data(12, b""))
    for place in range(len(export.devices)):
        _Device(export, place, begin or 0, names, emit).write()


def event_times_ns(found: DeviceFigures, begin_us: int) -> NDArray[np.int64]:
    """Return when each event is drawn, in nanoseconds, ascending; int64, shape (events + 1,).

    The first is the start, a nanosecond before event 0. Without recorded times an event lasts a
    microsecond.
    """
    events = found.history.events
    times = found.times
    if not len(times) or (times == NO_TIME).all():
        clock: NDArray[np.int64] = begin_us * 1000 + 1000 * np.arange(1, events + 2, dtype=np.int64)
        return clock
    index = np.arange(events, dtype=np.int64)
    first = int(times[int(np.argmax(times != NO_TIME))])
    ns = np.where(times == NO_TIME, first, times) * 1000
    ns = np.maximum.accumulate(ns - index) + index  # an unknown time is that of the event before
    return np.concatenate([[ns[0] - 1], ns]).astype(np.int64)


class _Interner:
    """Texts that packets refer to by number, in order of first use."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int, str], int] = {}

    def id(self, kind: int, string: str, emit: _Emit) -> int:
        """Return a text's number; a new text is written out first."""
        known = self._ids.get((kind, string))
        if known is None:
            known = self._ids[kind, string] = len(self._ids) + 1
            emit(_NEEDED + data(12, data(kind, number(1, known) + text(2, string))))
        return known


# Fields of InternedData.
_EVENT_NAMES, _ARGUMENT_NAMES, _ARGUMENT_TEXTS = 2, 3, 29


class _Device:
    """Writes one device's tracks."""

    def __init__(
        self, export: Export, place: int, begin_us: int, names: _Interner, emit: _Emit
    ) -> None:
        self._export = export
        self._found = export.devices[place].found
        self._names, self._emit = names, emit
        self._ns = event_times_ns(self._found, begin_us)
        self._base = (place + 1) << 40
        self._tracks = 0

    def write(self) -> None:
        """Write counters, stages, other events and allocations."""
        title = str(self._found.device)
        if self._found.first_time_us is None:
            title += " (no times recorded: an event is a microsecond)"
        self._device = self._track(text(2, title) + number(11, _EXPLICIT_ORDER))
        for name in CURVES:
            if name in self._found.curves:
                known = (self._found.reserved_from or 0) + 1 if name == "reserved" else 0
                self._counter(name, self._found.curves[name][known:], self._ns[known:])
        self._stages()
        self._other_events()
        self._allocations()

    def _track(self, description: bytes) -> int:
        self._tracks += 1
        uuid = self._base + self._tracks
        self._emit(_NEEDED + data(60, number(1, uuid) + description))
        return uuid

    def _child(self, name: str, more: bytes = b"", parent: int | None = None) -> int:
        """Add a track below the device's or a group's, after those added before."""
        above = number(5, self._device if parent is None else parent)
        return self._track(above + text(2, name) + number(12, self._tracks) + more)

    def _at(self, ns: int, event: bytes) -> None:
        self._emit(number(8, ns) + _NEEDED + data(11, event))

    def _counter(self, name: str, values: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        track = self._child(f"{name} bytes", data(8, number(3, _SIZE_BYTES) + text(7, "bytes")))
        head = number(9, _COUNTER) + number(11, track)
        changed = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
        for ns, value in zip(times[changed].tolist(), values[changed].tolist(), strict=True):
            self._at(ns, head + number(30, value))

    def _stages(self) -> None:
        spans = []
        for stage in self._found.stages:
            begin = int(self._ns[0])
            if stage.start_time_us is not None:
                begin = max(stage.start_time_us * 1000, begin)
            end = None if stage.end_time_us is None else max(stage.end_time_us * 1000, begin + 1)
            spans.append((begin, end, stage.name))
        spans.sort(key=lambda span: (span[0], -(span[1] or 1 << 62)))
        laid = lanes((begin, end or 1 << 62) for begin, end, _ in spans)
        rank = number(12, self._tracks)  # tracks of one name and rank are drawn as one
        tracks = [self._child("Stages", rank) for _ in range(max(laid, default=-1) + 1)]
        for (begin, end, name), lane in zip(spans, laid, strict=True):
            self._slice(tracks[lane], begin, end, self._name(name))

    def _other_events(self) -> None:
        other = self._found.history.other
        shown = [i for i, action in enumerate(other.action) if not action.startswith("segment_")]
        if not shown:
            return
        track = self._child("Events")
        for i in shown:
            size = self._argument("size", 4, int(other.size[i]))
            if other.action[i] == "oom":
                size += self._argument("device_free", 4, int(other.addr[i]))
            name = number(10, self._name(other.action[i]))
            event = number(9, _INSTANT) + number(11, track) + name
            self._at(int(self._ns[other.event[i] + 1]), event + size)

    def _allocations(self) -> None:
        rows, curve = self._found.history.allocations, self._export.curve
        begins, finishes = rows.alloc_event, rows.ends(curve)
        size = rows.weights(curve)
        group = np.searchsorted(-np.array([least for _, least in SIZES]), -size)
        for place, (name, _) in enumerate(SIZES):
            chosen = np.flatnonzero((group == place) & (finishes > begins))
            if not len(chosen):
                continue
            laid = lanes(zip(begins[chosen].tolist(), finishes[chosen].tolist(), strict=True))
            # Thousands of lanes are tall: they go into a group, which is collapsed at first.
            above = self._child(name)
            tracks = [self._child(name, parent=above) for _ in range(max(laid) + 1)]
            for details, lane in zip(self._described(chosen), laid, strict=True):
                self._slice(tracks[lane], *details)

    def _described(self, chosen: NDArray[np.int64]) -> Iterator[tuple[int, int | None, int, bytes]]:
        """Yield when each allocation begins and ends, its name and its arguments."""
        history = self._export.history
        rows, never = self._found.history.allocations, self._found.history.events
        names, name = site_names(self._export, self._found)
        nodes = stack_nodes(self._export, self._found)
        used, stack = np.unique(nodes[chosen], return_inverse=True)
        texts = [
            self._argument_text("stack", stack_text) if node >= 0 else b""
            for node, stack_text in zip(
                used.tolist(), stack_texts(history.stacks, used.tolist()), strict=True
            )
        ]
        roles = [self._argument_text("role", role) for role in ROLES]
        role = self._found.roles.role
        finish = rows.ends(self._export.curve)[chosen]
        columns: dict[str, NDArray[Any]] = {
            "requested": rows.size,
            "block": rows.block_size,
            "allocation": np.arange(len(rows)),
            "version": rows.version,
            "stream": rows.stream,
        }
        address = number(1, self._key("address"))
        values = [
            (number(1, self._key(each)), column[chosen].tolist())
            for each, column in columns.items()
        ]
        for k, row in enumerate(chosen.tolist()):
            begin, end = int(rows.alloc_event[row]), int(finish[k])
            arguments = data(4, address + number(7, int(rows.addr[row])))
            for key, column in values:
                arguments += data(4, key + number(4, column[k]))
            yield (
                int(self._ns[begin + 1]),
                None if end == never else int(self._ns[end + 1]),
                self._name(names[name[row]]),
                arguments + roles[role[row]] + texts[stack[k]],
            )

    def _slice(self, track: int, begin: int, end: int | None, name: int, more: bytes = b"") -> None:
        """Write a slice; without an end it is drawn to the end of the trace."""
        on_track = number(11, track)
        self._at(begin, number(9, _SLICE_BEGIN) + on_track + number(10, name) + more)
        if end is not None:
            self._at(end, number(9, _SLICE_END) + on_track)

    def _name(self, string: str) -> int:
        return self._names.id(_EVENT_NAMES, string, self._emit)

    def _key(self, name: str) -> int:
        return self._names.id(_ARGUMENT_NAMES, name, self._emit)

    def _argument(self, name: str, field: int, value: int) -> bytes:
        return data(4, number(1, self._key(name)) + number(field, value))

    def _argument_text(self, name: str, string: str) -> bytes:
        place = self._names.id(_ARGUMENT_TEXTS, string, self._emit)
        return data(4, number(1, self._key(name)) + number(17, place))
