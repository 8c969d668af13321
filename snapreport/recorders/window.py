"""Cut a snapshot to what happened since a moment: a recording inside a longer one."""

from __future__ import annotations

from typing import Any


def cut_before(snapshot: dict[str, Any], start_us: int) -> int:
    """Drop the events and stages that were over by then, and return how many events.

    That loses no bytes: a trace without its beginning is one whose ring was smaller, and the
    final state tells what was live. Stacks stay known for all that is live at the end.

    Args:
        snapshot: changed in place.
        start_us: microseconds since 1970.
    """
    dropped = 0
    for key in ("device_traces", "host_traces"):
        traces = snapshot.get(key)
        if not isinstance(traces, list):
            continue
        for i, trace in enumerate(traces):
            if isinstance(trace, list):
                first = _first_since(trace, start_us)
                dropped += first
                traces[i] = trace[first:]
    markers = snapshot.get("external_annotations")
    if isinstance(markers, list):
        snapshot["external_annotations"] = _open_since(markers, start_us)
    return dropped


def _first_since(trace: list[dict[str, Any]], start_us: int) -> int:
    """The first event at or after a time; all are kept where events have no times."""
    for i, event in enumerate(trace):
        time = event.get("time_us")
        if time is None or time >= start_us:
            return i
    return len(trace)


def _open_since(markers: list[dict[str, Any]], start_us: int) -> list[dict[str, Any]]:
    """The markers of spans that end after a time: START and END go or stay together."""
    open_spans: dict[tuple[Any, Any], list[int]] = {}
    gone: set[int] = set()
    for i, marker in enumerate(markers):
        spans = open_spans.setdefault((marker.get("device"), marker.get("name")), [])
        if marker.get("stage") == "START":
            spans.append(i)
            continue
        start = spans.pop() if spans else None
        if marker.get("time_us", start_us) < start_us:
            gone.add(i)
            if start is not None:
                gone.add(start)
    return [marker for i, marker in enumerate(markers) if i not in gone]
