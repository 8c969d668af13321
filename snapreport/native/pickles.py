"""Reads pickles: checks their opcodes, or reads trace events straight into columns."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.native.library import IDS, INTEGERS, Events, copied, library, pointer, text_at

# As in events.c.
_TRACE = np.dtype([("begin", np.int64), ("end", np.int64), ("first_keys", np.int64)])
_STACK = np.dtype([("start", np.uint64), ("length", np.uint32), ("hash", np.uint64)], align=True)
_UNKNOWN = np.dtype([(name, np.int64) for name in ("trace", "text", "count", "last")])


def scan(data: bytes | mmap.mmap) -> int:
    """Return the place of the first opcode that is not allowed or not complete, or of STOP."""
    scan = library().scan
    view = np.frombuffer(data, np.uint8)  # keeps the data alive while its address is in use
    return int(scan(view, len(view)))


@dataclass(frozen=True, eq=False)
class Columns:
    """The events of a pickle, and the rest of it."""

    by_name: dict[str, NDArray[Any]]
    """A column for each of INTEGERS, int64, and of IDS, int32; all have the same shape (n,)."""
    traces: NDArray[Any]
    """Records of ``begin`` and ``end``, rows of the events; and ``first_keys``, bits."""
    unknowns: NDArray[Any]
    """Records of ``trace``, ``text`` and ``count``: keys of events that we do not know."""
    stack_start: NDArray[np.uint64]
    """uint64, shape (n_stacks,): where each stack begins in ``stack_frames``."""
    stack_frames: NDArray[np.int32]
    """int32: the frames of all stacks, one after the other."""
    rest: bytes
    """A pickle of (the snapshot without events, the frames, the texts, the pairs of integers)."""


def columns_of(found: Events) -> Columns:
    """Return a copy of the events of a pickle as columns."""
    columns = {
        name: copied(place, found.n_rows, kind)
        for names, places, kind in (
            (INTEGERS, found.integers, np.int64),
            (IDS, found.ids, np.int32),
        )
        for name, place in zip(names, places, strict=True)
    }
    return Columns(
        columns,
        copied(found.traces, found.n_traces, _TRACE),
        copied(found.unknowns, found.n_unknowns, _UNKNOWN),
        copied(found.stacks, found.n_stacks, _STACK)["start"],
        copied(found.stack_frames, found.n_stack_frames, np.int32),
        text_at(found.rest, found.n_rest),
    )


@contextmanager
def events(data: bytes | mmap.mmap) -> Iterator[Events | None]:
    """Read a pickle, and keep its events during the body; None if it does not have the usual form.

    Such a pickle may be anything, a snapshot or not, safe or not. ``columns_of()`` copies the
    events; how many of them and of traces there are is in ``n_rows`` and ``n_traces``.
    """
    found, opened = Events(), library()
    view = np.frombuffer(data, np.uint8)
    done = opened.events(view, len(view), pointer(found))
    del view  # an error's traceback would keep it alive, and the file could not be closed
    if not done:
        yield None
        return
    try:
        yield found
    finally:
        opened.events_free(pointer(found))
