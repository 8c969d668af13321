"""Read ``elements.db`` back into a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
import orjson

from snapreport.bundle.allocation_table import AllocationTable
from snapreport.bundle.cells import from_cells, transposed
from snapreport.bundle.checks import check_begin, check_history
from snapreport.errors import BundleError
from snapreport.model.cut import cut_from_plain
from snapreport.model.history import START, Allocations, DeviceHistory, Events, History, Stages
from snapreport.model.paths import names_done
from snapreport.model.recorder import recorder_info
from snapreport.model.snapshot import BLOCK_STATES, NO_ID, DeviceId, Segments, Source
from snapreport.model.stacks import FrameTable, StackTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_database(data: bytes, source: Source) -> History:
    """Read a history out of the bytes of an SQLite file.

    Args:
        data: what ``write_database`` returned.
        source: the file that the history came from.

    Raises:
        BundleError: the database is damaged, or is none of ours.
    """
    check_begin(data)
    connection = apsw.Connection(":memory:")
    try:
        connection.deserialize("main", data)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.pragma("query_only", True)
        return _Reader(connection, AllocationTable(connection, data)).read(source)
    except apsw.Error as error:
        raise BundleError(f"has a damaged elements.db ({error}); convert it again.") from error
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        reason = str(error) or type(error).__name__
        raise BundleError(
            f"has an elements.db that does not hold together ({reason}); convert it again."
        ) from error
    finally:
        connection.close()


class _Reader:
    """Takes the tables column by column; ids count from 0, so a row's place is its id."""

    def __init__(self, connection: apsw.Connection, table: AllocationTable) -> None:
        self._connection, self._table = connection, table

    def _columns(self, query: str, width: int, *bindings: Any) -> list[tuple[Any, ...]]:
        return transposed(self._connection.execute(query, bindings), width)

    def read(self, source: Source) -> History:
        self._meta = {
            key: orjson.loads(value)
            for key, value in self._connection.execute("SELECT key, value FROM meta")
        }
        strings = self._columns("SELECT text FROM strings ORDER BY id", 1)[0]
        pools = self._connection.execute("SELECT first, second FROM pools ORDER BY id")
        devices: list[tuple[Any, ...]] = self._connection.execute(
            "SELECT id, kind, ordinal, events FROM devices ORDER BY id"
        ).fetchall()
        history = History(
            source=source,
            layout=str(self._meta["layout"]),
            stacks=self._stacks(),
            strings=list(strings),
            pools=[(first, second) for first, second in pools],
            devices=tuple(
                self._device(int(index), DeviceId(str(kind), int(ordinal)), int(events))
                for index, kind, ordinal, events in devices
            ),
            default_device=int(self._meta["default_device"]),
            settings=self._meta["settings"],
            oddities=self._meta["oddities"],
            recorder=recorder_info(self._meta.get("recorder")),
            cut=cut_from_plain(self._meta.get("cut")),
            names=names_done(self._meta.get("names")),
        )
        if history.devices and not 0 <= history.default_device < len(history.devices):
            raise IndexError("the default device is none of the devices")
        check_history(history)
        self._check_that_all_was_read(history)
        return history

    def _check_that_all_was_read(self, history: History) -> None:
        """Find rows that belong to no device or segment: they would be missing in silence."""
        found = {
            "allocations": sum(len(device.allocations) for device in history.devices),
            "events": sum(len(device.other) for device in history.devices),
            "segments": sum(len(device.segments) for device in history.devices),
            "blocks": sum(len(device.block_allocation) for device in history.devices),
            "annotations": sum(len(device.stages) for device in history.devices),
        }
        for table, count in found.items():
            query = f"SELECT count(*) FROM {table}"  # noqa: S608  (our own names)
            if self._columns(query, 1)[0][0] != count:
                raise IndexError(f"rows of {table} belong to nothing")

    def _stacks(self) -> StackTable:
        names, files, lines, extra = self._columns(
            "SELECT name, filename, line, extra FROM frames ORDER BY id", 4
        )
        frames = FrameTable(
            list(names),
            list(files),
            from_cells(lines, np.int64),
            {i: orjson.loads(text) for i, text in enumerate(extra) if text is not None},
        )
        parent, frame, depth = self._columns(
            "SELECT parent, frame, depth FROM call_nodes ORDER BY id", 3
        )
        node = self._columns("SELECT node FROM stacks ORDER BY id", 1)[0]
        table = StackTable(
            frames,
            from_cells(parent, np.int32),
            from_cells(frame, np.int32),
            from_cells(depth, np.int32),
            from_cells(node, np.int32),
        )
        if (table.node_parent >= np.arange(len(table.node_parent))).any():
            raise IndexError("a call node comes before its parent")
        _check(table.node_frame, len(frames), "frame")
        _check(table.stack_node, len(table.node_parent), "call node")
        self._n_stacks = len(table)
        return table

    def _device(self, index: int, device: DeviceId, events: int) -> DeviceHistory:
        allocations, first_id = self._allocations(index, events)
        segments, held = self._final_state(index)
        return DeviceHistory(
            device=device,
            events=events,
            allocations=allocations,
            other=self._events(index),
            segments=segments,
            block_allocation=np.where(held == NO_ID, NO_ID, held - first_id).astype(np.int32),
            stages=self._stages(index),
            anomalies=self._meta[f"anomalies.{index}"],
        )

    def _allocations(self, index: int, events: int) -> tuple[Allocations, int]:
        requested_before = np.array(self._meta[f"requested_before.{index}"], np.int64)
        allocations, first_id = self._table.of_device(index, events, requested_before)
        for stack in (allocations.stack, allocations.free_stack):
            _check(stack, self._n_stacks, "stack")
        for step in (
            allocations.alloc_step,
            allocations.free_requested_step,
            allocations.free_step,
        ):
            _check_steps(step, events)
        return allocations, first_id

    def _events(self, index: int) -> Events:
        step, action, addr, size, time_us, stream, stack = self._columns(
            "SELECT step, action, addr, size, time_us, stream, stack FROM events"
            " WHERE device = ? ORDER BY step",
            7,
            index,
        )
        return Events(
            step=from_cells(step, np.int64),
            action=list(action),
            addr=from_cells(addr, np.int64),
            size=from_cells(size, np.int64),
            time_us=from_cells(time_us, np.int64),
            stream=from_cells(stream, np.int64),
            stack=from_cells(stack, np.int32),
        )

    def _final_state(self, index: int) -> tuple[Segments, NDArray[np.int64]]:
        ids, address, size, stream, pool, kind, expandable, stack, *stated = self._columns(
            "SELECT id, address, size, stream, pool, kind, expandable, stack, allocated_size,"
            " active_size, requested_size FROM segments WHERE device = ? ORDER BY id",
            11,
            index,
        )
        first = ids[0] if ids else 0
        segment, at, block_size, requested, state, block_stack, held = self._columns(
            "SELECT segment, b.address, b.size, requested, state, b.stack, allocation"
            " FROM blocks AS b JOIN segments AS s ON s.id = b.segment WHERE s.device = ?"
            " ORDER BY b.rowid",
            7,
            index,
        )
        segments = Segments(
            address=from_cells(address, np.int64),
            size=from_cells(size, np.int64),
            stream=from_cells(stream, np.int64),
            pool=from_cells(pool, np.int32),
            large=np.array([name == "large" for name in kind], np.bool_),
            expandable=from_cells(expandable, np.int64).astype(np.bool_),
            stack=from_cells(stack, np.int32),
            stated=np.stack([from_cells(column, np.int64) for column in stated], axis=1),
            block_segment=(from_cells(segment, np.int64) - first).astype(np.int32),
            block_address=from_cells(at, np.int64),
            block_size=from_cells(block_size, np.int64),
            block_requested=from_cells(requested, np.int64),
            block_state=np.array([BLOCK_STATES.index(name) for name in state], np.int8),
            block_stack=from_cells(block_stack, np.int32),
        )
        return segments, from_cells(held, np.int64)

    def _stages(self, index: int) -> Stages:
        ids, name, parent, depth, start, end, start_us, end_us = self._columns(
            "SELECT id, name, parent, depth, start_step, end_step, start_time_us, end_time_us"
            " FROM annotations WHERE device = ? ORDER BY id",
            8,
            index,
        )
        first = ids[0] if ids else 0
        parents = from_cells(parent, np.int64)
        return Stages(
            name=list(name),
            parent=np.where(parents < 0, -1, parents - first).astype(np.int32),
            depth=from_cells(depth, np.int32),
            start_step=from_cells(start, np.int64),
            end_step=from_cells(end, np.int64),
            start_time_us=from_cells(start_us, np.int64),
            end_time_us=from_cells(end_us, np.int64),
        )


def _check(ids: Sequence[int] | NDArray[np.int32], length: int, what: str) -> None:
    """Refuse ids that point beyond the table that they belong to."""
    column = np.asarray(ids)
    if len(column) and (int(column.max()) >= length or int(column.min()) < -1):
        raise IndexError(f"an id of a {what} is out of range")


def _check_steps(steps: NDArray[np.int64], events: int) -> None:
    if len(steps) and (int(steps.min()) < START or int(steps.max()) > events):
        raise IndexError("a step is out of range")
