"""The answers to the questions, by plain arithmetic over the snapshot, without snapreport.

Curves are worked out backwards from the final state: what was live at the end, less what each event
after a moment added. That needs no pairing of allocations with frees, and so is another way to the
same figures.
"""

from __future__ import annotations

import gzip
import json
import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from dev.evals.questions import Question

Event = dict[str, Any]

_LIVE = ("active_allocated", "active_awaiting_free", "active_pending_free")
_ADDS = {
    "requested": ({"alloc"}, {"free_completed", "free"}),
    "reserved": ({"segment_alloc", "segment_map"}, {"segment_free", "segment_unmap"}),
}


@cache
def read(path: Path) -> dict[str, Any]:
    """Return the snapshot in a file of ours or of the corpus, which is trusted here."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    snapshot = json.loads(data) if data[:1] in b"{[" else pickle.loads(data)
    assert isinstance(snapshot, dict)
    return snapshot


def events(path: Path, device: int) -> list[Event]:
    """Return the device's trace without snapreport's own kinds of entries."""
    traces = read(path)["device_traces"]
    return list(traces[device]) if device < len(traces) else []


def segments(path: Path, device: int) -> list[dict[str, Any]]:
    """Return the device's segments at the end."""
    return [each for each in read(path)["segments"] if each["device"] == device]


@cache
def curve(path: Path, device: int, name: str) -> tuple[int, ...]:
    """Return a curve's value at the start and after each event, in bytes."""
    if name == "reserved":
        level = sum(each["total_size"] for each in segments(path, device))
    else:
        level = sum(
            block.get("requested_size", block["size"])
            for each in segments(path, device)
            for block in each["blocks"]
            if block["state"] in _LIVE
        )
    grows, falls = _ADDS[name]
    values = [level]
    for event in reversed(events(path, device)):
        if event["action"] in grows:
            level -= event["size"]
        elif event["action"] in falls:
            level += event["size"]
        values.append(level)
    return tuple(reversed(values))


def peak(path: Path, device: int, curve_name: str) -> int:
    """Return the most of a curve."""
    return max(curve(path, device, curve_name))


def peak_event(path: Path, device: int, curve_name: str) -> int:
    """Return the first event after which the curve is at its peak; -1 for the start."""
    values = curve(path, device, curve_name)
    return values.index(max(values)) - 1


def held_at(path: Path, device: int, curve_name: str, event: int) -> int:
    """Return a curve's value after an event."""
    return curve(path, device, curve_name)[event + 1]


def held_at_start(path: Path, device: int, curve_name: str) -> int:
    """Return a curve's value before the first event."""
    return curve(path, device, curve_name)[0]


def held_at_end(path: Path, device: int, curve_name: str) -> int:
    """Return a curve's value after the last event."""
    return curve(path, device, curve_name)[-1]


def count_events(path: Path, device: int) -> int:
    """Return how many events the device's trace has."""
    return len(events(path, device))


def count_actions(path: Path, device: int, action: str) -> int:
    """Return how many events have an action."""
    return Counter(each["action"] for each in events(path, device))[action]


def largest_request(path: Path, device: int) -> int:
    """Return the bytes of the largest request that was served in the trace."""
    return max(int(e["size"]) for e in events(path, device) if e["action"] == "alloc")


def requested_in_all(path: Path, device: int) -> int:
    """Return the bytes of all requests that were served in the trace."""
    return sum(each["size"] for each in events(path, device) if each["action"] == "alloc")


def has_failed(path: Path, device: int) -> str:
    """Say whether a request failed."""
    return "yes" if count_actions(path, device, "oom") else "no"


def failed_size(path: Path, device: int) -> int:
    """Return the bytes of the last request that failed."""
    return next(int(e["size"]) for e in reversed(events(path, device)) if e["action"] == "oom")


def failed_event(path: Path, device: int) -> int:
    """Return the event of the last request that failed."""
    trace = events(path, device)
    return next(i for i in reversed(range(len(trace))) if trace[i]["action"] == "oom")


def device_free(path: Path, device: int) -> int:
    """Return the bytes that the driver had free when the last request failed."""
    found = next(e for e in reversed(events(path, device)) if e["action"] == "oom")
    return int(found["device_free"] if "device_free" in found else found["addr"])


