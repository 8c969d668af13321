"""Reads a snapshot file into columns; every snapshot comes in this way."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from snapreport.ground.errors import NotASnapshotError, naming
from snapreport.ground.files import BEGIN, foreign_file
from snapreport.ground.processes import collector_off
from snapreport.ground.progress import Progress, silent
from snapreport.ground.units import format_bytes
from snapreport.model.snapshot import DeviceId, RawSnapshot, Segments, Source, Trace, most_written
from snapreport.read.layout import Layout, read_annotations, recognise
from snapreport.read.parsed import OBJECTS, require_memory
from snapreport.read.source import open_source
from snapreport.read.traces import Tables, read_segments, read_trace
from snapreport.read.unpickle import load_plain_pickle, load_snapshot_pickle


def read_snapshot(path: Path, progress: Progress = silent) -> RawSnapshot:
    """Read a ``.pickle``, ``.pickle.gz``, ``.pickle.zst`` or ``.json`` snapshot.

    The first bytes of the file, not its name, decide what it is.

    Raises:
        InputError: the file is missing, a folder or unreadable.
        NotASnapshotError: it is not a snapshot, or a damaged one.
        UnsafePickleError: it is a pickle that could run code; nothing in it was run.
        NotEnoughMemoryError: it is too large for this machine.
    """
    with _named(path), collector_off():
        progress("Reading", None)
        with open_source(path) as (source, data):
            top = _parse(data, path.name, load_snapshot_pickle)
            found, length = source(), len(data)
        return _to_columns(found, top, length, progress)


def read_bytes(data: bytes, name: str) -> RawSnapshot:
    """Read a snapshot that is in memory, as ``read_snapshot()`` reads a file.

    Args:
        data: what such a file would hold, not compressed.
        name: shown as the file name in reports and messages.

    Raises:
        NotASnapshotError, UnsafePickleError, NotEnoughMemoryError: as ``read_snapshot()``.
    """
    with _named(name), collector_off():
        source = Source(name, len(data), sha256(data).hexdigest())
        return _to_columns(source, _parse(data, name, load_snapshot_pickle), len(data), silent)


def read_objects(path: Path, progress: Progress = silent) -> tuple[Any, int]:
    """Read a snapshot file as the plain dicts, lists and numbers that it holds.

    Returns:
        the snapshot, and how many bytes it was read from, unpacked.

    Raises:
        InputError, NotASnapshotError, UnsafePickleError, NotEnoughMemoryError: as
            ``read_snapshot()``; but only the top level of its content is checked.
    """
    with _named(path), collector_off():
        progress("Reading", None)
        with open_source(path) as (_, data):
            top, length = _parse(data, path.name, load_plain_pickle), len(data)
        copy = top
        if isinstance(top, dict):  # recognise() empties what it is given
            copy = dict(top)
            if isinstance(top.get("allocator_settings"), dict):
                copy["allocator_settings"] = dict(top["allocator_settings"])
        recognise(copy, Tables(length))
        return top, length


@contextmanager
def _named(path: Path | str) -> Iterator[None]:
    """Make every error that a file can cause name the file."""
    try:
        with naming(path):
            yield
    except RecursionError as error:
        raise NotASnapshotError(f"{path} is damaged: it is nested too deeply.") from error
    except MemoryError as error:
        raise NotASnapshotError(f"{path} needs more memory than this machine has.") from error


def _parse(data: bytes | mmap.mmap, name: str, load: Callable[[bytes | mmap.mmap], Any]) -> Any:
    begin = data[:BEGIN]
    other = foreign_file(begin, len(data), name)
    if other:
        raise NotASnapshotError(other)
    if data[:1] == b"\x80":
        return load(data)
    if begin[:64].lstrip()[:1] in (b"{", b"["):
        require_memory(OBJECTS * len(data))
        try:
            return orjson.loads(data if isinstance(data, bytes) else data[:])
        except orjson.JSONDecodeError as error:
            raise NotASnapshotError(f"is damaged JSON ({error}); copy it again.") from error
    raise NotASnapshotError(
        "is not a memory snapshot: it is neither a pickle (protocol 2 to 5) nor JSON;"
        " record one with torch.cuda.memory._dump_snapshot()."
    )


def _to_columns(source: Source, top: Any, length: int, progress: Progress) -> RawSnapshot:
    """Turn the raw objects into columns, freeing each part as soon as it is read."""
    tables = Tables(length)
    layout = recognise(top, tables)
    del top
    traces, segments = _devices(layout, tables, progress)
    snapshot = RawSnapshot(
        source=source,
        layout=layout.kind,
        stacks=tables.stacks.table(),
        strings=tables.strings.strings,
        pools=tables.pools.pools,
        traces=traces,
        segments=segments,
        annotations=read_annotations(layout.annotations, layout.cpu, tables),
        settings=layout.settings,
        oddities=dict(tables.oddities),
        recorder=layout.recorder,
        length=length,
    )
    _check_written(snapshot)
    return snapshot


def _devices(
    layout: Layout, tables: Tables, progress: Progress
) -> tuple[tuple[Trace, ...], dict[DeviceId, Segments]]:
    devices = sorted(
        layout.traces.keys() | layout.segments.keys(),
        key=lambda device: (("cuda", "host", "cpu").index(device.kind), device.ordinal),
    )
    # Segments first: their raw objects are few, and those of events are freed device by device.
    segments = {
        device: read_segments(layout.segments.pop(device, []), str(device), tables)
        for device in devices
    }
    traces = []
    for done, device in enumerate(devices):
        progress("Reading events", done / len(devices))
        traces.append(read_trace(layout.traces.pop(device, []), device, tables))
    return tuple(traces), segments


def _check_written(snapshot: RawSnapshot) -> None:
    """Check that a snapshot's bundle or report would not be far too large for its file.

    In a pickle a million places can refer to one text. In memory it is stored once; a bundle, a
    page and an export repeat it wherever it is used.

    Raises:
        NotASnapshotError: it would be.
    """
    written = snapshot.stacks.characters() + _characters(
        (
            snapshot.stacks.frames.extra,
            snapshot.strings,
            snapshot.settings,
            snapshot.recorder,
            [annotation.name for annotation in snapshot.annotations],
        )
    )
    for trace in snapshot.traces:
        length = np.array([len(name) for name in trace.actions], np.int64)
        written += int(np.bincount(trace.action, minlength=len(length)) @ length)
    most = most_written(snapshot.length)
    if written > most:
        raise NotASnapshotError(
            f"is damaged: its texts, each written out wherever it is used, have {written:,}"
            f" characters; a file of {format_bytes(snapshot.length)} may have at most {most:,}."
        )


def _characters(value: Any) -> int:
    """Return the total length of all texts in nested dicts, lists and records."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value)) + sum(map(_characters, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_characters, value))
    return _characters(vars(value)) if hasattr(value, "__dict__") else 0
