"""Writes ``elements.db``: every fact of a history once, as SQLite tables (see ``schema.sql``)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.tables import (
    ELEMENTS,
    NOT_THERE,
    definitions,
    differences,
    span_bases,
    to_cells,
)
from snapreport.ground.native.columns import alike
from snapreport.ground.native.library import MOST_TEXT, PAGE_SIZE, Marked, write_leaves
from snapreport.model.history import START, Allocations, DeviceHistory, History
from snapreport.model.roles import Evidence, Roles
from snapreport.model.snapshot import BLOCK_STATES, NO_ID, NO_TIME, STATED, UNKNOWN_LINE, StackTable

# Tables, written from columns or rows.

_ALONE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
"""No other thread uses the database, so it needs no locks."""

AT_ONCE = 64
"""Rows for one statement: this takes two thirds of the time of one statement per row."""


def filled_database(schema: Path, fill: Callable[[TableWriter], None]) -> list[bytes | Marked]:
    """Return the parts of an SQLite file with tables of a schema that ``fill`` has filled."""
    connection = apsw.Connection(":memory:", flags=_ALONE)
    connection.execute(schema.read_text("utf-8"))
    with connection:
        tables = TableWriter(connection, schema)
        fill(tables)
    database = connection.serialize("main")
    roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
    connection.close()
    return joined(database, [(roots[name], leaves) for name, leaves in tables.leaves.items()])


class TableWriter:
    """Adds rows to tables, and numbers the rows of those with ids."""

    def __init__(self, connection: apsw.Connection, schema: Path) -> None:
        """Take a database that has the tables of a schema, all of them empty."""
        self.connection = connection
        self._columns = {name: made.columns for name, made in definitions(schema).items()}
        self.count: Counter[str] = Counter()
        """How many rows each table has, by its name."""
        self.leaves: dict[str, Leaves] = {}
        """The tables that are written without SQLite."""

    def add(self, table: str, *columns: Iterable[Any]) -> range:
        """Add rows, given all their columns but the id, and return their ids.

        Arrays hold integers; in a column that may be NULL, -1 stands for NULL.
        """
        own = self._columns[table][-len(columns) :]
        cells = (
            (to_cells(values, -1) if column.null else values.tolist())
            if isinstance(values, np.ndarray)
            else values
            for column, values in zip(own, columns, strict=True)
        )
        return self.add_rows(table, zip(*cells, strict=True))

    def add_long(self, table: str, *columns: NDArray[Any] | list[str], none: int = -1) -> range:
        """Do the same without SQLite, for tables that are long if the recording is.

        Nothing else may add to such a table.

        Args:
            table: its name.
            columns: integers, and at most one list of texts, none of which ``is_long()``.
            none: stands for NULL in columns that may be NULL.
        """
        own, n = self._columns[table], len(columns[0])
        has_id, text = len(own) > len(columns), None
        arrays: list[NDArray[np.int64]] = []
        for column, values in zip(own[has_id:], columns, strict=True):
            if isinstance(values, list):
                number = {name: place for place, name in enumerate(dict.fromkeys(values))}
                text = len(arrays), [name.encode() for name in number]
                values = np.fromiter(map(number.__getitem__, values), np.int64, n)
            elif column.null and none != NOT_THERE:
                values = np.where(values == none, NOT_THERE, values.astype(np.int64))
            arrays.append(values)
        first = self.count[table]
        self.count[table] += n
        if n:
            leaves = self.leaves.setdefault(table, Leaves())
            nullable = [column.null for column in own[has_id:]]
            leaves.add(first if has_id else first + 1, arrays, nullable, has_id, text)
        return range(first, first + n)

    def fields(self, table: str, record: object, **given: Any) -> list[Any]:
        """Return a table's columns but the id: those given, and the record's of the same names."""
        return [
            given[name] if name in given else getattr(record, name) for name in self.names(table)
        ]

    def names(self, table: str) -> list[str]:
        """Return the names of a table's columns but the id."""
        return [column.name for column in self._columns[table] if column.name != "id"]

    def add_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> range:
        """Add rows, without their ids, and return those."""
        first = self.count[table]
        columns = self._columns[table]
        if columns[0].name == "id":
            rows = ((place, *row) for place, row in enumerate(rows, first))
        size = len(columns) * AT_ONCE
        cells = itertools.chain.from_iterable(rows)
        left: list[Any] = []

        def full() -> Iterator[tuple[Any, ...]]:
            while len(taken := tuple(itertools.islice(cells, size))) == size:
                self.count[table] += AT_ONCE
                yield taken
            left.extend(taken)

        insert = f"INSERT INTO {table} VALUES "  # noqa: S608  (our own names)
        one = f"({', '.join('?' * len(columns))})"
        self.connection.executemany(insert + ", ".join([one] * AT_ONCE), full())
        rest = [left[at : at + len(columns)] for at in range(0, len(left), len(columns))]
        self.connection.executemany(insert + one, rest)
        self.count[table] += len(rest)
        return range(first, self.count[table])

    def add_meta(self, meta: Mapping[str, object]) -> None:
        """Add values by key; mappings in them keep their order, such as a file's settings."""
        keys = sorted(meta)
        self.add("meta", keys, [orjson.dumps(meta[key]).decode() for key in keys])