def count_segments(path: Path, device: int) -> int:
    """Return how many segments there are at the end."""
    return len(segments(path, device))


def largest_block(path: Path, device: int) -> int:
    """Return the bytes of the largest block in use at the end."""
    return max(
        int(block["size"])
        for each in segments(path, device)
        for block in each["blocks"]
        if block["state"] in _LIVE
    )


def setting(path: Path, name: str) -> str:
    """Return a setting of the allocator as the file has it."""
    return str(read(path)["allocator_settings"][name])


def made_at(path: Path, device: int, place: str) -> int:
    """Return how many bytes a line, ``file:line``, requested in the trace; as ``top_line()``."""
    trace = events(path, device)
    return sum(e["size"] for e in trace if e["action"] == "alloc" and _is_at(e, place))


def peak_without(path: Path, device: int, curve_name: str, place: str) -> int:
    """Return the requested curve's peak had what ``made_at()`` counts never been made."""
    assert curve_name == "requested"
    left_out: set[int] = set()
    level = most = held_at_start(path, device, curve_name)
    for event in events(path, device):
        if event["action"] == "alloc":
            if _is_at(event, place):
                left_out.add(event["addr"])
            else:
                level += event["size"]
        elif event["action"] == "free_completed":
            if event["addr"] in left_out:
                left_out.remove(event["addr"])
            else:
                level -= event["size"]
        most = max(most, level)
    return most


def top_line(path: Path, device: int, curve_name: str) -> str:
    """Return ``file:line`` of what held most at the peak, of allocations made while recording.

    The line is that of the innermost Python frame outside of torch, its file without folders.
    """
    held = held_by_line(path, device, curve_name)
    held.pop("", None)  # memory of no Python line
    (first, _), *_ = held.most_common(1)
    return first


def held_by_line(path: Path, device: int, curve_name: str) -> Counter[str]:
    """Return what each line holds at the peak, likewise; "" has what no Python line made."""
    assert curve_name == "requested"
    live: dict[int, Event] = {}
    for event in events(path, device)[: peak_event(path, device, curve_name) + 1]:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)
    held = Counter[str]()
    for event in live.values():
        held[line_of(event)] += event["size"]
    return held


def peak_change(path: Path, device: int, curve_name: str, base: Path) -> int:
    """Return by how many bytes a curve's peak is above that of another recording's same device."""
    return peak(path, device, curve_name) - peak(base, device, curve_name)


def line_of(event: Mapping[str, Any], frames: str = "frames") -> str:
    """Return the ``file:line`` of the innermost Python frame outside of torch; "" without one."""
    for frame in event.get(frames, ()):
        name = frame["filename"].replace("\\", "/")
        if name.endswith(".py") and "torch" not in name.split("/")[:-1]:
            return f"{name.rsplit('/', 1)[-1]}:{frame['line']}"
    return ""


def _is_at(event: Event, place: str) -> bool:
    return line_of(event) == place


KINDS: dict[str, Callable[..., object]] = {
    "peak": peak,
    "peak-event": peak_event,
    "held-at": held_at,
    "held-at-start": held_at_start,
    "held-at-end": held_at_end,
    "count-events": count_events,
    "count-actions": count_actions,
    "largest-request": largest_request,
    "requested-in-all": requested_in_all,
    "has-failed": has_failed,
    "failed-size": failed_size,
    "failed-event": failed_event,
    "device-free": device_free,
    "count-segments": count_segments,
    "largest-block": largest_block,
    "setting": setting,
    "made-at": made_at,
    "peak-without": peak_without,
    "top-line": top_line,
    "peak-change": peak_change,
}
"""What answers each kind of question; the others have answers that were checked by hand."""


def answer(question: Question, path: Path, base: Path | None) -> str | None:
    """Return a question's answer; None for the kinds that were checked by hand."""
    if question.kind not in KINDS:
        return None
    about: dict[str, Any] = {
        "curve_name" if name == "curve" else name: base if name == "base" else value
        for name, value in question.about.items()
    }
    if question.kind == "setting":
        found: object = setting(path, **about)
        return {"True": "true", "False": "false"}.get(str(found), str(found))
    device = int(question.device.split(":")[1])
    return str(KINDS[question.kind](path, device, **about))
