"""Brings every known layout of a snapshot's top level into one shape."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.files import TRACE
from snapreport.ground.safe_text import CleanTexts, shortened
from snapreport.ground.units import words
from snapreport.model.history import DEEPEST_SETTINGS
from snapreport.model.snapshot import LATEST_US, Annotation, DeviceId, RecorderInfo, recorder_info
from snapreport.read.fields import check_key, count_unknown_key, count_unknown_keys, integers
from snapreport.read.parsed import MOST_DEVICES, Allowance, ParsedTrace
from snapreport.read.traces import Tables

_KNOWN_KEYS = words(
    "segments device_traces allocator_settings external_annotations host_segments host_traces"
    " traces trace_alloc_max_entries trace_alloc_overflowed snapreport"
)
_MOST_SETTINGS = 10_000
_EXPECTED = "a snapshot is what torch.cuda.memory._dump_snapshot() writes"


@dataclass
class Layout:
    """A snapshot's parts by device, still as the raw objects of the file."""

    kind: str
    """``trace``, ``segments``, ``torch-2.0`` or ``profiler``, as in ``RawSnapshot.layout``."""
    traces: dict[DeviceId, Any]
    segments: dict[DeviceId, list[dict[str, Any]]]
    annotations: Any
    cpu: int | None
    """Which device number means the CPU; None where the file has no trace of it."""
    settings: dict[str, Any]
    recorder: RecorderInfo | None = None


def recognise(top: Any, tables: Tables) -> Layout:
    """Find a snapshot's parts, whatever PyTorch version wrote it.

    Args:
        top: the object that the file holds; emptied, so that its parts can be freed when read.
        tables: what the devices of the file will share; unknown keys are counted there.

    Raises:
        NotASnapshotError: it is something else, or has more rows.
    """
    kind = "trace"
    if isinstance(top, (list, tuple)):
        _require_segments(top)
        top, kind = {"segments": list(top)}, "segments"
    if not isinstance(top, dict):
        raise NotASnapshotError(
            f"is not a memory snapshot: it holds a {type(top).__name__}; {_EXPECTED}."
        )
    if "segments" not in top and "device_traces" not in top:
        if "traceEvents" in top:
            raise NotASnapshotError(TRACE)
        raise NotASnapshotError(
            f"is not a memory snapshot: it has neither 'segments' nor 'device_traces'; {_EXPECTED}."
        )
    for key in top:
        if key not in _KNOWN_KEYS:
            count_unknown_key(key, 1, "top-level", tables.oddities)
    if top.get("segments") is None:
        kind = "no-segments"
    segments = _list(top, "segments")
    _require_segments(segments)
    traces = _list(top, "device_traces") or ([top["traces"]] if top.get("traces") else [])
    _take_rows(tables.rows, segments, traces)
    if _is_profiler_derived(segments, traces, top.get("snapreport")):
        kind = "profiler"
    else:
        lists = [row.get("blocks") for row in segments]
        blocks = (block for own in lists if isinstance(own, list) for block in own)
        if any(isinstance(block, dict) and "history" in block for block in blocks):
            kind = "torch-2.0"
    # The profiler adds one trace after those of the GPUs: the CPU's.
    cpu = len(traces) - 1 if kind == "profiler" else None
    layout = Layout(
        kind,
        {_device_of(ordinal, cpu): trace for ordinal, trace in enumerate(traces)},
        {},
        top.get("external_annotations") or [],
        cpu,
        _settings(top, tables.texts),
        recorder_info(top.get("snapreport"), tables.texts),
    )
    for row in segments:
        layout.segments.setdefault(_device_of(_ordinal(row), cpu), []).append(row)
    _add_host(top, layout, tables)
    devices = len(layout.traces.keys() | layout.segments.keys())
    if devices > MOST_DEVICES:
        raise NotASnapshotError(f"is damaged: it has {devices:,} devices, over {MOST_DEVICES}.")
    top.clear()
    return layout


def _list(top: dict[str, Any], key: str) -> list[Any]:
    value = top.get(key)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise NotASnapshotError(
            f"is not a memory snapshot: {key!r} is a {type(value).__name__}, not a list."
        )
    return list(value)


def _require_segments(rows: Any) -> None:
    for row in rows:
        if not isinstance(row, dict) or "address" not in row or "total_size" not in row:
            raise NotASnapshotError(
                f"is not a memory snapshot: it has a list of {type(row).__name__} where segments"
                f" with an 'address' and a 'total_size' belong; {_EXPECTED}."
            )


def _take_rows(rows: Allowance, segments: list[Any], traces: list[Any]) -> None:
    events = (trace for trace in traces if isinstance(trace, (list, tuple, ParsedTrace)))
    rows.take(sum(map(len, events)), "events")
    blocks = (row.get("blocks") for row in segments if isinstance(row, dict))
    rows.take(len(segments) + sum(len(own) for own in blocks if isinstance(own, list)), "blocks")


