"""What a run's figures are, for the page's own code to agree with: worked out with plain loops.

``templates/app/run/data/golden_run.json`` holds a packed run and what this module says of it.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from dev.benchmarks.runs.facts import example_run
from snapreport.model.run import Cells, DeviceFacts
from snapreport.reporters.run import rows_of
from snapreport.reporters.run_payload import pack_run

PATH = Path(__file__).parents[2] / "templates" / "app" / "run" / "data" / "golden_run.json"
WIDER = (0, 1, 3, 6)
"""By how many powers of two cells are joined."""


def golden_run() -> dict[str, Any]:
    """A small run with an odd rank, one that failed, a missing and a broken one."""
    run, findings = example_run(12, events=10)
    devices = [run.ranks[at].devices[place] for at, place in findings.rows]
    pages = {run.ranks[2].source: "ranks/rank2.html"}
    return {
        "payload": base64.b64encode(pack_run(findings, rows_of(run, findings, pages))).decode(),
        "rows": [
            _row(device)
            | {"label": run.ranks[at].label, "link": pages.get(run.ranks[at].source, "")}
            for device, (at, _) in zip(devices, findings.rows, strict=True)
        ],
        "groups": [[group.name, list(group.rows)] for group in findings.groups],
        "odd": [[odd.row, odd.code, odd.sentence] for odd in findings.odd],
    }


def _row(device: DeviceFacts) -> dict[str, Any]:
    assert device.by_time is not None
    return {
        "allocated": device.allocated,
        "reserved": device.reserved,
        "capacity": device.capacity,
        "peak_event": device.peak_event,
        "peak_time_us": device.peak_time_us,
        "event": _joined(device.by_event),
        "time": _joined(device.by_time),
        "steps": [[step.number, step.allocated, step.left] for step in device.steps],
        "holders": [
            [each.kind, each.key, each.bytes, each.count, each.size, each.of_size]
            for each in device.holders
        ],
        "failed": [[each.event, each.time_us, each.size, each.site] for each in device.failed],
    }


def _joined(cells: Cells) -> list[list[int]]:
    """Level, first cell, and how much its curves come to in joined cells: allocated, reserved."""
    assert cells.reserved is not None
    found = []
    for wider in WIDER:
        sums: list[int] = []
        for curve in (cells.allocated.tolist(), cells.reserved.tolist()):
            most: dict[int, int] = {}
            for place, value in enumerate(curve, cells.first):
                most[place >> wider] = max(most.get(place >> wider, 0), value)
            sums += [len(most), sum(at % 7 * value for at, value in enumerate(most.values(), 1))]
        found.append([cells.shift + wider, cells.first >> wider, *sums])
    return found
