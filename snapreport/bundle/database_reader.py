"""Read ``elements.db`` back into a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
import orjson

from snapreport.bundle.allocation_table import NEVER, read_allocations
from snapreport.bundle.checks import check_history, check_stacks
from snapreport.bundle.integer_table import read_integers
from snapreport.bundle.opening import damaged, does_not_hold, open_in_memory
from snapreport.bundle.tables import LIMITS, Columns, Numbers, Tables, device_rows
from snapreport.bundle.text_table import read_with_text
from snapreport.model.cut import cut_from_plain
from snapreport.model.history import START, Allocations, DeviceHistory, Events, History, Stages
from snapreport.model.name_treatment import names_done
from snapreport.model.recorder_notes import recorder_info
from snapreport.model.snapshot import BLOCK_STATES, NO_ID, NO_TIME, DeviceId, Segments, Source
from snapreport.model.stacks import NO_STACK, UNKNOWN_LINE, FrameTable, StackTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DEVICES = 1000
"""Devices of one file; each takes some work, however little is known of it."""


def read_database(data: bytes, source: Source) -> History:
    """Read a history out of the bytes of an SQLite file.

    Args:
        data: what ``write_database`` returned.
        source: the file that the history came from.

    Raises:
        BundleError: the database is damaged, or is none of ours.
    """
    connection: apsw.Connection | None = None
    try:
        connection = open_in_memory(data, LIMITS)
        history = _Reader(Tables(connection, len(data)), data).read(source)
        check_history(history)
        return history
    except apsw.Error as error:
        raise damaged(error) from error
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise does_not_hold(error) from error
    finally:
        if connection is not None:
            connection.close()


class _Reader:
    """Takes the tables column by column; ids count from 0, so a row's place is its id."""

    def __init__(self, tables: Tables, data: bytes) -> None:
        self._tables = tables
        self._data = data

    def read(self, source: Source) -> History:
        meta = {
            key: orjson.loads(value) for key, value in self._tables.texts("meta", ["key", "value"])
        }
        strings = self._tables.text_column("strings", "text")
        self._ids("strings", len(strings))
        pools = self._numbers("pools", "first second")
        stacks = self._stacks()
        check_stacks(stacks, len(self._data))
        kinds = self._tables.text_column("devices", "kind")
        rows = self._numbers("devices", "ordinal events")
        if not len(kinds) == len(rows["events"]) <= MOST_DEVICES:
            raise ValueError(f"there are {len(kinds):,} devices")
        devices = _Devices(self, rows["events"].tolist(), meta)
        layout, default = meta["layout"], meta["default_device"]
        if not isinstance(layout, str) or type(default) is not int:
            raise TypeError("the layout or the default device is none")
        if kinds and not 0 <= default < len(kinds):
            raise IndexError("the default device is none of the devices")
        return History(
            source=source,
            layout=layout,
            stacks=stacks,
            strings=strings,
            pools=list(zip(pools["first"].tolist(), pools["second"].tolist(), strict=True)),
            devices=tuple(
                devices.history(index, DeviceId(kind, ordinal))
                for index, (kind, ordinal) in enumerate(
                    zip(kinds, rows["ordinal"].tolist(), strict=True)
                )
            ),
            default_device=default,
            settings=meta["settings"],
            oddities=meta["oddities"],
            recorder=recorder_info(meta.get("recorder")),
            cut=cut_from_plain(meta.get("cut")),
            names=names_done(meta.get("names")),
            length=len(self._data),
        )

    def _stacks(self) -> StackTable:
        names: list[str] = []
        files: list[str] = []
        for name, file in self._tables.texts("frames", ["name", "filename"]):
            names.append(name)
            files.append(file)
        extra = {
            i: orjson.loads(text)
            for i, (text,) in enumerate(self._tables.texts("frames", ["extra"], null=True))
            if text is not None
        }
        lines = self._numbers("frames", "", {"line": UNKNOWN_LINE})["line"]
        _same_length("frames", names, lines)
        names_of = ("parent", "frame", "depth")
        nodes = read_integers(self._tables, self._data, "call_nodes", names_of, names_of[1:])
        parent, root = nodes["parent"]
        return StackTable(
            FrameTable(names, files, lines, extra),
            _int32(np.where(root, -1, parent)),
            _int32(nodes["frame"][0]),
            _int32(nodes["depth"][0]),
            _int32(self._numbers("stacks", "", {"node": -1})["node"]),
        )

    def _ids(self, table: str, rows: int) -> None:
        if len(self._numbers(table, "")["id"]) != rows:
            raise ValueError(f"the table {table} has two lengths")

    def _numbers(self, table: str, names: str, nulls: dict[str, int] | None = None) -> Columns:
        """Read columns of numbers without NULL, and others with the value that stands for NULL."""
        columns = [Numbers(name) for name in names.split()]
        columns += [Numbers(name, null) for name, null in (nulls or {}).items()]
        return self._tables.numbers(table, columns, "id")

    def allocations(self) -> Columns:
        return read_allocations(self._tables, self._data)

    def events(self) -> tuple[Columns, list[str]]:
        nulls = dict.fromkeys(("device", "event", "action", "addr", "size"))
        nulls |= {"time_us": NO_TIME, "stream": None, "pool": NO_ID, "stack": NO_STACK}
        return read_with_text(self._tables, self._data, "events", nulls, "action")

    def segments(self) -> tuple[Columns, list[str]]:
        stated = dict.fromkeys(("allocated_size", "active_size", "requested_size"), -1)
        rows = self._numbers(
            "segments",
            "device address size stream expandable",
            {"pool": NO_ID, "stack": NO_STACK, **stated},
        )
        kinds = self._tables.text_column("segments", "kind")
        return rows, _same_length("segments", kinds, rows["size"])

    def blocks(self) -> tuple[Columns, list[int]]:
        nulls = dict.fromkeys(("segment", "address", "size", "requested", "state"))
        nulls |= {"stack": NO_STACK, "allocation": NO_ID}
        rows, texts = read_with_text(self._tables, self._data, "blocks", nulls, "state")
        known = {state: i for i, state in enumerate(BLOCK_STATES)}
        states = [known.get(state, -1) for state in texts]
        if -1 in states:
            raise ValueError("a block is in no known state")
        return rows, states

    def annotations(self) -> tuple[Columns, list[str]]:
        rows = self._numbers(
            "annotations",
            "device depth",
            {
                "parent": NO_ID,
                "start_event": START,
                "end_event": START,
                "start_time_us": NO_TIME,
                "end_time_us": NO_TIME,
            },
        )
        names = self._tables.text_column("annotations", "name")
        return rows, _same_length("annotations", names, rows["depth"])


