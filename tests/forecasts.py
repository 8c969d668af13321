"""A forecast made by hand: two steps of a program on a card, without PyTorch."""

from __future__ import annotations

from typing import Any

from tests.builders import MIB, frame, trace

NOTED: dict[str, Any] = {
    "card": "h100-80",
    "steps": 2,
    "repeats": True,
    "parts": [
        {"device": "cuda:0", "name": "where the driver puts segments", "lower": MIB,
         "higher": 2 * MIB},
        {"device": "cuda:0", "name": "kernels whose own memory is not known", "lower": 0,
         "higher": 3 * MIB},
        {"device": "cuda:1", "name": "cuDNN's workspace", "lower": 0, "higher": 5 * MIB},
    ],
    "assumed": [
        {"kind": "bool", "place": "train.py:9", "value": "False", "count": 3},
        {"kind": "nonzero", "place": "train.py:52", "value": "40 of 40", "count": 4},
    ],
    "unknown": [{"operator": "aten::sort", "count": 3}],
    "notes": [],
}  # fmt: skip


def forecast(*, failed: bool = False, capacity: int = 80 << 30, **changed: Any) -> dict[str, Any]:
    """Return the snapshot of a forecast with a peak of 30 MiB; ``changed`` in what it notes."""
    here = [frame("forward", "/home/annika/okapi/train.py", 12)]
    built = trace().event("segment_alloc", addr=0x7000_0000_0000, size=40 * MIB, frames=here)
    built.alloc(0x7000_0000_0000, 10 * MIB, frames=here)
    built.start("step", 25).alloc(0x7000_00A0_0000, 20 * MIB, frames=here)
    if failed:
        built.event("oom", addr=None, device_free=MIB, size=50 * MIB, frames=here)
    built.free(0x7000_00A0_0000, frames=here).end("step", 45)
    built.segment(0x7000_0000_0000, 40 * MIB, (10 * MIB, 10 * MIB, "live"))
    snapshot = built.snapshot()
    snapshot["snapreport"] = {
        "format": 1,
        "recorder": "forecast",
        "started_us": 1_800_000_000_000_000,
        "marks": [{"name": "epoch 1", "time_us": 1_800_000_002_640_000}],
        "devices": [{"device": "cuda:0", "name": "NVIDIA H100 80 GB", "capacity": capacity}],
        "forecast": {**NOTED, **changed},
    }
    return snapshot
