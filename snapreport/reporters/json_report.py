"""Every figure as JSON, in bytes, events and microseconds: summaries, comparisons and verdicts.

``docs/schemas`` has a JSON Schema for each format; ``python -m docs.make_schemas`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np
import orjson

from snapreport.diagnosis.compare.diff_types import Accuracy, Change, Diff, DiffSide
from snapreport.diagnosis.compare.gate import Check, Raised, Verdict
from snapreport.ground.safe_text import plain_json
from snapreport.ground.version import __version__
from snapreport.model.answers import Group
from snapreport.model.diagnoses import Finding, Trust
from snapreport.model.findings import CallSite, DeviceFindings, Findings
from snapreport.model.forecasts import forecast_as_json, headline, peak_range, range_text
from snapreport.model.roles import Steps
from snapreport.model.snapshot import NO_ID, Forecast, RecordedDevice, StackTable
from snapreport.reporters.comparison import conclusion

VERSIONS = {
    "summary": 1,
    "files": 1,
    "run": 1,
    "run-diff": 1,
    "live": 1,
    "stages": 1,
    "profile": 1,
    "whatif": 1,
    "plan": 1,
    "diff": 1,
    "check": 1,
    "query": 1,
    "strings": 1,
}
"""The version of each format; it rises when a field is removed or changes its meaning."""


def with_format(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its format, one of ``VERSIONS``, as the first field."""
    return {"format": {"name": f"snapreport.{name}", "version": VERSIONS[name]}, **answer}


def fields_of(record: object, names: str) -> dict[str, Any]:
    """Return the attributes of a record that ``names`` lists, separated by spaces, in order."""
    return {name: getattr(record, name) for name in names.split()}


def frames_of(stacks: StackTable, stack: int) -> list[dict[str, Any]]:
    """Return a call stack's frames, innermost first; an unknown line is None."""
    frames = stacks.frames
    return [
        {
            "name": frames.names[f],
            "file": frames.filenames[f],
            "line": frames.line(f),
            "source": frames.code(f),
        }
        for f in stacks.path(stack)
    ]


def stack_table(stacks: StackTable, used: Iterable[int]) -> list[dict[str, Any]]:
    """Return each used stack once, ordered by id."""
    return [
        {"id": stack, "frames": frames_of(stacks, stack)} for stack in sorted(set(used) - {NO_ID})
    ]


def group_as_json(group: Group, stacks: StackTable, by: str) -> dict[str, Any]:
    """Return a group; if groups are by stack, with all frames of its stack."""
    plain = asdict(group)
    stack = plain.pop("stack")
    if by == "stack":
        plain |= {"stack": id_or_none(stack), "frames": frames_of(stacks, stack)}
    return plain


def steps_as_json(steps: Steps) -> dict[str, Any]:
    """Return the steps of a device."""
    # vars() rather than asdict(): there may be many, and they hold no records.
    rows = [{**vars(step), "change": step.change} for step in steps.steps]
    return {**vars(steps), "steps": rows}


def id_or_none(number: int | np.integer[Any]) -> int | None:
    """Return a row number, or None where there is none."""
    return None if number == NO_ID else int(number)


# One recording.


