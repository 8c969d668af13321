"""A run's figures and findings as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from snapreport.model.run.rank_facts import RankFacts, Run
from snapreport.model.run.run_findings import Difference, RunFindings
from snapreport.reporters.json.json_parts import fields_of
from snapreport.reporters.run.run_rows import FileRow, RunRow, rows_of, rows_of_file

_PEAK = "events capacity allocated allocated_width peak_event peak_time_us reserved"
"""What a row says of the device of a rank or of a file."""


def run_as_json(run: Run, findings: RunFindings) -> dict[str, Any]:
    """Return every figure and finding of a run; bytes are integers."""
    rows = rows_of(run, findings)
    return run_summary(run, findings, rows) | {"rows": [_row(row) for row in rows]}


def run_summary(run: Run, findings: RunFindings, rows: Sequence[RunRow]) -> dict[str, Any]:
    """Return the same without the rows."""
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
                **fields_of(odd, "code group bytes sentence parts_event parts_step"),
                "differences": _differences(odd.differences),
            }
            for odd in findings.odd
        ],
        "groups": [
            {
                **fields_of(group, "name rows allocated sentence"),
                "differences": _differences(group.differences),
            }
            for group in findings.groups
        ],
        "imbalances": [asdict(each) for each in findings.imbalances],
        "replicated": [asdict(each) for each in findings.replicated],
        "first_failure": findings.first_failure,
        "notes": list(findings.notes),
    }


def files_as_json(files: Sequence[RankFacts]) -> list[dict[str, Any]]:
    """Return an object for each of several files, which need not be of one run, in their order."""
    return [
        {
            "file": file.source,
            "error": file.error or None,
            "devices": [_file_row(row) for row in rows_of_file(file)],
        }
        for file in files
    ]


def _file_row(row: FileRow) -> dict[str, Any]:
    device, largest = row.device, row.largest
    return {
        "device": device.device,
        "recorded": device.recorded,
        **fields_of(device, _PEAK),
        "largest": None if largest is None else {"site": largest.key, "bytes": largest.bytes},
        "failed": [asdict(each) for each in device.failed],
        "findings": [fields_of(each, "code severity title") for each in device.findings],
    }


def _differences(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [fields_of(each, "kind key bytes usual") for each in found]


def _row(row: RunRow) -> dict[str, Any]:
    rank, device = row.rank, row.device
    return {
        "name": row.name,
        "file": rank.source,
        **fields_of(rank.name, "rank dump host"),
        "coordinates": dict(rank.name.coordinates),
        "device": device.device,
        "group": row.group,
        **fields_of(device, _PEAK),
        "failed": [asdict(each) for each in device.failed],
        "growth": row.growth,
    }