_NUMBERS = (
    "addr", "size", "block_size", "block_size_max", "alloc_event",
    "alloc_time_us", "free_requested_time_us", "free_time_us", "stream",
)  # fmt: skip
_IDS = (
    "version", "pool", "stack", "free_stack", "category", "compile_context", "metadata",
)  # fmt: skip


class _Devices:
    """Cuts the tables that all devices share into what each of them has."""

    def __init__(self, reader: _Reader, events: list[int], meta: dict[str, Any]) -> None:
        self._n_events = events
        self._meta = meta
        count = len(events)
        self._allocations = reader.allocations()
        self._allocation_rows = device_rows(self._allocations["device"], count)
        self._events, self._actions = reader.events()
        self._event_rows = device_rows(self._events["device"], count)
        self._segments, self._kinds = reader.segments()
        self._segment_rows = device_rows(self._segments["device"], count)
        self._blocks, self._states = reader.blocks()
        owner = self._blocks["segment"]
        _between("segment", owner, 0, len(self._kinds))
        self._block_rows = device_rows(self._segments["device"][owner], count)
        self._annotations, self._names = reader.annotations()
        self._annotation_rows = device_rows(self._annotations["device"], count)

    def history(self, index: int, device: DeviceId) -> DeviceHistory:
        segments, held = self._final_state(index)
        return DeviceHistory(
            device=device,
            events=self._n_events[index],
            allocations=self._allocations_of(index),
            other=self._events_of(index),
            segments=segments,
            block_allocation=_local(
                "allocation", held, self._allocation_rows[index], len(self._allocations["addr"])
            ),
            stages=self._stages(index),
            anomalies=self._meta[f"anomalies.{index}"],
        )

    def _allocations_of(self, index: int) -> Allocations:
        rows, events = self._allocation_rows[index], self._n_events[index]

        def ints(name: str) -> NDArray[np.int64]:
            whole: NDArray[np.int64] = self._allocations[name]
            if whole.base is None and len(whole) == rows.stop - rows.start:
                return whole
            part: NDArray[np.int64] = whole[rows].copy()  # nothing larger need stay for its sake
            return part

        def ids(name: str) -> NDArray[np.int32]:
            return _int32(self._allocations[name][rows])

        def ends(name: str) -> NDArray[np.int64]:
            found = ints(name)
            found[found == NEVER] = events
            return found

        requested = ends("free_requested_event")
        before = self._meta[f"requested_before.{index}"]
        if not isinstance(before, list) or not all(type(row) is int for row in before):
            raise TypeError("what was requested before is no list of numbers")
        pending = np.array(before, np.int64)
        _between("allocation", pending, rows.start, rows.stop)
        requested[pending - rows.start] = START
        columns: dict[str, Any] = {name: ints(name) for name in _NUMBERS}
        columns |= {name: ids(name) for name in _IDS}
        return Allocations(**columns, free_requested_event=requested, free_event=ends("free_event"))

    def _events_of(self, index: int) -> Events:
        rows = self._event_rows[index]
        return Events(
            action=self._actions[rows],
            pool=_int32(self._events["pool"][rows]),
            stack=_int32(self._events["stack"][rows]),
            **{
                name: self._events[name][rows]
                for name in ("event", "addr", "size", "time_us", "stream")
            },
        )

    def _final_state(self, index: int) -> tuple[Segments, NDArray[np.int64]]:
        rows, blocks = self._segment_rows[index], self._block_rows[index]

        def of(name: str) -> NDArray[np.int64]:
            return self._segments[name][rows]

        _between("segment", of("expandable"), 0, 2)
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
            stated=np.stack(
                [of(name) for name in ("allocated_size", "active_size", "requested_size")], axis=1
            ),
            block_segment=(self._blocks["segment"][blocks] - rows.start).astype(np.int32),
            block_address=self._blocks["address"][blocks],
            block_size=self._blocks["size"][blocks],
            block_requested=self._blocks["requested"][blocks],
            block_state=np.array(self._states[blocks], np.int8),
            block_stack=_int32(self._blocks["stack"][blocks]),
        )
        return segments, self._blocks["allocation"][blocks]

    def _stages(self, index: int) -> Stages:
        rows = self._annotation_rows[index]
        parent = self._annotations["parent"][rows]
        return Stages(
            name=self._names[rows],
            parent=_local("annotation", parent, rows, len(self._names)),
            depth=_int32(self._annotations["depth"][rows]),
            start_event=self._annotations["start_event"][rows],
            end_event=self._annotations["end_event"][rows],
            start_time_us=self._annotations["start_time_us"][rows],
            end_time_us=self._annotations["end_time_us"][rows],
        )


def _local(what: str, ids: NDArray[np.int64], rows: slice, length: int) -> NDArray[np.int32]:
    """Return ids of a whole table as places among one device's rows; NO_ID stays.

    Raises:
        IndexError: one is of another device, or of none.
    """
    known = ids != NO_ID
    _between(what, ids[known], rows.start, min(rows.stop, length))
    return np.where(known, ids - rows.start, NO_ID).astype(np.int32)


def _int32(values: NDArray[Any]) -> NDArray[np.int32]:
    if values.dtype == np.int32:
        return values
    limits = np.iinfo(np.int32)
    _between("row", values, int(limits.min), int(limits.max) + 1)
    return values.astype(np.int32)


def _between(what: str, ids: NDArray[np.int64], least: int, below: int) -> None:
    if len(ids) and (int(ids.min()) < least or int(ids.max()) >= below):
        raise IndexError(f"a number in the table of {what}s is out of range")


def _same_length(table: str, texts: list[Any], numbers: NDArray[np.int64]) -> list[Any]:
    if len(texts) != len(numbers):
        raise ValueError(f"the table {table} has two lengths")
    return texts