class Leaves:
    """The rows of one table of integers, as the pages of an SQLite file.

    A table that grows with the recording is written without SQLite, which takes an object for each
    cell: a tree of pages whose leaves have the rows. The file that it goes into has all the others.

    Source: https://www.sqlite.org/fileformat2.html, sections 1.3, 1.6 and 2.1.
    """

    def __init__(self) -> None:
        self._parts: list[Marked] = []
        self._last_ids: list[int] = []

    def add(
        self,
        first_id: int,
        columns: Sequence[NDArray[np.int64]],
        nullable: Sequence[bool],
        has_id: bool = True,
        text: tuple[int, list[bytes]] | None = None,
    ) -> None:
        """Add rows with consecutive ids, above those so far; see ``write_leaves()``.

        NOT_THERE is NULL in columns that may be NULL.
        """
        for part, last_ids in write_leaves(columns, first_id, NOT_THERE, nullable, has_id, text):
            self._parts.append(part)
            self._last_ids += last_ids.tolist()

    def tree(self, number: Callable[[int], int]) -> tuple[bytes, list[bytes | Marked], int]:
        """Return the table's first page, the parts with the others, and how many those are.

        Args:
            number: the number of the first of the others, of the next one, and so on.
        """
        count = len(self._last_ids)
        if count == 1:
            return self._parts[0].data, [], 0
        children = [(number(place), last) for place, last in enumerate(self._last_ids)]
        joints: list[bytes] = []
        # Of each child its page, its place among the cells and its last id are stored.
        most = (PAGE_SIZE - 12) // (4 + 2 + len(_varint(self._last_ids[-1])))
        while len(children) > most + 1:  # the last child has no cell
            # Two children at least: SQLite takes a page without cells for damage.
            starts = [*range(0, len(children) - 1, most), len(children)]
            groups = [children[low:high] for low, high in itertools.pairwise(starts)]
            joints += map(_joint, groups)
            children = [(number(count + k), group[-1][1]) for k, group in enumerate(groups)]
            count += len(groups)
        whole = [b"".join(joints)] if joints else []
        return _joint(children), [*self._parts, *whole], count


