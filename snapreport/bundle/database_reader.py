"""Reads ``elements.db`` back into a history.

Tables of integers are read from their pages where possible, and otherwise with SQL. SQLite returns
one Python object per cell, which for a million events is most of the work of reading a bundle. The
pages hold the same: a tree of pages whose leaves have the rows, each a header with one type per
column, and then the numbers, big-endian and as short as possible. The native library reads the
rows; anything unusual is left to SQLite, which either reads it or says what is wrong.

The file may be a stranger's. No place is negative, and one beyond the file raises NumPy's
IndexError. A page comes once in a level of the tree, its cells lie after their list and within the
page, and no more of them than fit. So there are never more rows than the file can hold, however its
pages point to one another.

Source: https://www.sqlite.org/fileformat2.html, sections 1.3, 1.6 and 2.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.checks import check_history, check_stacks, within
from snapreport.bundle.tables import (
    NOT_THERE,
    SPAN,
    Columns,
    Tables,
    add_up,
    check_numbered,
    device_rows,
    open_tables,
)
from snapreport.ground.native.columns import unique
from snapreport.ground.native.library import read_leaves
from snapreport.ground.records import dataclass
from snapreport.model.asked import (
    cut_from_plain,
)
from snapreport.model.history import (
    START,
    Allocations,
    DeviceHistory,
    Events,
    History,
    OtherAllocator,
    Stages,
    names_done,
)
from snapreport.model.snapshot import (
    BLOCK_STATES,
    NO_ID,
    NO_TIME,
    STATED,
    DeviceId,
    FrameTable,
    Segments,
    Source,
    StackTable,
    recorder_info,
)

_MOST_DEVICES = 1000
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
        history = _read_history(tables, source)
        check_history(history)
        return history


def _read_history(tables: Tables, source: Source) -> History:
    meta = {key: orjson.loads(value) for key, value in tables.rows("meta", "key", "value")}
    strings = tables.texts("strings", "text")
    _same_length("strings", strings, tables.numbers("strings")["id"])
    pools = tables.numbers("pools")
    stacks = _read_stacks(tables)
    check_stacks(stacks, len(tables.data))
    kinds, rows = tables.texts("devices", "kind"), tables.numbers("devices", "ordinal", "events")
    if not len(kinds) == len(rows["events"]) <= _MOST_DEVICES:
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
        self._allocations = _read_allocations(tables)
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
            columns[name][columns[name] == _NEVER] = events
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


# The allocations: the one table that grows with the recording.

_NEVER = int(np.iinfo(np.int64).min)
"""Stands for NULL: the event of what never happens, on any device."""

_IDS = {"pool", "stack", "free_stack", "category", "compile_context", "metadata"}


def _read_allocations(tables: Tables) -> Columns:
    """Return the allocations of all devices, as the view ``allocations`` of ``schema.sql`` does.

    Returns:
        int64 of the same shape by the columns' names, without the id, which is the row's number;
        int32 for ids of other tables, where those fit.
        NULL is -1, and _NEVER in the events of frees.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    rows = _read_columns(tables, "allocation_rows")
    kind, _ = rows["kind"]
    columns = _of_kinds(_read_columns(tables, "allocation_kinds"))
    n_kinds = len(columns["device"])
    if len(kind) and not 0 <= int(kind.min()) <= int(kind.max()) < n_kinds:
        raise IndexError("an allocation has an unknown kind")
    spans = _read_columns(tables, "allocation_spans")
    if len(spans["event"][0]) != -(-len(kind) // SPAN):
        raise ValueError("the table allocation_spans has the wrong length")
    return (
        {name: rows[name][0] for name in ("addr", "version")}
        | {name: values.take(kind) for name, values in columns.items()}
        | _added_up(rows, spans)
    )


def _of_kinds(kinds: dict[str, _Cells]) -> Columns:
    """Return the columns that the allocations of a kind share."""
    del kinds["role"]  # roles are found again from the history, not taken from the file
    columns: dict[str, NDArray[Any]] = {}
    for name, (values, missing) in kinds.items():
        values[missing] = -1
        columns[name] = values
        if name in _IDS:  # before they are repeated for each row
            narrow = values.astype(np.int32)
            columns[name] = narrow if np.array_equal(narrow, values) else values
    slack, block_range = columns.pop("slack"), columns.pop("block_range")
    columns["block_size"] = columns["size"] + slack
    columns["block_size_max"] = columns["block_size"] + block_range
    return columns


def _added_up(rows: dict[str, _Cells], spans: dict[str, _Cells]) -> Columns:
    """Return the events and times, added up from differences."""
    n = len(rows["kind"][0])

    def from_span(after: str, base: str, none: int) -> NDArray[np.int64]:
        values, missing = rows[after]
        found: NDArray[np.int64] = np.repeat(spans[base][0], SPAN)[:n]
        found += values
        found[missing] = none
        return found

    def after(begin: NDArray[np.int64], name: str, none: int) -> NDArray[np.int64]:
        return add_up(begin, *rows[name], none)

    alloc_event = from_span("alloc_after", "event", START)
    requested_event = after(alloc_event, "requested_after", _NEVER)
    alloc_time = from_span("alloc_after_us", "time_us", NO_TIME)
    requested_time = after(alloc_time, "requested_after_us", NO_TIME)
    return {
        "alloc_event": alloc_event,
        "free_requested_event": requested_event,
        "free_event": after(requested_event, "free_after", _NEVER),
        "alloc_time_us": alloc_time,
        "free_requested_time_us": requested_time,
        "free_time_us": after(requested_time, "free_after_us", NO_TIME),
    }


_ADDED = {
    "size",
    "slack",
    "block_range",
    "event",
    "time_us",
    *(f"{what}_after{unit}" for what in ("alloc", "requested", "free") for unit in ("", "_us")),
}
_MOST_ADDED = 2**60
"""The most in a column that is added up: sums of four fit in 64 bits."""


def _read_columns(tables: Tables, table: str) -> dict[str, _Cells]:
    cells, _ = read_cells(tables, table)
    for name in _ADDED.intersection(cells):
        values, _ = cells[name]
        if len(values) and max(-int(values.min()), int(values.max())) >= _MOST_ADDED:
            raise OverflowError("a number in the table of allocations is out of range")
    return cells


# A whole table of integers, which may have one column of texts.

_Cells = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""A column with 0 for NULL, and where it is NULL."""


def read_cells(tables: Tables, table: str) -> tuple[dict[str, _Cells], list[str]]:
    """Return all integer columns in the order of the rows, and the texts, if there are any.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    columns = tables.columns[table]
    texts = [place for place, column in enumerate(columns) if column.kind == "TEXT"]
    rows = read_rows(tables.data, tables.pages[table], len(columns), *texts)
    if rows is None:
        rows = _rows_by_sql(tables, table)
    else:
        tables.count_row(len(rows.ids))
    cells = {}
    for column, values, missing in zip(columns, rows.values, rows.missing, strict=True):
        if column.name == "id":
            check_numbered(table, rows.ids)
        elif not column.null and missing.any():
            raise TypeError("a cell is not an integer")
        else:
            cells[column.name] = values, missing
    numbers = [cells.pop(columns[place].name)[0].tolist() for place in texts]
    return cells, [rows.texts[number] for column in numbers for number in column]


def _rows_by_sql(tables: Tables, table: str) -> Rows:
    """Read a table whose pages have an unusual form."""
    numbers, texts = tables.numbers(table, none=NOT_THERE), [""]
    n = len(next(iter(numbers.values())))
    for column in tables.columns[table]:
        if column.kind == "TEXT":
            found = tables.texts(table, column.name)
            if len(found) != n:
                raise ValueError(f"the columns of the table {table} differ in length")
            texts = list(dict.fromkeys(found))
            place = {text: number for number, text in enumerate(texts)}
            numbers[column.name] = np.array([place[text] for text in found], np.int64)
    values = np.array([numbers[column.name] for column in tables.columns[table]])
    missing = values == NOT_THERE
    values[missing] = 0
    return Rows(np.arange(n), values, missing, tuple(texts))


# The pages of a table.

_MAGIC = b"SQLite format 3\0"
_INTERIOR, _LEAF = 5, 13
_ENCODING, _UTF_8 = 56, 1
"""The place of the file's text encoding, and its value for UTF-8."""
_DEEPEST = 16
"""Levels of a tree: far more than its page numbers can fill."""
_HEADER = 12
"""Bytes of an interior page before the list of its cells, which has two bytes for each."""
_LEAST_BRANCH = 2 + 4 + 1
"""Least bytes of a child: its place in the list, its page, and a key."""
_LEAST_ROW = 2 + 1 + 1 + 1
"""Least bytes of a row without columns: its place in the list, length, id and header's length."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of integers, in the order of its ids."""

    ids: NDArray[np.int64]
    """int64, shape (n,), ascending."""
    values: NDArray[np.int64]
    """int64, shape (n_columns, n); 0 for NULL. The column that is the id is always NULL."""
    missing: NDArray[np.bool_]
    """bool, shape (n_columns, n): the cell is NULL."""
    texts: tuple[str, ...] = ()
    """The distinct texts of the column of texts, whose values are places here."""


class _Unusual(Exception):  # noqa: N818  (it never leaves this module)
    """The file has an unusual form, and SQLite has to read it."""


def read_rows(data: bytes, root: int, width: int, text: int | None = None) -> Rows | None:
    """Read a table of integers, which may have one column of few distinct texts.

    Args:
        data: an SQLite file.
        root: the number of the table's first page, ``rootpage`` in ``sqlite_schema``.
        width: how many columns it has.
        text: the column that holds texts.

    Returns:
        None if the table's pages have an unusual form; SQLite may still read it.
    """
    try:
        file = _File(data)
        leaves = file.leaves(root)
        rows = int(file.u16[leaves + 3].sum(dtype=np.int64))
        if rows * (_LEAST_ROW + width) > len(data):  # more than the file can hold
            raise _Unusual
        if text is not None and int(file.u32[_ENCODING]) != _UTF_8:
            raise _Unusual
        found = read_leaves(file.u8, file.page_size, leaves, (width, rows), text)
        if found is None:
            return None
        ids, values, missing, texts = found
        return Rows(ids, values, missing, tuple(each.decode() for each in texts))
    except (_Unusual, IndexError, UnicodeDecodeError):
        return None


class _File:
    """The bytes of a database, which can be read as numbers at any place."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 1024 or data[:16] != _MAGIC:
            raise _Unusual
        size = int.from_bytes(data[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        if self.page_size < 512 or len(data) % self.page_size:
            raise _Unusual
        self.pages = len(data) // self.page_size
        self.u8: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self.u16: NDArray[Any] = self._at_any_place(">u2")
        self.u32: NDArray[Any] = self._at_any_place(">u4")

    def _at_any_place(self, kind: str) -> NDArray[Any]:
        dtype = np.dtype(kind)
        view: NDArray[Any] = np.ndarray(
            (len(self.u8) - dtype.itemsize + 1,), dtype, self.u8, strides=(1,)
        )
        return view

    def leaves(self, root: int) -> NDArray[np.int64]:
        """Return where the leaves of a tree begin, in the order of their rows."""
        level = np.array([root], np.int64)
        for _ in range(_DEEPEST):
            if len(level) > self.pages or int(level.min()) < 2 or int(level.max()) > self.pages:
                raise _Unusual
            if len(unique(level)) != len(level):
                raise _Unusual
            place = (level - 1) * self.page_size
            kinds = self.u8[place]
            if (kinds == _LEAF).all():
                return place
            if (kinds != _INTERIOR).any():
                raise _Unusual
            children = [
                np.append(self.u32[cells], self.u32[page + 8])
                for page in place.tolist()
                for cells in [self._cells(page)]
            ]
            level = np.concatenate(children).astype(np.int64)
        raise _Unusual

    def _cells(self, page: int) -> NDArray[np.int64]:
        """Return where the cells of an interior page begin, in the order of their keys."""
        count = int(self.u16[page + 3])
        if count > (self.page_size - _HEADER) // _LEAST_BRANCH:
            raise _Unusual
        inside = self.u16[page + _HEADER + 2 * np.arange(count)].astype(np.int64)
        if (inside < _HEADER + 2 * count).any() or (inside >= self.page_size).any():
            raise _Unusual
        found: NDArray[np.int64] = page + inside
        return found
