"""Write ``elements.db``: every fact of a history once, as SQLite tables (see ``schema.sql``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
import orjson

from snapreport.bundle.differences import (
    NOT_THERE,
    SPAN,
    event_differences,
    span_bases,
    time_differences,
)
from snapreport.bundle.integer_rows import AT_ONCE, insert_integers
from snapreport.bundle.shared_values import find_kinds
from snapreport.bundle.sqlite_cells import to_cells
from snapreport.model.history import START, Allocations, DeviceHistory, History
from snapreport.model.roles import Evidence, Roles
from snapreport.model.snapshot import BLOCK_STATES, NO_ID, NO_TIME
from snapreport.model.stacks import NO_STACK, UNKNOWN_LINE, StackTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALONE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
"""No other thread uses the database: a lock for each cell would be for nothing."""


def default_first(history: History) -> list[int]:
    """Return the order in which devices are stored: the default one, then the others.

    Its allocations then have the ids 0, 1, 2, ..., the rows of ``allocations.json``.
    """
    others = [i for i in range(len(history.devices)) if i != history.default_device]
    return [history.default_device, *others] if history.devices else []


def schema_text() -> str:
    """Return the statements that make the tables, with what their columns mean as comments."""
    return Path(__file__).with_name("schema.sql").read_text("utf-8")


def write_database(history: History) -> bytes:
    """Return the bytes of an SQLite file that holds a whole history."""
    return filled_database(schema_text(), lambda tables: _Writer(tables).write(history))


def filled_database(schema: str, fill: Callable[[apsw.Connection], None]) -> bytes:
    """Return the bytes of an SQLite file with tables of a schema that ``fill`` has filled."""
    connection = apsw.Connection(":memory:", flags=_ALONE)
    connection.execute(schema)
    with connection:
        fill(connection)
    database = connection.serialize("main")
    connection.close()
    return database


class _Writer:
    """Fills the tables, keeping count of the ids that run over all devices."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._allocations = self._segments = self._annotations = self._kinds = 0
        self._roles: dict[tuple[str, Evidence], int] = {}
        self._base = [0, 0]  # event and time of the last span

    def _insert(self, table: str, columns: Sequence[Iterable[Any]]) -> None:
        width, one = len(columns), f"({', '.join('?' * len(columns))})"
        size = width * AT_ONCE
        cells = itertools.chain.from_iterable(zip(*columns, strict=True))
        left: list[Any] = []

        def full() -> Iterator[tuple[Any, ...]]:
            while len(taken := tuple(itertools.islice(cells, size))) == size:
                yield taken
            left.extend(taken)

        insert = f"INSERT INTO {table} VALUES "  # noqa: S608  (our own names)
        self._connection.executemany(insert + ", ".join([one] * AT_ONCE), full())
        rest = (left[at : at + width] for at in range(0, len(left), width))
        self._connection.executemany(insert + one, rest)

    def write(self, history: History) -> None:
        from snapreport.roles.lifetimes import find_roles  # reading does without

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
        self._insert("strings", [range(len(history.strings)), history.strings])
        first, second = zip(*history.pools, strict=True) if history.pools else ((), ())
        self._insert("pools", [range(len(history.pools)), first, second])
        self._stacks(history.stacks)
        for i in default_first(history):
            device = history.devices[i]
            role = self._roles_of(find_roles(device, history))
            meta[f"anomalies.{i}"] = device.anomalies
            meta[f"requested_before.{i}"] = self._device(i, device, role)
        self._insert(
            "roles",
            [
                range(len(self._roles)),
                [role for role, _ in self._roles],
                [evidence.text for _, evidence in self._roles],
                [evidence.confidence for _, evidence in self._roles],
            ],
        )
        values = [_json(meta[key]) for key in sorted(meta)]
        self._insert("meta", [sorted(meta), values])

    def _stacks(self, stacks: StackTable) -> None:
        frames = stacks.frames
        extra = [_json(frames.extra[i]) if i in frames.extra else None for i in range(len(frames))]
        lines = to_cells(frames.lines, UNKNOWN_LINE)
        self._insert("frames", [range(len(frames)), frames.names, frames.filenames, lines, extra])
        self._insert(
            "call_nodes",
            [
                range(len(stacks.node_parent)),
                to_cells(stacks.node_parent, -1),
                to_cells(stacks.node_frame),
                to_cells(stacks.node_depth),
            ],
        )
        texts = [
            f"{file}:{'?' if line is None else line}:{name}"
            for file, line, name in zip(frames.filenames, lines, frames.names, strict=True)
        ]
        self._insert(
            "stacks",
            [
                range(len(stacks)),
                to_cells(stacks.stack_node, -1),
                to_cells(stacks.of_stacks(stacks.node_depth, 0)),
                call_stack_texts(stacks, texts),
            ],
        )

    def _roles_of(self, roles: Roles) -> NDArray[np.int64]:
        """Return the row of each allocation's role, new ones behind those of other devices."""
        place, pairs = roles.told()
        ids = [self._roles.setdefault(pair, len(self._roles)) for pair in pairs]
        return np.array(ids, np.int64)[place]

    def _device(self, index: int, history: DeviceHistory, role: NDArray[np.int64]) -> list[int]:
        """Write one device; returns the allocations that were pending before event 0."""
        first, last = _time_range(history)
        row = (index, history.device.kind, history.device.ordinal, history.events, first, last)
        self._insert("devices", [[cell] for cell in row])
        first_id, n = self._allocations, len(history.allocations)
        self._allocations += n
        never = history.events
        rows = history.allocations
        kind = self._kinds_of(index, rows, role)
        alloc_after, alloc_after_us = self._spans(rows, first_id)
        requested_after, free_after = event_differences(rows, never)
        requested_after_us, free_after_us = time_differences(rows)
        columns = {
            "kind": kind,
            "addr": rows.addr,
            "version": rows.version.astype(np.int64),
            "alloc_after": alloc_after,
            "requested_after": requested_after,
            "free_after": free_after,
            "alloc_after_us": alloc_after_us,
            "requested_after_us": requested_after_us,
            "free_after_us": free_after_us,
        }
        insert_integers(self._connection, "allocation_rows", first_id, columns)
        self._events(index, history)
        self._final_state(index, history, first_id)
        self._stages(index, history)
        pending: list[int] = np.flatnonzero(rows.free_requested_event == START).tolist()
        return [first_id + i for i in pending]

    def _kinds_of(
        self, index: int, rows: Allocations, role: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Write what a device's allocations have in common, and return the kind of each."""
        columns = {
            "size": rows.size,
            "slack": rows.block_size - rows.size,
            "block_range": rows.block_size_max - rows.block_size,
            "stream": rows.stream,
            "pool": rows.pool,
            "stack": rows.stack,
            "free_stack": rows.free_stack,
            "category": rows.category,
            "compile_context": rows.compile_context,
            "metadata": rows.metadata,
            "role": role,
        }
        first, kind = find_kinds(list(columns.values()))
        count, before = len(first), self._kinds
        self._kinds += count
        nulls = dict.fromkeys(("stack", "free_stack"), NO_STACK) | dict.fromkeys(
            ("pool", "category", "compile_context", "metadata"), NO_ID
        )
        self._insert(
            "allocation_kinds",
            [
                range(before, before + count),
                itertools.repeat(index, count),
                *(
                    to_cells(column[first], *([nulls[name]] if name in nulls else []))
                    for name, column in columns.items()
                ),
            ],
        )
        return kind + before

    def _spans(self, rows: Allocations, first_id: int) -> tuple[NDArray[np.int64], ...]:
        """Write what a device's births count from, and return events and times counted from it."""
        found = []
        spans: list[NDArray[np.int64]] = []
        columns = ((rows.alloc_event, START), (rows.alloc_time_us, NO_TIME))
        for place, (column, none) in enumerate(columns):
            bases, base = span_bases(column, first_id, self._base[place])
            self._base[place] = int(bases[-1]) if len(bases) else self._base[place]
            spans.append(bases)
            found.append(np.where(column == none, NOT_THERE, column - base))
        first = -(-first_id // SPAN)
        self._insert(
            "allocation_spans", [range(first, first + len(spans[0])), *map(to_cells, spans)]
        )
        return tuple(found)

    def _events(self, index: int, history: DeviceHistory) -> None:
        other = history.other
        self._insert(
            "events",
            [
                [index] * len(other),
                to_cells(other.event),
                other.action,
                to_cells(other.addr),
                to_cells(other.size),
                to_cells(other.time_us, NO_TIME),
                to_cells(other.stream),
                to_cells(other.pool, NO_ID),
                to_cells(other.stack, NO_STACK),
            ],
        )

    def _final_state(self, index: int, history: DeviceHistory, first_allocation: int) -> None:
        segments, first, n = history.segments, self._segments, len(history.segments)
        self._segments += n
        self._insert(
            "segments",
            [
                range(first, first + n),
                [index] * n,
                to_cells(segments.address),
                to_cells(segments.size),
                to_cells(segments.stream),
                to_cells(segments.pool, NO_ID),
                ["large" if large else "small" for large in segments.large.tolist()],
                [int(flag) for flag in segments.expandable.tolist()],
                to_cells(segments.stack, NO_STACK),
                *(to_cells(column, -1) for column in segments.stated.T),
            ],
        )
        held = np.where(
            history.block_allocation == NO_ID,
            NO_ID,
            history.block_allocation.astype(np.int64) + first_allocation,
        )
        self._insert(
            "blocks",
            [
                to_cells(segments.block_segment.astype(np.int64) + first),
                to_cells(segments.block_address),
                to_cells(segments.block_size),
                to_cells(segments.block_requested),
                [BLOCK_STATES[state] for state in segments.block_state.tolist()],
                to_cells(segments.block_stack, NO_STACK),
                to_cells(held, NO_ID),
            ],
        )

    def _stages(self, index: int, history: DeviceHistory) -> None:
        stages, first, n = history.stages, self._annotations, len(history.stages)
        self._annotations += n
        parent = np.where(stages.parent < 0, -1, stages.parent.astype(np.int64) + first)
        self._insert(
            "annotations",
            [
                range(first, first + n),
                [index] * n,
                stages.name,
                to_cells(parent, -1),
                to_cells(stages.depth),
                to_cells(stages.start_event, START),
                to_cells(stages.end_event, START),
                to_cells(stages.start_time_us, NO_TIME),
                to_cells(stages.end_time_us, NO_TIME),
            ],
        )


def call_stack_texts(stacks: StackTable, texts: Sequence[str]) -> Iterator[str]:
    """Yield each stack as lines, innermost frame first.

    Args:
        stacks: the stacks.
        texts: the line of each frame.
    """
    parent = stacks.node_parent
    lines = [texts[frame] for frame in stacks.node_frame.tolist()]
    # Mostly a node follows its parent, so a path is a few runs of nodes.
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


def _json(value: object) -> str:
    """Encode a value in its own order: a report lists settings as the file does."""
    return orjson.dumps(value).decode()


def _time_range(history: DeviceHistory) -> tuple[int | None, int | None]:
    rows = history.allocations
    times = np.concatenate(
        [rows.alloc_time_us, rows.free_requested_time_us, rows.free_time_us, history.other.time_us]
    )
    times = times[times != NO_TIME]
    return (int(times.min()), int(times.max())) if len(times) else (None, None)
