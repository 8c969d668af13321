"""Writes ``elements.db``: every fact of a history once, as SQLite tables (see ``schema.sql``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.differences import (
    NOT_THERE,
    event_differences,
    span_bases,
    time_differences,
)
from snapreport.bundle.schemas import ELEMENTS
from snapreport.bundle.shared_values import find_kinds
from snapreport.bundle.table_writing import TableWriter, filled_database, insert_integers
from snapreport.model.history import START, Allocations, DeviceHistory, History
from snapreport.model.roles import Evidence, Roles
from snapreport.model.snapshot import BLOCK_STATES, NO_ID, NO_TIME, STATED
from snapreport.model.stacks import UNKNOWN_LINE, StackTable


def default_first(history: History) -> list[int]:
    """Return the order in which devices are stored: the default one, then the others.

    The default device's allocations then have the ids 0, 1, 2, ..., as in ``allocations.json``.
    """
    others = [i for i in range(len(history.devices)) if i != history.default_device]
    return [history.default_device, *others] if history.devices else []


def write_database(history: History) -> bytes:
    """Return the bytes of an SQLite file that holds a whole history."""
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
        self._tables.add("call_nodes", *nodes)
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
            **event_differences(rows, history.events),
            **time_differences(rows),
        }
        insert_integers(self._tables.connection, "allocation_rows", first_id, columns)
        self._events(index, history)
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
        device = [index] * len(first)
        ids = self._tables.add("allocation_kinds", device, *(column[first] for column in columns))
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
        self._tables.add("allocation_spans", *spans)
        return found

    def _events(self, index: int, history: DeviceHistory) -> None:
        device = [index] * len(history.other)
        self._tables.add("events", *self._tables.fields("events", history.other, device=device))

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
    times = np.concatenate(
        [rows.alloc_time_us, rows.free_requested_time_us, rows.free_time_us, history.other.time_us]
    )
    times = times[times != NO_TIME]
    return (int(times.min()), int(times.max())) if len(times) else (None, None)
