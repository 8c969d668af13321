"""Older and reduced layouts of a snapshot, made from a current one."""

from __future__ import annotations

from typing import Any

Snapshot = dict[str, Any]

_NEW_EVENT_KEYS = frozenset(("time_us", "compile_context", "user_metadata", "pool_id"))
_NEW_SEGMENT_KEYS = frozenset(("segment_pool_id", "is_expandable", "frames"))


def torch21(snapshot: Snapshot) -> Snapshot:
    """Return it as PyTorch 2.1 would write it: no times, settings or annotations."""
    return {
        "segments": snapshot["segments"],
        "device_traces": [
            [_without(event, _NEW_EVENT_KEYS) for event in trace]
            for trace in snapshot["device_traces"]
        ],
    }


def torch20(snapshot: Snapshot) -> Snapshot:
    """Return it as PyTorch 2.0 would write it: blocks have a ``history`` and no address."""
    traces = [
        [
            {**event, "frames": [_old_frame(frame) for frame in event["frames"]]}
            if "frames" in event
            else event
            for event in trace
        ]
        for trace in torch21(snapshot)["device_traces"]
    ]
    segments = [
        {
            **_without(segment, _NEW_SEGMENT_KEYS),
            "blocks": [_old_block(block) for block in segment["blocks"]],
        }
        for segment in snapshot["segments"]
    ]
    return {"segments": segments, "device_traces": traces}


def segment_list(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return only the segments, as ``torch.cuda.memory_snapshot()`` does."""
    return list(snapshot["segments"])


def only_free_completed(snapshot: Snapshot) -> Snapshot:
    """Drop every ``free_requested``, as ``skip_actions`` can; later events move forward."""
    return without_actions(snapshot, "free_requested")


def without_actions(snapshot: Snapshot, *actions: str) -> Snapshot:
    """Drop events, as ``skip_actions`` does, without any marker; later events move forward."""
    return {
        **snapshot,
        "device_traces": [
            [event for event in trace if event["action"] not in actions]
            for trace in snapshot["device_traces"]
        ],
    }


def without_times(snapshot: Snapshot) -> Snapshot:
    """Drop ``time_us`` from the events."""
    return {
        **snapshot,
        "device_traces": [
            [_without(event, frozenset(("time_us",))) for event in trace]
            for trace in snapshot["device_traces"]
        ],
    }


def profiler_layout(snapshot: Snapshot) -> Snapshot:
    """Return it in the shape of ``_profile_to_snapshot``: a CPU device after the GPUs.

    Only ``alloc`` and free events stay, without times, on stream 0; each device has one segment
    from its lowest address to the highest that the trace or the final blocks show. The CPU's
    trace is empty. The baseline that was freed in the window has no ``alloc``, as there.
    """
    traces = [[_profiler_event(e) for e in t if _is_tensor(e)] for t in snapshot["device_traces"]]
    segments = []
    for device, trace in enumerate(traces):
        blocks = [
            block
            for segment in snapshot["segments"]
            if segment["device"] == device
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        extents = [(event["addr"], event["size"]) for event in trace]
        extents += [(block["address"], block["requested_size"]) for block in blocks]
        if extents and blocks:
            start = min(addr for addr, _ in extents)
            end = max(addr + size for addr, size in extents)
            segments.append(_profiler_segment(device, start, end, blocks))
    return {"device_traces": [*traces, []], "segments": segments}


def as_json(value: object) -> Any:
    """Return it as it comes back from JSON: tuples are lists."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value


def _without(mapping: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _old_frame(frame: dict[str, Any]) -> dict[str, Any]:
    return {key: frame[key] for key in ("filename", "name", "line")}


def _old_block(block: dict[str, Any]) -> dict[str, Any]:
    old = {key: block[key] for key in ("size", "requested_size", "state")}
    if block["state"] != "inactive":
        entry = {"addr": block["address"], "real_size": block["requested_size"]}
        if block["frames"]:
            entry["frames"] = [_old_frame(frame) for frame in block["frames"]]
        old["history"] = [entry]
    return old


def _is_tensor(event: dict[str, Any]) -> bool:
    return event["action"] in ("alloc", "free_requested", "free_completed")


def _profiler_event(event: dict[str, Any]) -> dict[str, Any]:
    old = {key: event[key] for key in ("action", "addr", "size")}
    old["stream"] = 0
    old["frames"] = _profiler_frames(event.get("frames", []))
    if event["action"] == "alloc":
        old["category"] = "unknown"
    return old


def _profiler_frames(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "filename": "none",
            "line": 0,
            "name": f"{frame['filename']}({frame['line']}): {frame['name']}",
        }
        for frame in frames
    ]


def _profiler_segment(
    device: int, start: int, end: int, blocks: list[dict[str, Any]]
) -> dict[str, Any]:
    tiles = []
    reached = start
    for block in blocks:
        if reached < block["address"]:
            tiles.append({"size": block["address"] - reached, "state": "inactive"})
        tiles.append(
            {
                "size": block["requested_size"],
                "state": "active_allocated",
                "requested_size": block["requested_size"],
                "frames": _profiler_frames(block["frames"]),
            }
        )
        reached = block["address"] + block["requested_size"]
    if reached < end:
        tiles.append({"size": end - reached, "state": "inactive"})
    return {
        "device": device,
        "address": start,
        "total_size": end - start,
        "stream": 0,
        "blocks": tiles,
    }