def joined(database: bytes, tables: Iterable[tuple[int, Leaves]]) -> list[bytes | Marked]:
    """Return the parts of a file that has rows in tables that were empty.

    Args:
        database: an SQLite file without free pages.
        tables: for each table the number of its first page, and its rows, one at least.
    """
    first = len(database) // PAGE_SIZE + 1
    parts: list[bytes | Marked] = []
    whole, count = bytearray(database), 0

    def number(place: int) -> int:
        place += first + count
        return place + (first <= _LOCKED <= place)

    for root, leaves in tables:
        top, others, pages = leaves.tree(number)
        begin = (root - 1) * PAGE_SIZE
        whole[begin : begin + PAGE_SIZE] = top
        parts += others
        count += pages
    pages = number(-1)
    whole[28:32] = pages.to_bytes(4, "big")
    parts.insert(0, bytes(whole))
    return _with_gap(parts) if first <= _LOCKED < pages else parts


_LOCKED = 2**30 // PAGE_SIZE + 1
"""The page that SQLite never uses: it locks a file by these bytes."""


def _data(part: bytes | Marked) -> bytes:
    return part if isinstance(part, bytes) else part.data


def whole_of(parts: Iterable[bytes | Marked]) -> bytes:
    """Return a file, given its parts."""
    return b"".join(map(_data, parts))


def _with_gap(parts: Iterable[bytes | Marked]) -> list[bytes | Marked]:
    """Return the parts of a file with that page, in zeros."""
    found: list[bytes | Marked] = []
    left = (_LOCKED - 1) * PAGE_SIZE
    for part in parts:
        data = _data(part)
        gap = 0 <= left < len(data)
        found.append(data[:left] + bytes(PAGE_SIZE) + data[left:] if gap else part)
        left -= len(data)
    return found


def _joint(children: Sequence[tuple[int, int]]) -> bytes:
    """Return a page that points to others, given their numbers and the last id below each."""
    cells = [page.to_bytes(4, "big") + _varint(last) for page, last in children[:-1]]
    places = (PAGE_SIZE - np.cumsum([len(cell) for cell in cells], dtype=np.int64)).astype(">u2")
    begin = places[-1:].tobytes() or PAGE_SIZE.to_bytes(2, "big")
    header = b"\5\0\0" + len(cells).to_bytes(2, "big") + begin + b"\0"
    page = header + children[-1][0].to_bytes(4, "big") + places.tobytes()
    return page + b"".join(reversed(cells)).rjust(PAGE_SIZE - len(page), b"\0")


def _varint(number: int) -> bytes:
    """Return a number as SQLite writes it, seven bits to a byte."""
    found = [number & 0x7F]
    while number := number >> 7:
        found.append(number & 0x7F | 0x80)
    return bytes(reversed(found))


# Allocations that are alike: a bundle stores what they share once.