def _finding(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain objects, values in their units."""
    names = "id code topic severity title explanation bytes"
    view = finding.view
    return {
        **fields_of(finding, names),
        "evidence": [fields_of(each, "label value unit most meaning") for each in finding.evidence],
        "tables": [asdict(each) for each in finding.tables],
        "suggestions": [asdict(each) for each in finding.suggestions],
        "view": None if view is None else fields_of(view, "tab event curve search between"),
    }


def _trust(trust: Trust) -> dict[str, Any]:
    """Return how far a recording can be trusted as plain objects, sizes in bytes."""
    facts = asdict(trust.facts)
    for name in ("at_peak", "at_end"):
        parts = getattr(trust.facts, name)
        if parts is not None:
            facts[name]["difference"] = parts.difference
    replay = trust.facts.replay
    if replay is not None:
        facts["replay"]["exact"] = replay.exact
    closing = trust.facts.closing
    if closing is not None:
        facts["closing"]["closes"] = closing.closes
    return {
        "verdict": trust.verdict,
        "sentence": trust.sentence,
        **facts,
        "checks": [asdict(check) for check in trust.checks],
        "fixes": [{"text": each.text, "change": each.change} for each in trust.fixes],
    }


def write_summary_json(findings: Findings, out: BinaryIO) -> None:
    """Write the JSON and a line end."""
    answer = with_format("summary", findings_as_json(findings))
    answer["findings"] = [_finding(each) for each in findings.warnings]
    for device, plain in zip(findings.devices, answer["devices"], strict=True):
        plain["trust"] = _trust(device.trust)
    out.write(plain_json(orjson.dumps(answer, option=orjson.OPT_INDENT_2)))
    out.write(b"\n")


def findings_as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain objects, for JSON and for the page."""
    history, noted = findings.history, findings.history.recorder
    devices = [
        _device(device, history.noted(device.device))
        | {"expected": expected_as_json(history.forecast, device)}
        for device in findings.devices
    ]
    if findings.picture is not None:
        for device, drawn in zip(devices, findings.picture.devices, strict=True):
            device["cut"] = drawn.as_plain() | {
                "min_size": findings.picture.cut.min_size,
                "fit": findings.picture.fit,
            }
    return {
        "snapreport": __version__,
        "title": findings.title,
        "source": asdict(history.source),
        "layout": history.layout,
        "forecast": forecast_as_json(history.forecast),
        "settings": findings.settings,
        # Storages are only counted: they are in the categories.
        "recording": noted and noted.as_plain() | {"storages": len(noted.storages)},
        "warnings": _warnings(findings.warnings),
        "default": findings.default,
        "devices": devices,
    }


def _warnings(found: Sequence[Finding]) -> list[dict[str, str]]:
    return [{"code": each.code, "text": each.paragraph} for each in found]


def expected_as_json(forecast: Forecast | None, device: DeviceFindings) -> dict[str, Any] | None:
    """Return how high a forecast's peak is expected to be, and why; None for a recording."""
    if forecast is None:
        return None
    found = peak_range(forecast, str(device.device), device.peaks["allocated"].bytes)
    return {
        **fields_of(found, "least expected most"),
        "parts": [fields_of(each, "name lower higher") for each in found.parts],
        "text": range_text(found, fails=bool(device.ooms)),
    }


def _device(device: DeviceFindings, noted: RecordedDevice | None) -> dict[str, Any]:
    history, closing, use = device.history, device.closing, device.allocator
    fragmented = int(use.fragmentation[use.most + 1])
    return {
        "device": str(device.device),
        "kind": device.device.kind,
        "ordinal": device.device.ordinal,
        "capacity": None if noted is None else noted.capacity,
        "events": history.events,
        "allocations": len(history.allocations),
        **fields_of(device, "recorded first_time_us last_time_us reserved_from"),
        "start": asdict(device.start),
        "peak": asdict(device.peak),
        "end": asdict(device.end),
        "most_fragmented": None if fragmented < 0 else {"bytes": fragmented, "event": use.most},
        "card": None if device.card is None else asdict(device.card),
        "peaks": {name: asdict(peak) for name, peak in device.peaks.items()},
        "statistics": {name: asdict(value) for name, value in device.statistics.items()},
        "sizes": asdict(device.sizes),
        "own_counters": None if device.own_counters is None else asdict(device.own_counters),
        "answer": device.answer,
        "warnings": _warnings(device.warnings),
        "diagnosis": {
            "findings": [_finding(each) for each in device.diagnosis.findings],
            "silenced": list(device.diagnosis.silenced),
        },
        "sites": [
            {
                "name": site.name,
                "file": site.filename,
                **fields_of(site, "line bytes requested count source"),
            }
            for site in device.sites
        ],
        "roles": [asdict(role) for role in device.held_by_role],
        "stages": [dict(vars(stage)) for stage in device.stages],  # many, and flat
        "steps": None if device.steps is None else steps_as_json(device.steps),
        "ooms": [
            {key: value for key, value in asdict(oom).items() if key != "stack"}
            for oom in device.ooms
        ],
        "closing": None if closing is None else {**asdict(closing), "closes": closing.closes},
        "inferred_blocks": device.inferred_blocks,
        "anomalies": history.anomalies,
    }


# Two recordings, and a verdict.


def diff_as_json(diff: Diff) -> dict[str, Any]:
    """Return every figure of a comparison, in bytes, events and microseconds.

    Each row of ``changes``, ``sites``, ``parts`` and ``categories`` has the same scalar fields, so
    that a table can take them, and their ``change`` adds up to that of the comparison.
    """
    return {
        "snapreport": __version__,
        **fields_of(diff, "conclusion curve moment"),
        "base": _side(diff.base),
        "new": _side(diff.new),
        "change": diff.change,
        "notes": list(diff.notes),
        "figures": [{**asdict(figure), "change": figure.change} for figure in diff.figures],
        "by": diff.by,
        "changes": list(map(_change, diff.groups)),
        "sites": list(map(_change, diff.sites)),
        "parts": list(map(_change, diff.parts)),
        "categories": list(map(_change, diff.categories)),
        "stages": [{**asdict(stage), "change": stage.change} for stage in diff.stages],
        "settings": [{"name": name, "base": base, "new": new} for name, base, new in diff.settings],
        "accuracy": None if diff.accuracy is None else _accuracy(diff.accuracy),
        "roles": list(map(_change, diff.roles)),
    }


def _accuracy(found: Accuracy) -> dict[str, Any]:
    return fields_of(found, "side recorded expected least most error in_range text")


def _side(side: DiffSide) -> dict[str, Any]:
    figures = side.figures
    return {
        "file": side.source.name,
        "sha256": side.source.sha256,
        "device": side.device,
        "forecast": None if side.forecast is None else headline(side.forecast),
        "recorded": figures.recorded,
        "events": figures.history.events,
        **fields_of(side, "event time_us bytes count"),
        "amounts": asdict(side.amounts),
        "peaks": {name: asdict(peak) for name, peak in figures.peaks.items()},
    }


def _change(change: Change) -> dict[str, Any]:
    base, new = change.base_place, change.new_place
    return {
        **fields_of(change, "name kind match"),
        "base_file": None if base is None else base.filename,
        "base_line": None if base is None else base.line,
        "new_file": None if new is None else new.filename,
        "new_line": None if new is None else new.line,
        **fields_of(change, "base_bytes new_bytes change base_count new_count"),
    }


def verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain objects, sizes in bytes."""
    return {
        "file": verdict.source.name,
        "sha256": verdict.source.sha256,
        "forecast": verdict.forecast or None,
        "passed": verdict.passed,
        "conclusion": conclusion(verdict),
        **fields_of(verdict, "failures devices budget fail_on"),
        "checks": [_check(each) for each in verdict.checks],
        "findings": [_raised(each) for each in verdict.findings],
        "ignored": [_raised(each) for each in verdict.ignored],
        "comparisons": [_comparison(each) for each in verdict.comparisons],
    }


def _check(check: Check) -> dict[str, Any]:
    names = "name subject device outcome value limit base over event text"
    return {**fields_of(check, names), "sites": [_site(each) for each in check.sites]}


def _site(site: CallSite) -> dict[str, Any]:
    return {"name": site.name, "file": site.filename, **fields_of(site, "line bytes count")}


def _raised(raised: Raised) -> dict[str, Any]:
    finding = raised.finding
    return {
        **fields_of(finding, "id code topic severity"),
        "device": raised.device,
        **fields_of(finding, "title explanation"),
        "suggestions": [asdict(each) for each in finding.suggestions],
        "fails": raised.fails,
    }


def _comparison(diff: Diff) -> dict[str, Any]:
    return {
        "base": diff.base.source.name,
        "base_sha256": diff.base.source.sha256,
        "base_device": diff.base.device,
        "device": diff.new.device,
        "base_bytes": diff.base.bytes,
        "bytes": diff.new.bytes,
        **fields_of(diff, "change conclusion"),
        "sites": [_gate_change(change) for change in diff.sites if change.change],
    }


def _gate_change(change: Change) -> dict[str, Any]:
    place = change.new_place or change.base_place
    return {
        "name": change.name,
        "file": None if place is None else place.filename,
        "line": None if place is None else place.line,
        "match": change.match,
        "base_bytes": change.base_bytes,
        "bytes": change.new_bytes,
        "change": change.change,
    }
