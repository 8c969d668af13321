"""Snapshots made by hand, read and analysed as files are; what a test leaves out is filled in."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from snapreport import read
from snapreport.history.build import build_history
from snapreport.model.history import DeviceHistory, History
from snapreport.model.snapshot import RawSnapshot
from snapreport.read import read_snapshot

KIB, MIB = 1 << 10, 1 << 20
BASE = 0x7F00_0000_0000
"""Where the builder's named places begin."""
PLACE = 1 << 30
"""How far they lie apart: each is a segment of its own unless a test says otherwise."""
FIRST_US = 1_700_000_000_000_000


def frame(name: str, filename: str = "train.py", line: int = 1) -> dict[str, Any]:
    """Return one frame of a call stack."""
    return {"name": name, "filename": filename, "line": line}


def stack(*names: str) -> list[dict[str, Any]]:
    """Return a call stack, innermost frame first."""
    return [frame(name, line=line) for line, name in enumerate(names, start=1)]


class TraceBuilder:
    """One device's trace, event by event; addresses are integers or names of places."""

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal
        self.events: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        self._settings: dict[str, Any] = {}

    def address(self, place: str | int) -> int:
        """Return the address of a named place."""
        if isinstance(place, int):
            return place
        return self._places.setdefault(place, BASE + PLACE * len(self._places))

    def event(self, action: str, **values: Any) -> TraceBuilder:
        """Add any event; keys whose value is None are left out."""
        event: dict[str, Any] = {
            "action": action,
            "addr": 0,
            "size": 0,
            "stream": 0,
            "time_us": FIRST_US + 10 * len(self.events),
            **values,
        }
        self.events.append({key: value for key, value in event.items() if value is not None})
        return self

    def alloc(self, place: str | int, size: int, **values: Any) -> TraceBuilder:
        """Allocate ``size`` bytes at a place."""
        addr = self.address(place)
        self._sizes[addr] = size
        return self.event("alloc", addr=addr, size=size, **values)

    def request(self, place: str | int, size: int | None = None, **values: Any) -> TraceBuilder:
        """Request the free of what is at a place."""
        addr = self.address(place)
        return self.event("free_requested", addr=addr, size=self._size(addr, size), **values)

    def complete(self, place: str | int, size: int | None = None, **values: Any) -> TraceBuilder:
        """Complete the free of what is at a place."""
        addr = self.address(place)
        return self.event("free_completed", addr=addr, size=self._size(addr, size), **values)

    def free(self, place: str | int, size: int | None = None, **values: Any) -> TraceBuilder:
        """Request and complete a free: two events."""
        return self.request(place, size, **values).complete(place, size, **values)

    def _size(self, addr: int, size: int | None) -> int:
        return self._sizes.get(addr, 0) if size is None else size

    def segment(
        self,
        place: str | int,
        size: int,
        *blocks: tuple[int, int, str],
        large: bool = True,
        **values: Any,
    ) -> TraceBuilder:
        """Add a final segment.

        Args:
            place: its address.
            size: its bytes.
            blocks: block bytes, requested bytes, and ``live``, ``pending`` or ``free``; what they
                leave of the segment is free.
            large: the pool.
            values: further keys.
        """
        address = self.address(place)
        states = {
            "live": "active_allocated",
            "pending": "active_pending_free",
            "free": "inactive",
        }
        rest = size - sum(block for block, _, _ in blocks)
        tiles = [*blocks, (rest, 0, "free")] if rest else list(blocks)
        rows, at = [], address
        for block, requested, state in tiles:
            rows.append(
                {
                    "address": at,
                    "size": block,
                    "requested_size": requested,
                    "state": states.get(state, state),
                    "frames": [],
                }
            )
            at += block
        used = [row for row in rows if row["state"] != "inactive"]
        self.segments.append(
            {
                "device": self.ordinal,
                "address": address,
                "total_size": size,
                "allocated_size": sum(
                    row["size"] for row in used if row["state"] == "active_allocated"
                ),
                "active_size": sum(row["size"] for row in used),
                "requested_size": sum(row["requested_size"] for row in used),
                "stream": 0,
                "segment_type": "large" if large else "small",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": rows,
                **values,
            }
        )
        return self

    def start(self, name: str, time_us: int) -> TraceBuilder:
        """Begin a stage, at microseconds after FIRST_US."""
        return self._annotate(name, "START", time_us)

    def end(self, name: str, time_us: int) -> TraceBuilder:
        """End a stage, at microseconds after FIRST_US."""
        return self._annotate(name, "END", time_us)

    def _annotate(self, name: str, stage: str, time_us: int) -> TraceBuilder:
        self._annotations.append(
            {"name": name, "stage": stage, "device": self.ordinal, "time_us": FIRST_US + time_us}
        )
        return self

    def settings(self, **values: Any) -> TraceBuilder:
        """Set allocator settings."""
        self._settings.update(values)
        return self

    def snapshot(self) -> dict[str, Any]:
        """Return what PyTorch would have pickled."""
        return {
            "segments": self.segments,
            "device_traces": [[]] * self.ordinal + [self.events],
            "allocator_settings": self._settings,
            "external_annotations": self._annotations,
        }

    def file(self) -> History:
        """Read and analyse it, as a file."""
        return history_of(self.snapshot())

    def history(self) -> DeviceHistory:
        """Read and analyse it; return the device's history."""
        return self.file().devices[self.ordinal]