def _is_profiler_derived(segments: list[Any], traces: list[Any], ours: Any) -> bool:
    """Say whether it was made from a profile, by PyTorch or us: no segment is an allocator's.

    Args:
        segments: of all devices.
        traces: of all devices.
        ours: what the ``snapreport`` key holds, None if there is no such key.
    """
    if isinstance(ours, dict) and ours.get("recorder") == "torch.profiler":
        return True
    if segments:
        return not any("segment_type" in row or "allocated_size" in row for row in segments)
    keys = next((found for found in map(_first_keys, traces) if found is not None), ())
    return "category" in keys and "time_us" not in keys


def _first_keys(trace: Any) -> Collection[Any] | None:
    """Return the keys of a trace's first event; None where it has no event."""
    if isinstance(trace, ParsedTrace):
        return trace.first_keys if len(trace) else None
    if not isinstance(trace, list) or not trace:
        return None
    return trace[0] if isinstance(trace[0], dict) else ()


def _ordinal(row: dict[str, Any]) -> int:
    ordinal = row.get("device", 0)
    if type(ordinal) is not int or not 0 <= ordinal < 2**31:
        raise NotASnapshotError(f"is damaged: a segment is on device {shortened(ordinal, 40)!r}.")
    return ordinal


def _device_of(ordinal: int, cpu: int | None) -> DeviceId:
    """Return the device that a number in a file means; ``cpu`` is the CPU's number or None."""
    return DeviceId("cpu", 0) if ordinal == cpu else DeviceId("cuda", ordinal)


def _settings(top: dict[str, Any], texts: CleanTexts) -> dict[str, Any]:
    settings = top.get("allocator_settings")
    if settings is None:
        settings = {}
    if not isinstance(settings, dict):
        raise NotASnapshotError("is damaged: 'allocator_settings' is not a dict.")
    # PyTorch builds put the overflow fields in different places; we read them only from here.
    for key in ("trace_alloc_max_entries", "trace_alloc_overflowed"):
        if key in top:
            settings.setdefault(key, top[key])
    found: dict[str, Any] = _plain(settings, texts, [_MOST_SETTINGS + 1], DEEPEST_SETTINGS)
    return found


def _plain(value: Any, texts: CleanTexts, budget: list[int], depth: int) -> Any:
    """Return a setting as a bundle can store it, so that both give the same report.

    Shared or circular objects would grow without end when written out. ``budget`` limits the
    number of values and ``depth`` their nesting, which JSON limits too.
    """
    budget[0] -= 1
    if budget[0] < 0:
        raise NotASnapshotError(f"is damaged: over {_MOST_SETTINGS:,} allocator settings.")
    if isinstance(value, (dict, list, tuple)) and not depth:
        raise NotASnapshotError(
            f"is damaged: its allocator settings are nested over {DEEPEST_SETTINGS} deep."
        )
    if isinstance(value, dict):
        for key in value:
            check_key(key, "allocator setting")
        return {
            texts.clean(key): _plain(item, texts, budget, depth - 1) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, texts, budget, depth - 1) for item in value]
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return texts.clean(value)


def _add_host(top: dict[str, Any], layout: Layout, tables: Tables) -> None:
    """Add pinned host memory, one list of events or one list per device."""
    traces = _list(top, "host_traces")
    if traces and all(isinstance(event, dict) for event in traces):
        traces = [traces]
    segments = _list(top, "host_segments")
    _take_rows(tables.rows, segments, traces)
    for ordinal, trace in enumerate(traces):
        if trace:
            layout.traces[DeviceId("host", ordinal)] = trace
    for row in segments:
        if isinstance(row, dict) and "address" in row and "total_size" in row:
            layout.segments.setdefault(DeviceId("host", 0), []).append(row)
        else:
            tables.oddities["host segment of unknown shape"] += 1


def read_annotations(rows: Any, cpu: int | None, tables: Tables) -> tuple[Annotation, ...]:
    """Turn the START and END markers of ``external_annotations`` into records, in recorded order.

    Args:
        rows: the dicts.
        cpu: which device number means the CPU; None for none.
        tables: what the parts of the file share; invalid stages and times are counted there.

    Raises:
        NotASnapshotError: they are not a list of dicts with a device and a time.
    """
    if not isinstance(rows, (list, tuple)):
        raise NotASnapshotError("is damaged: 'external_annotations' is not a list.")
    device = integers(rows, "device", "annotation", default=0)
    time_us = integers(rows, "time_us", "annotation")
    known = words("name stage device time_us")
    count_unknown_keys(rows, known, "annotation", tables.oddities, tables.fields)
    annotations = []
    for row, ordinal, time in zip(rows, device.tolist(), time_us.tolist(), strict=True):
        stage = row.get("stage")
        if not 0 <= time <= LATEST_US:
            tables.oddities["annotation time that is not a date"] += 1
        elif stage not in ("START", "END"):
            tables.oddities[f"annotation stage {shortened(stage)!r}"] += 1
        else:
            name = tables.texts.clean(row.get("name", ""))
            annotations.append(Annotation(_device_of(ordinal, cpu), name, stage == "START", time))
    return tuple(annotations)
