"""A whole recording -> what it would be if it had begun later."""

from __future__ import annotations

import pickle
from pathlib import Path


def cut(source: Path, event: int, target: Path) -> None:
    """Drop the events before one, and the stacks of what was made before and lives on.

    Args:
        source: a snapshot of one device, recorded from the beginning.
        event: the first event that is kept.
        target: the file that is written.
    """
    snapshot = pickle.loads(source.read_bytes())
    traces = snapshot["device_traces"]
    (place,) = (i for i, trace in enumerate(traces) if trace)
    made = {each["addr"]: i for i, each in enumerate(traces[place]) if each["action"] == "alloc"}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if made.get(block["address"], -1) < event:
                block["frames"] = []
    traces[place] = traces[place][event:]
    if traces[place]:
        snapshot["snapreport"]["started_us"] = traces[place][0]["time_us"]
    target.write_bytes(pickle.dumps(snapshot, 4))
