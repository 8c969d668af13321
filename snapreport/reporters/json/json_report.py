"""Every figure as JSON, in bytes, events and microseconds: ``snapreport summary --json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

import orjson

from snapreport.ground.safe_text import plain_json
from snapreport.ground.version import __version__
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.model.recorder_notes import RecordedDevice
from snapreport.reporters.json.finding_json import (
    diagnosis_as_json,
    finding_as_json,
    trust_as_json,
)
from snapreport.reporters.json.json_parts import fields_of, steps_as_json, with_format


class JsonReporter:
    """Writes the findings as one indented JSON object."""

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write the JSON and a line end."""
        answer = with_format("summary", findings_as_json(findings))
        answer["findings"] = [finding_as_json(each) for each in findings.warnings]
        for device, plain in zip(findings.devices, answer["devices"], strict=True):
            plain["trust"] = trust_as_json(device.trust)
        out.write(plain_json(orjson.dumps(answer, option=orjson.OPT_INDENT_2)))
        out.write(b"\n")


def findings_as_json(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain objects, for JSON and for the page."""
    history = findings.history
    devices = [_device(device, history.noted(device.device)) for device in findings.devices]
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
        "settings": findings.settings,
        "recording": _recording(findings),
        "warnings": _warnings(findings.warnings),
        "default": findings.default,
        "devices": devices,
    }


def _warnings(found: Sequence[Finding]) -> list[dict[str, str]]:
    return [{"code": each.code, "text": each.paragraph} for each in found]


def _recording(findings: Findings) -> dict[str, Any] | None:
    """Return the recorder's notes, storages only counted: they are in the categories."""
    noted = findings.history.recorder
    if noted is None:
        return None
    plain = noted.as_plain()
    plain["storages"] = len(noted.storages)
    return plain


def _most_fragmented(device: DeviceFindings) -> dict[str, int] | None:
    use = device.allocator
    most = int(use.fragmentation[use.most + 1])
    return None if most < 0 else {"bytes": most, "event": use.most}


def _device(device: DeviceFindings, noted: RecordedDevice | None) -> dict[str, Any]:
    history, closing = device.history, device.closing
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
        "most_fragmented": _most_fragmented(device),
        "card": None if device.card is None else asdict(device.card),
        "peaks": {name: asdict(peak) for name, peak in device.peaks.items()},
        "statistics": {name: asdict(value) for name, value in device.statistics.items()},
        "sizes": asdict(device.sizes),
        "own_counters": None if device.own_counters is None else asdict(device.own_counters),
        "answer": device.answer,
        "warnings": _warnings(device.warnings),
        "diagnosis": diagnosis_as_json(device.diagnosis),
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
