"""Older and reduced layouts of a snapshot, made from a current one."""

from __future__ import annotations

from typing import Any

Snapshot = dict[str, Any]

Version = tuple[int, int]

_EVENT_KEYS = {
    "time_us": (2, 2),
    "compile_context": (2, 8),
    "user_metadata": (2, 10),
    "forward_frames": (2, 12),
    "pool_id": (2, 13),
    "internal_metadata": (2, 14),
}
_FRAME_KEYS = {
    "fx_node_op": (2, 10),
    "fx_node_name": (2, 10),
    "fx_node_target": (2, 10),
    "fx_original_trace": (2, 10),
}
_SEGMENT_KEYS = {"segment_pool_id": (2, 1), "is_expandable": (2, 1), "frames": (2, 1)}
_TOP_KEYS = {"allocator_settings": (2, 3), "external_annotations": (2, 5)}
VERSIONS: tuple[Version, ...] = (
    (2, 0), (2, 1), (2, 2), (2, 3), (2, 5), (2, 8), (2, 10), (2, 12), (2, 13), (2, 14),
)  # fmt: skip
"""Those that write something that the one before did not; see docs/pytorch-keys.md."""


def as_of(snapshot: Snapshot, version: Version) -> Snapshot:
    """Return it as a version of PyTorch would write it, without the keys that are newer.

    Of 2.0, blocks have a ``history`` and no address.
    """

    def row(row: dict[str, Any]) -> dict[str, Any]:
        if "frames" in row and version < (2, 10):
            row = row | {"frames": [_since(_FRAME_KEYS, f, version) for f in row["frames"]]}
        return _since(_EVENT_KEYS, row, version)

    segments = [
        _since(_SEGMENT_KEYS, row(segment), version) | {"blocks": list(map(row, segment["blocks"]))}
        for segment in snapshot["segments"]
    ]
    traces = [
        [row(event) for event in trace if is_recorded(event, version)]
        for trace in snapshot["device_traces"]
    ]
    if version < (2, 1):
        for segment in segments:
            segment["blocks"] = [_old_block(block) for block in segment["blocks"]]
    old = _since(_TOP_KEYS, snapshot, version)
    return {**old, "segments": segments, "device_traces": traces}


def is_recorded(event: dict[str, Any], version: Version) -> bool:
    """Say whether a version of PyTorch has an event; the pairs of 2.14 would be tensors before."""
    newer = event["action"] == "annotate" or "internal_metadata" in event
    return not newer or version >= (2, 14)


def torch21(snapshot: Snapshot) -> Snapshot:
    """Return it as PyTorch 2.1 would write it: no times, settings or annotations."""
    return as_of(snapshot, (2, 1))


def torch20(snapshot: Snapshot) -> Snapshot:
    """Return it as PyTorch 2.0 would write it: blocks have a ``history`` and no address."""
    return as_of(snapshot, (2, 0))


def pinned(snapshot: Snapshot) -> Snapshot:
    """Return it with the last device as pinned host memory, as recorded since PyTorch 2.14."""
    *gpus, host = snapshot["device_traces"]
    last = len(gpus)
    return {
        **snapshot,
        "device_traces": [*gpus, []],
        "segments": [each for each in snapshot["segments"] if each["device"] != last],
        "host_traces": [host],
        "host_segments": [each for each in snapshot["segments"] if each["device"] == last],
    }


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


def _since(keys: dict[str, Version], row: dict[str, Any], version: Version) -> dict[str, Any]:
    return _without(row, frozenset(key for key, first in keys.items() if first > version))


def _without(mapping: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _old_block(block: dict[str, Any]) -> dict[str, Any]:
    old = {key: block[key] for key in ("size", "requested_size", "state")}
    if block["state"] != "inactive":
        entry = {"addr": block["address"], "real_size": block["requested_size"]}
        if block["frames"]:
            entry["frames"] = block["frames"]
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
