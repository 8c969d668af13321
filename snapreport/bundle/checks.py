"""Checks that a history is consistent, so that a damaged bundle does not give wrong figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import (
    DEEPEST_SETTINGS,
    START,
    Allocations,
    DeviceHistory,
    Events,
    History,
    Stages,
)
from snapreport.model.snapshot import (
    CARDS,
    DEVICE_KINDS,
    LATEST_US,
    MOST_ADDRESS,
    MOST_BYTES,
    MOST_TOTAL,
    MOVES,
    NO_ID,
    NO_TIME,
    UNKNOWN_LINE,
    StackTable,
)

_SKIPPED = MOVES - {"segment_map", "segment_unmap"}
"""What a recording can leave out."""


def check_stacks(stacks: StackTable, size: int) -> None:
    """Check every id, depth and text of the table of call stacks.

    Args:
        stacks: the table.
        size: bytes of the file, which has the text of every stack.

    Raises:
        ValueError: one of them is impossible; the message says in which table.
    """
    frames = stacks.frames
    _texts("frame", frames.names, frames.filenames)
    for extra in frames.extra.values():
        if not isinstance(extra, dict):
            raise ValueError("the extra fields of a frame are not a mapping")
        _texts("frame", extra.values())
    within("frame", frames.lines, UNKNOWN_LINE)
    parent, depth = stacks.node_parent, stacks.node_depth
    within("call node", parent, NO_ID)
    within("call node", np.arange(len(parent)) - parent, 1)  # a node comes after its parent
    within("call node", stacks.node_frame, 0, len(frames))
    if (depth != np.where(parent < 0, 0, depth[parent]) + 1).any():
        raise ValueError("the depth of a call node is not one more than its parent's")
    within("stack", stacks.stack_node, NO_ID, len(parent))
    if stacks.characters() > size:
        raise ValueError("the call stacks are longer than the file")


def check_history(history: History) -> None:
    """Check every id, event and text of a history.

    Raises:
        ValueError: one of them is impossible; the message says in which table.
    """
    _texts("string", history.strings)
    if not isinstance(history.settings, dict):
        raise ValueError("the settings are not a mapping")
    _depth("settings", history.settings, DEEPEST_SETTINGS)
    _counts("oddities", history.oddities)
    if len({device.device for device in history.devices}) < len(history.devices):
        raise ValueError("two devices are the same")
    for device in history.devices:
        if device.device.kind not in DEVICE_KINDS or device.device.ordinal < 0 or device.events < 0:
            raise ValueError("a device has an unknown kind or a negative number")
        _counts("anomalies", device.anomalies)
        if any(each not in _SKIPPED for each in device.skipped):
            raise ValueError("a device left out events of an unknown kind")
        if device.other_allocator is not None:
            if device.other_allocator.kind not in CARDS:
                raise ValueError("another allocator is of an unknown kind")
            _texts("sign of another allocator", [device.other_allocator.evidence])
        _check_allocations(device.allocations, device.events, history)
        _check_events(device.other, device.events, history)
        _check_final_state(device, history)
        _check_every_event(device)
        _check_stages(device.stages, device.events)


def _check_allocations(rows: Allocations, events: int, history: History) -> None:
    what = "allocation"
    within(what, rows.version, 0)
    _memory(what, rows.addr, rows.size, rows.block_size, rows.block_size_max)
    _times(what, rows.alloc_time_us, rows.free_requested_time_us, rows.free_time_us)
    within(what, rows.block_size_max - rows.block_size, 0)
    within(what, rows.alloc_event, START, events)
    within(what, rows.free_event, 0, events + 1)
    within(what, rows.free_requested_event, START, events + 1)
    within(what, rows.free_event - rows.alloc_event, 1)
    within(what, rows.free_event - rows.free_requested_event, 0)
    within(what, np.diff(rows.alloc_event), 0)  # they come in birth order
    for stacks in (rows.stack, rows.free_stack):
        within(what, stacks, NO_ID, len(history.stacks))
    for texts in (rows.category, rows.compile_context, rows.metadata):
        within(what, texts, NO_ID, len(history.strings))
    within(what, rows.pool, NO_ID, len(history.pools))


def _check_every_event(device: DeviceHistory) -> None:
    """Check that each event is listed, with an allocation or among the other events."""
    rows, events = device.allocations, device.events
    if events > 3 * len(rows) + len(device.other):
        raise ValueError("a device has more events than are listed")
    seen = np.zeros(events + 2, np.bool_)  # with a place for never, and one for START, which is -1
    for column in (
        rows.alloc_event,
        rows.free_requested_event,
        rows.free_event,
        device.other.event,
    ):
        seen[column] = True
    if not seen[:events].all():
        raise ValueError("a device has an event that is not listed")


def _check_events(other: Events, events: int, history: History) -> None:
    _texts("event", other.action)
    within("event", other.event, 0, events)
    within("event", np.diff(other.event), 1)
    within("event", other.pool, NO_ID, len(history.pools))
    within("event", other.stack, NO_ID, len(history.stacks))
    moves = np.array([name in MOVES for name in other.action], np.bool_)
    _memory("event", other.addr[moves], other.size[moves])
    _times("event", other.time_us)


def _check_final_state(device: DeviceHistory, history: History) -> None:
    segments = device.segments
    _memory("segment", segments.address, segments.size)
    within("segment", np.diff(segments.address), 0)
    within("segment", segments.pool, NO_ID, len(history.pools))
    within("segment", segments.stack, NO_ID, len(history.stacks))
    within("segment", segments.stated, NO_ID)
    _memory("block", segments.block_address, segments.block_size, segments.block_requested)
    within("block", segments.block_segment, 0, len(segments))
    within("block", segments.block_stack, NO_ID, len(history.stacks))
    within("block", device.block_allocation, NO_ID, len(device.allocations))


def _check_stages(stages: Stages, events: int) -> None:
    _texts("annotation", stages.name)
    within("annotation", stages.start_event, START, events + 1)
    within("annotation", stages.end_event, START, events + 1)
    within("annotation", stages.end_event - stages.start_event, 0)
    within("annotation", stages.parent, NO_ID)
    _times("annotation", stages.start_time_us, stages.end_time_us)
    within("annotation", np.arange(len(stages)) - stages.parent, 1)
    inside = stages.parent >= 0
    if (stages.depth != np.where(inside, stages.depth[stages.parent] + 1, 0)).any():
        raise ValueError("the depth of an annotation is not one more than its parent's")


def within(what: str, values: NDArray[Any], least: int, below: int | None = None) -> None:
    """Check that numbers in a table are not less than ``least``, and are below ``below``.

    Raises:
        ValueError: one of them is not.
    """
    if len(values) and (
        int(values.min()) < least or (below is not None and int(values.max()) >= below)
    ):
        raise ValueError(f"a number in the table of {what}s is out of range")


def _memory(what: str, address: NDArray[Any], *sizes: NDArray[Any]) -> None:
    within(what, address, 0, MOST_ADDRESS + 1)
    for column in sizes:
        within(what, column, 0, MOST_BYTES + 1)
        if float(column.sum(dtype=np.float64)) > MOST_TOTAL:
            raise ValueError(
                f"the sizes in the table of {what}s add up to an impossible number of bytes"
            )


def _times(what: str, *columns: NDArray[Any]) -> None:
    for column in columns:
        within(what, column, NO_TIME, LATEST_US + 1)


def _depth(what: str, value: Any, most: int) -> None:
    level = [value]
    for _ in range(most + 1):
        inside = [each for each in level if isinstance(each, (dict, list))]
        if not inside:
            return
        level = [v for each in inside for v in (each.values() if isinstance(each, dict) else each)]
    raise ValueError(f"the {what} are nested too deeply")


def _texts(what: str, *columns: Iterable[Any]) -> None:
    if not {kind for column in columns for kind in set(map(type, column))} <= {str}:
        raise ValueError(f"a name in the table of {what}s is not text")


def _counts(what: str, counts: Any) -> None:
    if not isinstance(counts, Mapping) or not all(type(n) is int for n in counts.values()):
        raise ValueError(f"the {what} are not counts")
