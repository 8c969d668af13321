"""The steps in the payload: as columns, because there may be thousands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapreport.model.iterations import Steps
from snapreport.reporters.words.step_rows import identified_text

KINDS = ("unknown", "warm-up", "steady", "other")


def pack_steps(steps: Steps, add: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Return the steps, without the figures that the page can read off the curve.

    Args:
        steps: of one device.
        add: appends a column of integers and returns its directory entry.
    """
    rows = steps.steps
    return {
        "told": identified_text(steps),
        "peak": steps.peak,
        "kinds": KINDS,
        "names": [step.name for step in rows] if any(step.name for step in rows) else [],
        "columns": {
            "bounds": add([*(step.start_event for step in rows), rows[-1].end_event], delta=True),
            "kind": add([KINDS.index(step.kind) for step in rows]),
            "kept": add([step.kept_bytes for step in rows]),
            "allocations": add([step.allocations for step in rows]),
            "allocated": add([step.allocated_bytes for step in rows]),
        },
    }
