"""Reads ``elements.db`` back into a history."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.allocation_table import NEVER, read_allocations
from snapreport.bundle.checks import check_history, check_stacks, within
from snapreport.bundle.integer_table import read_cells
from snapreport.bundle.tables import Columns, Tables, device_rows, open_tables
from snapreport.model.cut import cut_from_plain
from snapreport.model.history import (
    START,
    Allocations,
    DeviceHistory,
    Events,
    History,
    OtherAllocator,
    Stages,
)
from snapreport.model.name_treatment import names_done
from snapreport.model.recorder_notes import recorder_info
from snapreport.model.snapshot import BLOCK_STATES, NO_ID, STATED, DeviceId, Segments, Source
from snapreport.model.stacks import FrameTable, StackTable

MOST_DEVICES = 1000
"""Devices of one file; each takes some work, even without data."""

_NARROW = {"version", "pool", "stack", "free_stack", "category", "compile_context", "metadata"}
_NARROW |= {"parent", "depth"}
"""Columns that a history keeps as int32."""


def read_database(data: bytes, source: Source) -> History:
    """Read a history out of the bytes of an SQLite file.

    Args:
        data: what ``write_database`` returned.
        source: the file that the history came from.

    Raises:
        BundleError: the database is damaged, or not one of ours.
    """
    with open_tables(data) as tables:
        history = _read(tables, source)
        check_history(history)
        return history


def _read(tables: Tables, source: Source) -> History:
    meta = {key: orjson.loads(value) for key, value in tables.rows("meta", "key", "value")}
    strings = tables.texts("strings", "text")
    _same_length("strings", strings, tables.numbers("strings")["id"])
    pools = tables.numbers("pools")
    stacks = _read_stacks(tables)
    check_stacks(stacks, len(tables.data))
    kinds, rows = tables.texts("devices", "kind"), tables.numbers("devices", "ordinal", "events")
    if not len(kinds) == len(rows["events"]) <= MOST_DEVICES:
        raise ValueError(f"there are {len(kinds):,} devices")
    devices = _Devices(tables, rows["events"].tolist(), meta)
    layout, default = meta["layout"], meta["default_device"]
    if not isinstance(layout, str) or type(default) is not int:
        raise TypeError("the layout or the default device has the wrong type")
    if kinds and not 0 <= default < len(kinds):
        raise IndexError("the default device does not exist")
    ids = map(DeviceId, kinds, rows["ordinal"].tolist())
    return History(
        source=source,
        layout=layout,
        stacks=stacks,
        strings=strings,
        pools=list(zip(pools["first"].tolist(), pools["second"].tolist(), strict=True)),
        devices=tuple(devices.history(index, device) for index, device in enumerate(ids)),
        default_device=default,
        settings=meta["settings"],
        oddities=meta["oddities"],
        recorder=recorder_info(meta.get("recorder")),
        cut=cut_from_plain(meta.get("cut")),
        names=names_done(meta.get("names")),
        length=len(tables.data),
    )


def _read_stacks(tables: Tables) -> StackTable:
    names: list[str] = []
    files: list[str] = []
    extras: dict[int, dict[str, str]] = {}
    for i, (name, file, extra) in enumerate(tables.rows("frames", "name", "filename", "extra")):
        names.append(name)
        files.append(file)
        if extra is not None:
            extras[i] = orjson.loads(extra)
    lines = tables.numbers("frames", "line")["line"]
    _same_length("frames", names, lines)
    nodes = _filled(tables, "call_nodes")[0]
    parent, frame, depth = (_int32(nodes[name]) for name in ("parent", "frame", "depth"))
    ends = _int32(tables.numbers("stacks", "node")["node"])
    return StackTable(FrameTable(names, files, lines, extras), parent, frame, depth, ends)


def _filled(tables: Tables, table: str) -> tuple[Columns, list[str]]:
    """Return the integer columns of a table, with -1 for NULL, and its texts."""
    cells, texts = read_cells(tables, table)
    for values, missing in cells.values():
        values[missing] = -1
    return {name: values for name, (values, _) in cells.items()}, texts


class _Devices:
    """Splits the tables that all devices share by device."""

    def __init__(self, tables: Tables, events: list[int], meta: dict[str, Any]) -> None:
        self._n_events = events
        self._meta = meta
        count = len(events)
        self._allocations = read_allocations(tables)
        self._allocation_rows = device_rows(self._allocations.pop("device"), count)
        self._events, self._actions = _filled(tables, "events")
        self._event_rows = device_rows(self._events.pop("device"), count)
        self._segments, self._kinds = _filled(tables, "segments")
        self._segment_rows = device_rows(self._segments["device"], count)
        self._blocks, states = _filled(tables, "blocks")
        known = {state: i for i, state in enumerate(BLOCK_STATES)}
        if not known.keys() >= set(states):
            raise ValueError("a block has an unknown state")
        self._states = np.array([known[state] for state in states], np.int8)
        owner = self._blocks["segment"]
        within("segment", owner, 0, len(self._kinds))
        self._block_rows = device_rows(self._segments["device"][owner], count)
        self._annotations, self._names = _filled(tables, "annotations")
        self._annotation_rows = device_rows(self._annotations.pop("device"), count)

    def history(self, index: int, device: DeviceId) -> DeviceHistory:
        segments, held = self._final_state(index)
        rows = self._event_rows[index]
        return DeviceHistory(
            device=device,
            events=self._n_events[index],
            allocations=self._allocations_of(index),
            other=Events(action=self._actions[rows], **_part(self._events, rows)),
            segments=segments,
            block_allocation=_local(
                "allocation", held, self._allocation_rows[index], len(self._allocations["addr"])
            ),
            stages=self._stages(index),
            anomalies=self._meta[f"anomalies.{index}"],
            skipped=tuple(self._meta[f"skipped.{index}"]),
            other_allocator=self._other_allocator(index),
        )

    def _other_allocator(self, index: int) -> OtherAllocator | None:
        found = self._meta[f"other_allocator.{index}"]
        if found is None:
            return None
        return OtherAllocator(found["kind"], found["evidence"], found["known"] is True)

    def _allocations_of(self, index: int) -> Allocations:
        rows, events = self._allocation_rows[index], self._n_events[index]
        columns = _part(self._allocations, rows)
        for name in ("free_requested_event", "free_event"):
            columns[name][columns[name] == NEVER] = events
        before = self._meta[f"requested_before.{index}"]
        if not isinstance(before, list) or not all(type(row) is int for row in before):
            raise TypeError("the frees requested before event 0 are not a list of numbers")
        pending = np.array(before, np.int64)
        within("allocation", pending, rows.start, rows.stop)
        columns["free_requested_event"][pending - rows.start] = START
        return Allocations(**columns)

    def _final_state(self, index: int) -> tuple[Segments, NDArray[np.int64]]:
        rows, blocks = self._segment_rows[index], self._block_rows[index]

        def of(name: str) -> NDArray[np.int64]:
            return self._segments[name][rows]

        within("segment", of("expandable"), 0, 2)
        if not set(self._kinds[rows]) <= {"small", "large"}:
            raise ValueError("a segment is neither small nor large")
        segments = Segments(
            address=of("address"),
            size=of("size"),
            stream=of("stream"),
            pool=_int32(of("pool")),
            large=np.array([kind == "large" for kind in self._kinds[rows]], np.bool_),
            expandable=of("expandable").astype(np.bool_),
            stack=_int32(of("stack")),
            stated=np.stack([of(name) for name in STATED], axis=1),
            block_segment=(self._blocks["segment"][blocks] - rows.start).astype(np.int32),
            block_address=self._blocks["address"][blocks],
            block_size=self._blocks["size"][blocks],
            block_requested=self._blocks["requested"][blocks],
            block_state=self._states[blocks],
            block_stack=_int32(self._blocks["stack"][blocks]),
        )
        return segments, self._blocks["allocation"][blocks]

    def _stages(self, index: int) -> Stages:
        rows = self._annotation_rows[index]
        columns = _part(self._annotations, rows)
        columns["parent"] = _local(
            "annotation", self._annotations["parent"][rows], rows, len(self._names)
        )
        return Stages(name=self._names[rows], **columns)


def _part(columns: Columns, rows: slice) -> dict[str, NDArray[Any]]:
    """Return one device's part of the columns, copied so that the whole columns can be freed."""
    found: dict[str, NDArray[Any]] = {}
    for name, whole in columns.items():
        part = _int32(whole[rows]) if name in _NARROW else whole[rows]
        if part.base is whole and len(part) == len(whole):
            part = whole
        found[name] = part if part.base is None else part.copy()
    return found


def _local(what: str, ids: NDArray[np.int64], rows: slice, length: int) -> NDArray[np.int32]:
    """Return ids of a whole table as places among one device's rows; NO_ID stays.

    Raises:
        ValueError: one belongs to another device, or to none.
    """
    known = ids != NO_ID
    within(what, ids[known], rows.start, min(rows.stop, length))
    return np.where(known, ids - rows.start, NO_ID).astype(np.int32)


def _int32(values: NDArray[Any]) -> NDArray[np.int32]:
    if values.dtype == np.int32:
        return values
    limits = np.iinfo(np.int32)
    within("row", values, int(limits.min), int(limits.max) + 1)
    return values.astype(np.int32)


def _same_length(table: str, texts: list[str], numbers: NDArray[np.int64]) -> None:
    if len(texts) != len(numbers):
        raise ValueError(f"the columns of the table {table} differ in length")