def trace(ordinal: int = 0) -> TraceBuilder:
    """Begin a trace: ``trace().alloc("a", 4).free("a").history()``."""
    return TraceBuilder(ordinal)


def attention(size: int, name: str = "attend") -> TraceBuilder:
    """A stage ``forward`` that peaks at ``size`` MiB, allocated by ``name``, and two more."""
    return (
        trace()
        .segment("s", 20 * MIB)
        .start("forward", 0)
        .alloc("a", size * MIB, frames=[frame(name, "attention.py", 40)])
        .alloc("b", 2 * MIB, frames=[frame("project", "attention.py", 49)])
        .end("forward", 15)
        .free("b")
    )


def read_bytes(data: bytes) -> RawSnapshot:
    """Read a snapshot file with this content, which is always called ``snap.pickle``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snap.pickle"
        path.write_bytes(data)
        return read_snapshot(path)


def read_object(snapshot: object, protocol: int = 4) -> RawSnapshot:
    """Read a snapshot from a pickle of it."""
    return read_bytes(pickle.dumps(snapshot, protocol))


def history_of(snapshot: object) -> History:
    """Read and analyse a snapshot, by way of a pickle of it, but of no file: that took a third."""
    return build_history(read.read_bytes(pickle.dumps(snapshot, 4), "snap.pickle"))


def assert_same_history(actual: History, expected: History) -> None:
    """Compare every array and field, and the type of each."""
    assert differences(actual, expected) == []


def differences(actual: Any, expected: Any, where: str = "history") -> list[str]:
    """List the places at which two records differ; empty where they are equal."""
    if is_dataclass(expected) and is_dataclass(actual):
        found = []
        for name in (each.name for each in fields(expected) if each.compare):
            found += differences(getattr(actual, name), getattr(expected, name), f"{where}.{name}")
        return found
    if isinstance(expected, np.ndarray):
        same = (
            isinstance(actual, np.ndarray)
            and actual.dtype == expected.dtype
            and actual.shape == expected.shape
            and bool((actual == expected).all())
        )
        return [] if same else [f"{where}: {actual!r} is not {expected!r}"]
    if isinstance(expected, (tuple, list)) and _has_records(expected):
        if type(actual) is not type(expected) or len(actual) != len(expected):
            return [f"{where}: {len(actual)} is not {len(expected)} entries"]
        return [
            line
            for i, (one, other) in enumerate(zip(actual, expected, strict=True))
            for line in differences(one, other, f"{where}[{i}]")
        ]
    if isinstance(expected, dict) and _has_records([*expected.values()]):
        if list(actual) != list(expected):
            return [f"{where}: {list(actual)} are not the keys {list(expected)}"]
        return [
            line
            for key in expected
            for line in differences(actual[key], expected[key], f"{where}[{key}]")
        ]
    if type(actual) is type(expected) and actual == expected:
        return []
    return [f"{where}: {actual!r} is not {expected!r}"]


def _has_records(values: Sequence[Any]) -> bool:
    return any(is_dataclass(value) for value in values)
