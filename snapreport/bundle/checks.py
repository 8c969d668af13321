"""Does a history that was read hold together? A damaged bundle must not become wrong figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from snapreport.errors import BundleError
from snapreport.model.history import START, Allocations, DeviceHistory, Events, History, Stages
from snapreport.model.snapshot import NO_ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SQLITE = b"SQLite format 3\0"
_KINDS = ("cuda", "host", "cpu")


def check_begin(data: bytes) -> None:
    """Check that bytes begin as an SQLite file does; SQLite itself may take too few for a new one.

    Raises:
        BundleError: they do not.
    """
    if not data.startswith(_SQLITE):
        raise BundleError("has a damaged elements.db (it is no SQLite file); convert it again.")


def check_history(history: History) -> None:
    """Check every id, step and text of a history.

    Raises:
        ValueError: one of them cannot be; the message says of what.
    """
    frames = history.stacks.frames
    _texts("frame", frames.names, frames.filenames)
    _texts("string", history.strings)
    if not isinstance(history.settings, dict):
        raise ValueError("the settings are no mapping")
    _counts("oddities", history.oddities)
    for device in history.devices:
        if device.device.kind not in _KINDS or device.device.ordinal < 0 or device.events < 0:
            raise ValueError("a device cannot be")
        _counts("anomalies", device.anomalies)
        _check_allocations(device.allocations, device.events, history)
        _check_events(device.other, device.events, len(history.stacks))
        _check_final_state(device, history)
        _check_stages(device.stages, device.events)


def _check_allocations(rows: Allocations, events: int, history: History) -> None:
    what = "allocation"
    _within(what, rows.size, 0)
    _within(what, rows.block_size, 0)
    _within(what, rows.block_size_max - rows.block_size, 0)
    _within(what, rows.alloc_step, START, events)
    _within(what, rows.free_step, 0, events + 1)
    _within(what, rows.free_requested_step, START, events + 1)
    _within(what, rows.free_step - rows.alloc_step, 1)
    _within(what, rows.free_step - rows.free_requested_step, 0)
    _within(what, np.diff(rows.alloc_step), 0)  # they come in birth order
    for stacks in (rows.stack, rows.free_stack):
        _within(what, stacks, NO_ID, len(history.stacks))
    for texts in (rows.category, rows.compile_context, rows.metadata):
        _within(what, texts, NO_ID, len(history.strings))
    _within(what, rows.pool, NO_ID, len(history.pools))


def _check_events(other: Events, events: int, n_stacks: int) -> None:
    _texts("event", other.action)
    _within("event", other.step, 0, events)
    _within("event", np.diff(other.step), 1)
    _within("event", other.stack, NO_ID, n_stacks)


def _check_final_state(device: DeviceHistory, history: History) -> None:
    segments = device.segments
    _within("segment", segments.size, 0)
    _within("segment", np.diff(segments.address), 0)
    _within("segment", segments.pool, NO_ID, len(history.pools))
    _within("segment", segments.stack, NO_ID, len(history.stacks))
    _within("block", segments.block_size, 0)
    _within("block", segments.block_requested, 0)
    _within("block", segments.block_segment, 0, len(segments))
    _within("block", segments.block_stack, NO_ID, len(history.stacks))
    _within("block", device.block_allocation, NO_ID, len(device.allocations))


def _check_stages(stages: Stages, events: int) -> None:
    _texts("annotation", stages.name)
    _within("annotation", stages.start_step, START, events + 1)
    _within("annotation", stages.end_step, START, events + 1)
    _within("annotation", stages.end_step - stages.start_step, 0)
    _within("annotation", stages.depth, 0)
    _within("annotation", stages.parent, NO_ID)
    _within("annotation", np.arange(len(stages)) - stages.parent, 1)


def _within(what: str, values: NDArray[Any], least: int, below: int | None = None) -> None:
    if len(values) and (
        int(values.min()) < least or (below is not None and int(values.max()) >= below)
    ):
        raise ValueError(f"a number in the table of {what}s is out of range")


def _texts(what: str, *columns: Iterable[Any]) -> None:
    if not all(isinstance(text, str) for column in columns for text in column):
        raise ValueError(f"a name in the table of {what}s is no text")


def _counts(what: str, counts: Any) -> None:
    if not isinstance(counts, Mapping) or not all(type(n) is int for n in counts.values()):
        raise ValueError(f"the {what} are no counts")
