"""``open`` and ``summary``: what a recording is, what went wrong, and what held the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snapreport.ground.errors import SnapreportError
from snapreport.ground.units import format_bytes
from snapreport.mcp.answering.finding_answers import brief, found_in, suggestion_json
from snapreport.mcp.answering.reply import (
    Field,
    Part,
    Reply,
    held_table,
    listed,
    size,
    table,
    table_of,
)
from snapreport.mcp.opened.kept_recording import KeptRecording
from snapreport.model.diagnoses import Finding, by_severity
from snapreport.model.findings import AMOUNTS, DeviceFindings, Findings
from snapreport.reporters.words.plain_text import named_place
from snapreport.reporters.words.recording_words import recording_rows

_HOLDERS = 10
_SUGGESTIONS, _FAILED = 3, 3


def open_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return what went wrong, what held the memory, and what to ask next."""
    found, device = _chosen_device(recording, arguments)
    every = found_in(found)
    first = _first([finding for name, finding in every if name in ("", str(device.device))])
    state = "peak" if device.recorded else "final_state"  # then no peak is known
    head: dict[str, Any] = {
        "answer": device.answer,
        "trust": {"verdict": device.trust.verdict, "text": device.trust.sentence},
        state: size(
            device.peak.allocated,
            event=device.peak.event if device.recorded else None,
            allocations=device.peak.live,
            may_be_more=size(device.peak.allocated_width or None),
        ),
        "reserved": _peak(device, "reserved"),
        "failed_requests": [_failed(oom) for oom in device.ooms[:_FAILED]],
        "more_failed_requests": max(0, len(device.ooms) - _FAILED) or None,
        "first_finding": None if first is None else _in_brief(first),
        "next": _next(device, first),
    }
    parts = (
        _devices(found.devices if len(found.devices) > 1 else ()),
        listed("findings", [brief(name, finding) for name, finding in every]),
        _sites(device, _HOLDERS),
        _roles(device),
    )
    return Reply(_about(recording, device), head, parts)


def _first(findings: Sequence[Finding]) -> Finding | None:
    """Return the most important finding: the first critical one, else what held the peak."""
    critical = [each for each in findings if each.severity == "critical"]
    peak = [each for each in findings if each.code == "peak"]
    return next(iter((*critical, *peak, *findings)), None)


def _in_brief(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity,
        "title": finding.title,
        "explanation": finding.explanation,
        "suggestions": [suggestion_json(each) for each in finding.suggestions[:_SUGGESTIONS]],
        "more_suggestions": max(0, len(finding.suggestions) - _SUGGESTIONS) or None,
    }