def find_kinds(
    columns: Sequence[NDArray[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find rows that are alike in all columns, as ``alike()`` does, whatever was chosen."""
    varied = [column for column in columns if len(column) and (column != column[0]).any()]
    varied = varied or [columns[0]]
    found = alike(varied)
    if found is None:
        rows = np.stack(varied, axis=1)
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        found = first[order], rank[number.reshape(-1)]
    return found


def default_first(history: History) -> list[int]:
    """Return the order in which devices are stored: the default one, then the others.

    The default device's allocations then have the ids 0, 1, 2, ..., as in ``allocations.json``.
    """
    others = [i for i in range(len(history.devices)) if i != history.default_device]
    return [history.default_device, *others] if history.devices else []


def write_database(history: History) -> bytes:
    """Return the bytes of an SQLite file that holds a whole history."""
    return whole_of(database_parts(history))


def database_parts(history: History) -> list[bytes | Marked]:
    """Return the same in parts."""
    return filled_database(ELEMENTS, lambda tables: _Writer(tables).write(history))


class _Writer:
    """Fills the tables, with ids that count over all devices."""

    def __init__(self, tables: TableWriter) -> None:
        self._tables = tables
        self._allocations = 0
        self._roles: dict[tuple[str, Evidence], int] = {}
        self._base = [0, 0]  # event and time of the last span

    def write(self, history: History) -> None:
        from snapreport.roles.lifetimes import find_roles  # not needed for reading

        meta = {
            "default_device": history.default_device,
            "layout": history.layout,
            "names": history.names.as_plain(),
            "oddities": history.oddities,
            "settings": history.settings,
        }
        if history.recorder is not None:
            meta["recorder"] = history.recorder.as_plain()
        if history.cut is not None:
            meta["cut"] = history.cut.as_plain()
        self._tables.add("strings", history.strings)
        self._tables.add_rows("pools", history.pools)
        self._stacks(history.stacks)
        actions = (name for device in history.devices for name in set(device.other.action))
        self._long_names = any(map(is_long, actions))
        for i in default_first(history):
            device = history.devices[i]
            role = self._roles_of(find_roles(device, history))
            meta[f"anomalies.{i}"] = device.anomalies
            meta[f"skipped.{i}"] = list(device.skipped)
            other = device.other_allocator
            meta[f"other_allocator.{i}"] = None if other is None else vars(other)
            meta[f"requested_before.{i}"] = self._device(i, device, role)
        rows = [(role, evidence.text, evidence.confidence) for role, evidence in self._roles]
        self._tables.add_rows("roles", rows)
        self._tables.add_meta(meta)

    def _stacks(self, stacks: StackTable) -> None:
        frames = stacks.frames
        extra = [
            orjson.dumps(frames.extra[i]).decode() if i in frames.extra else None
            for i in range(len(frames))
        ]
        self._tables.add("frames", frames.names, frames.filenames, frames.lines, extra)
        nodes = (stacks.node_parent, stacks.node_frame, stacks.node_depth)
        self._tables.add_long("call_nodes", *nodes)
        texts = [
            f"{file}:{'?' if line == UNKNOWN_LINE else line}:{name}"
            for file, line, name in zip(
                frames.filenames, frames.lines.tolist(), frames.names, strict=True
            )
        ]
        depth = stacks.of_stacks(stacks.node_depth, 0)
        self._tables.add("stacks", stacks.stack_node, depth, call_stack_texts(stacks, texts))

    def _roles_of(self, roles: Roles) -> NDArray[np.int64]:
        """Return the row of each allocation's role; new roles follow those of other devices."""
        place, pairs = roles.with_evidence()
        ids = [self._roles.setdefault(pair, len(self._roles)) for pair in pairs]
        return np.array(ids, np.int64)[place]

    def _device(self, index: int, history: DeviceHistory, role: NDArray[np.int64]) -> list[int]:
        """Write one device, and return the allocations whose free was requested before event 0."""
        device = history.device
        row = (index, device.kind, device.ordinal, history.events, *_time_range(history))
        self._tables.connection.execute("INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?)", row)
        first_id = self._allocations
        self._allocations += len(history.allocations)
        rows = history.allocations
        columns = {
            "kind": self._kinds_of(index, rows, role),
            "addr": rows.addr,
            "version": rows.version.astype(np.int64),
            **self._spans(rows, first_id),
        }
        of_events = (rows.alloc_event, rows.free_requested_event, rows.free_event)
        of_times = (rows.alloc_time_us, rows.free_requested_time_us, rows.free_time_us)
        for unit, values, never in (("", of_events, history.events), ("_us", of_times, NO_TIME)):
            requested, free = differences(*values, never)
            columns |= {f"requested_after{unit}": requested, f"free_after{unit}": free}
        names = self._tables.names("allocation_rows")
        self._tables.add_long("allocation_rows", *(columns[name] for name in names), none=NOT_THERE)
        other = history.other
        device_of = np.full(len(other), index)
        add_events = self._tables.add if self._long_names else self._tables.add_long
        add_events("events", *self._tables.fields("events", other, device=device_of))
        self._final_state(index, history, first_id)
        self._stages(index, history)
        pending: list[int] = np.flatnonzero(rows.free_requested_event == START).tolist()
        return [first_id + i for i in pending]

    def _kinds_of(
        self, index: int, rows: Allocations, role: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Write the kinds of a device's allocations, and return the kind of each."""
        _, *columns = self._tables.fields(
            "allocation_kinds", rows,
            device=index,
            slack=rows.block_size - rows.size,
            block_range=rows.block_size_max - rows.block_size,
            role=role,
        )  # fmt: skip
        first, kind = find_kinds(columns)
        shared = (column[first] for column in columns)
        ids = self._tables.add_long("allocation_kinds", np.full(len(first), index), *shared)
        return kind + ids.start

    def _spans(self, rows: Allocations, first_id: int) -> dict[str, NDArray[np.int64]]:
        """Write the spans of a device, and return alloc events and times counted from them."""
        found = {}
        spans: list[NDArray[np.int64]] = []
        columns = (("alloc_after", rows.alloc_event, START),
                   ("alloc_after_us", rows.alloc_time_us, NO_TIME))  # fmt: skip
        for place, (name, column, none) in enumerate(columns):
            bases, base = span_bases(column, first_id, self._base[place])
            self._base[place] = int(bases[-1]) if len(bases) else self._base[place]
            spans.append(bases)
            found[name] = np.where(column == none, NOT_THERE, column - base)
        self._tables.add_long("allocation_spans", *spans)
        return found

    def _final_state(self, index: int, history: DeviceHistory, first_allocation: int) -> None:
        segments = history.segments
        columns = self._tables.fields(
            "segments", segments,
            device=[index] * len(segments),
            kind=["large" if large else "small" for large in segments.large.tolist()],
            expandable=segments.expandable.astype(np.int64),
            **dict(zip(STATED, segments.stated.T, strict=True)),
        )  # fmt: skip
        ids = self._tables.add("segments", *columns)
        self._tables.add(
            "blocks",
            segments.block_segment.astype(np.int64) + ids.start,
            segments.block_address,
            segments.block_size,
            segments.block_requested,
            [BLOCK_STATES[state] for state in segments.block_state.tolist()],
            segments.block_stack,
            _counted_from(history.block_allocation, first_allocation),
        )

    def _stages(self, index: int, history: DeviceHistory) -> None:
        stages = history.stages
        columns = self._tables.fields(
            "annotations", stages,
            device=[index] * len(stages),
            parent=_counted_from(stages.parent, self._tables.count["annotations"]),
        )  # fmt: skip
        self._tables.add("annotations", *columns)


def is_long(text: str) -> bool:
    """Whether ``add_long()`` cannot write a text."""
    return len(text.encode()) > MOST_TEXT or "\0" in text


def _counted_from(rows: NDArray[np.int32], first: int) -> NDArray[np.int64]:
    """Return rows of one device as rows of a whole table; NO_ID stays."""
    return np.where(rows == NO_ID, NO_ID, rows.astype(np.int64) + first)


def call_stack_texts(stacks: StackTable, texts: Sequence[str]) -> Iterator[str]:
    """Yield each stack as lines, innermost frame first.

    Args:
        stacks: the stacks.
        texts: the line of each frame.
    """
    parent = stacks.node_parent
    lines = [texts[frame] for frame in stacks.node_frame.tolist()]
    # A node mostly follows its parent, so a path is a few runs of nodes.
    nodes = np.arange(len(parent))
    begins = np.maximum.accumulate(np.where(parent == nodes - 1, 0, nodes)).tolist()
    parents = parent.tolist()
    for node in stacks.stack_node.tolist():
        found: list[str] = []
        while node >= 0:
            begin = begins[node]
            found += lines[begin : node + 1][::-1]
            node = parents[begin]
        yield "\n".join(found)


def _time_range(history: DeviceHistory) -> tuple[int | None, int | None]:
    rows = history.allocations
    times = (rows.alloc_time_us, rows.free_requested_time_us, rows.free_time_us)
    known = [each[each != NO_TIME] for each in (*times, history.other.time_us)]
    ends = [(int(each.min()), int(each.max())) for each in known if len(each)]
    return (min(ends)[0], max(last for _, last in ends)) if ends else (None, None)
