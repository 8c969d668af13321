"""A run's figures and findings as plain data for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from snapreport.model.run.rank_facts import Run
from snapreport.model.run.run_findings import Difference, RunFindings
from snapreport.reporters.run.run_rows import RunRow, rows_of


def run_as_json(run: Run, findings: RunFindings) -> dict[str, Any]:
    """Return what a run comes to: bytes are whole numbers, and nothing is left out."""
    rows = rows_of(run, findings)
    return {
        "title": run.title,
        "headline": findings.headline,
        "layout": dict(run.layout),
        "expected": run.expected,
        "missing": list(findings.missing),
        "broken": [
            {"file": run.ranks[at].source, "error": run.ranks[at].error} for at in findings.broken
        ],
        "odd": [
            {
                "row": odd.row,
                "name": rows[odd.row].name,
                "code": odd.code,
                "group": odd.group,
                "bytes": odd.bytes,
                "sentence": odd.sentence,
                "parts_event": odd.parts_event,
                "parts_step": odd.parts_step,
                "differences": [_difference(each) for each in odd.differences],
            }
            for odd in findings.odd
        ],
        "groups": [
            {
                "name": group.name,
                "rows": list(group.rows),
                "allocated": group.allocated,
                "sentence": group.sentence,
                "differences": [_difference(each) for each in group.differences],
            }
            for group in findings.groups
        ],
        "imbalances": [asdict(each) for each in findings.imbalances],
        "replicated": [asdict(each) for each in findings.replicated],
        "first_failure": findings.first_failure,
        "notes": list(findings.notes),
        "rows": [_row(row) for row in rows],
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "key": difference.key,
        "bytes": difference.bytes,
        "usual": difference.usual,
    }


def _row(row: RunRow) -> dict[str, Any]:
    rank, device = row.rank, row.device
    return {
        "name": row.name,
        "file": rank.source,
        "rank": rank.name.rank,
        "dump": rank.name.dump,
        "host": rank.name.host,
        "coordinates": dict(rank.name.coordinates),
        "device": device.device,
        "group": row.group,
        "events": device.events,
        "capacity": device.capacity,
        "allocated": device.allocated,
        "allocated_width": device.allocated_width,
        "peak_event": device.peak_event,
        "peak_time_us": device.peak_time_us,
        "reserved": device.reserved,
        "failed": [asdict(each) for each in device.failed],
        "growth": row.growth,
    }
