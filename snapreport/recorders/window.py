"""Cuts a snapshot to a recording that began inside a longer one."""

from __future__ import annotations

from typing import Any


def cut_before(snapshot: dict[str, Any], start_us: int) -> None:
    """Drop the events and stages that ended before a time.

    No bytes are lost: the trace is like that of a smaller ring, and the final state shows what was
    live. All that is live at the end keeps its stacks.

    Args:
        snapshot: changed in place.
        start_us: microseconds since 1970.
    """
    for key in ("device_traces", "host_traces"):
        for trace in snapshot.get(key, ()):
            if isinstance(trace, list):  # the form of host_traces is not documented
                kept = (i for i, event in enumerate(trace) if _is_since(event, start_us))
                del trace[: next(kept, len(trace))]
    markers = snapshot.get("external_annotations")
    if markers is not None:  # PyTorch before 2.5 has none
        snapshot["external_annotations"] = _open_since(markers, start_us)


def _is_since(event: dict[str, Any], start_us: int) -> bool:
    """Say whether an event is at or after a time, or has none."""
    time: int | None = event.get("time_us")
    return time is None or time >= start_us


def _open_since(markers: list[dict[str, Any]], start_us: int) -> list[dict[str, Any]]:
    """Return the markers of spans that end after a time, each START with its END."""
    open_spans: dict[tuple[Any, Any], list[int]] = {}
    gone: set[int] = set()
    for i, marker in enumerate(markers):
        spans = open_spans.setdefault((marker.get("device"), marker.get("name")), [])
        if marker.get("stage") == "START":
            spans.append(i)
            continue
        start = spans.pop() if spans else None
        if not _is_since(marker, start_us):
            gone.add(i)
            if start is not None:
                gone.add(start)
    return [marker for i, marker in enumerate(markers) if i not in gone]