def summary_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return one part of a summary as tables, or all parts."""
    found, device = _chosen_device(recording, arguments)
    wanted = arguments.get("part")
    names = [wanted] if wanted else _PARTS
    parts = [part for name in names for part in _PARTS[name](found, device)]
    head = {"answer": device.answer if wanted in (None, "peaks") else None}
    if wanted and not any(part.count for part in parts):
        head["answer"] = f"There is nothing about {wanted} in this recording."
    if wanted == "trust":
        head["answer"] = device.trust.sentence
    return Reply(_about(recording, device), head, tuple(parts))


def _about(recording: KeptRecording, device: DeviceFindings) -> dict[str, Any]:
    return {"file": recording.file.shown, "device": str(device.device)}


def _chosen_device(
    recording: KeptRecording, arguments: Mapping[str, Any]
) -> tuple[Findings, DeviceFindings]:
    """Return all findings, and those of one device; by default the one a report opens with.

    Raises:
        SnapreportError: there is no such device, or none at all.
    """
    found = recording.findings
    if not found.devices:
        raise SnapreportError(f"{recording.file.shown} has no device; nothing was recorded in it.")
    if arguments.get("device") is None:
        return found, found.devices[found.default]
    name = recording.device(arguments["device"]).name
    return found, next(each for each in found.devices if str(each.device) == name)


def _next(device: DeviceFindings, first: Finding | None) -> list[str]:
    said = []
    if first is not None:
        said.append(f"findings with id={first.id}: its evidence and every suggestion")
    if device.recorded:
        said.append("at: what holds the memory at the peak or any event, by line, role or stage")
        said.append("whatif: the peak without something, other allocator settings, another card")
    return said


def _failed(oom: Any) -> dict[str, Any]:
    return {
        "event": oom.event,
        "asked_for": size(oom.size),
        "device_free": size(oom.device_free),
        "allocated": size(oom.allocated),
        "reserved": size(oom.reserved),
    }


def _peak(device: DeviceFindings, curve: str) -> dict[str, Any] | None:
    peak = device.peaks.get(curve)
    return None if peak is None else size(peak.bytes, event=peak.event)


def _devices(devices: Sequence[DeviceFindings]) -> Part:
    fields: tuple[Field, ...] = (
        ("device", "text", lambda each: str(each.device)),
        ("events", "count", "history.events"),
        ("peak allocated", "bytes", "peak.allocated"),
        ("at event", "event", "peak.event"),
        ("peak reserved", "bytes", lambda each: (_peak(each, "reserved") or {}).get("bytes")),
        ("failed requests", "count", lambda each: len(each.ooms)),
    )
    return table_of("Devices: never add them up", devices, fields)


def _sites(device: DeviceFindings, most: int | None = None) -> Part:
    shown = device.sites[:most]
    rest = [site.bytes for site in device.sites[len(shown) :]]
    note = f"{len(rest)} more held {format_bytes(sum(rest))}: summary, part sites" if rest else ""
    name = f"{_moment(device)}, by call site"
    site = ("call site", "text", lambda each: named_place(each.name, each.filename, each.line))
    return held_table(name, site, shown, device.peak.allocated, note=note)


def _roles(device: DeviceFindings) -> Part:
    name = f"{_moment(device)}, by role (what it is for)"
    role = ("role", "text", "role")
    return held_table(name, role, device.held_by_role, device.peak.allocated)


def _moment(device: DeviceFindings) -> str:
    if not device.recorded:
        return "Held when the snapshot was written"
    return f"Held at the allocated peak, event {device.peak.event}"


def _amounts(_: Findings, device: DeviceFindings) -> list[Part]:
    moments = (device.start, device.peak, device.end) if device.recorded else (device.end,) * 3
    rows = []
    for name in AMOUNTS:
        own = device.peaks.get(name)
        values = [getattr(each, name) for each in moments]
        rows.append((name, *values, own and own.bytes, own and own.event))
    columns = (
        ("memory", "text"), ("start", "bytes"), ("at the allocated peak", "bytes"),
        ("end", "bytes"), ("own peak", "bytes"), ("own peak at event", "event"),
    )  # fmt: skip
    sizes, curves = device.sizes, device.statistics.items()
    more = [
        ("allocations made", sizes.made, "count"),
        ("of those freed", sizes.freed, "count"),
        ("live before the first event", sizes.baseline, "count"),
        ("live at the allocated peak", device.peak.live, "count"),
        ("events", device.history.events, "count"),
        ("requested in all", sizes.requested, "bytes"),
        ("smallest request", sizes.smallest, "bytes"),
        ("median request", sizes.median, "bytes"),
        ("largest request", sizes.largest, "bytes"),
        *(
            (f"{name} on average", each.average, "bytes")
            for name, each in curves
            if name != "requested"
        ),
    ]
    figures = [
        {"name": name, **(size(value) or {} if unit == "bytes" else {"count": value})}
        for name, value, unit in more
        if value is not None
    ]
    return [table("Memory in bytes", columns, rows), listed("figures", figures)]


def _stages(_: Findings, device: DeviceFindings) -> list[Part]:
    fields: tuple[Field, ...] = (
        ("stage", "text", "name"),
        ("depth", "count", "depth"),
        ("start event", "event", "start_event"),
        ("end event", "event", "end_event"),
        ("start", "bytes", "start_bytes"),
        ("peak", "bytes", "peak_bytes"),
        ("peak event", "event", "peak_event"),
        ("end", "bytes", "end_bytes"),
        ("cut off", "text", "cut"),
    )
    return [table_of("Stages, in allocated bytes", device.stages, fields)]


def _steps(_: Findings, device: DeviceFindings) -> list[Part]:
    if device.steps is None:
        return []
    fields: tuple[Field, ...] = (
        ("step", "count", "number"),
        ("name", "text", "name"),
        ("kind", "text", "kind"),
        ("start event", "event", "start_event"),
        ("end event", "event", "end_event"),
        ("start", "bytes", "start_bytes"),
        ("peak", "bytes", "peak_bytes"),
        ("peak event", "event", "peak_event"),
        ("change", "bytes", "change"),
        ("kept", "bytes", "kept_bytes"),
    )
    name = f"Steps, in allocated bytes; found {device.steps.how}"
    return [table_of(name, device.steps.steps, fields)]


def _trust(found: Findings, device: DeviceFindings) -> list[Part]:
    checks = [
        {"check": one.title, "mark": one.mark, "text": one.text} for one in device.trust.checks
    ]
    fixes = [{"text": each.text, "change": each.change} for each in device.trust.fixes]
    warnings = [
        {"code": each.code, "text": each.paragraph}
        for each in by_severity((*found.warnings, *device.warnings))
    ]
    return [listed("checks", checks), listed("fixes", fixes), listed("warnings", warnings)]


def _settings(found: Findings, _: DeviceFindings) -> list[Part]:
    rows = sorted((name, value) for name, value in found.settings.items())
    return [table("Settings of PyTorch's allocator", (("setting", "text"), ("value", "any")), rows)]


def _recording(found: Findings, device: DeviceFindings) -> list[Part]:
    rows = recording_rows(found.history, [device])
    return [table("Noted while recording", (("name", "text"), ("value", "text")), rows)]


_PARTS = {
    "peaks": _amounts,
    "sites": lambda _, device: [_sites(device)],
    "roles": lambda _, device: [_roles(device)],
    "stages": _stages,
    "steps": _steps,
    "trust": _trust,
    "settings": _settings,
    "recording": _recording,
}
