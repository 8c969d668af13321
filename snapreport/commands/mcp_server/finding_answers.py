"""Answers from what was found: ``findings``, ``open``, ``summary`` and ``whatif``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from snapreport.commands.mcp_server.opened import KeptRecording
from snapreport.commands.mcp_server.reply import (
    Field,
    Part,
    Reply,
    finding_table,
    held_table,
    listed,
    size,
    table,
    table_of,
)
from snapreport.ground.errors import SnapreportError
from snapreport.ground.progress import Progress
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Figure, Finding, Suggestion, by_severity, names_a_finding
from snapreport.model.findings import AMOUNTS, DeviceFindings, Findings
from snapreport.model.forecasts import caveats
from snapreport.model.replays import Between, FactualReplay
from snapreport.reporters.plain_text import named_place
from snapreport.reporters.plans import plan_notes, plan_verdict
from snapreport.reporters.settings import how_text
from snapreport.reporters.words import (
    expected_peak,
    figure_text,
    frees_text,
    recording_rows,
    saving_text,
    tally,
)

if TYPE_CHECKING:
    from snapreport.api.device import Device


def findings_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return all findings in brief, only those of a code or topic, or one in full.

    Raises:
        SnapreportError: no finding has such an id, code or topic, in any recording.
    """
    found = recording.findings
    device = arguments.get("device")
    name = None if device is None else recording.device(device).name
    every = [pair for pair in found_in(found) if name is None or pair[0] in ("", name)]
    wanted = arguments.get("id")
    about = {"file": recording.file.shown, **({"device": name} if name else {})}
    named = [pair for pair in every if wanted is None or pair[1].is_named_by(wanted)]
    exact = [pair for pair in named if pair[1].id == wanted]
    if wanted is not None and (exact or len(named) == 1):
        (where, finding), *others = exact or named
        return _whole(about, where, finding, [each for each, _ in others])
    if wanted is not None and not names_a_finding(wanted):
        known = ", ".join(dict.fromkeys(finding.id for _, finding in every)) or "none"
        raise SnapreportError(
            f"{wanted!r} is not an id, code or topic; findings here are: {known}."
        )
    said = tally(tuple(finding for _, finding in named))
    items = [brief(where, finding, long=True) for where, finding in named]
    return Reply(about, {"answer": said}, (listed("findings", items),))


def found_in(found: Findings) -> list[tuple[str, Finding]]:
    """Return every finding with its device, "" for findings about the file.

    The file's findings come first, then those of the device that a report opens with; for each
    device the worst comes first.
    """
    devices = sorted(found.devices, key=lambda each: each is not found.devices[found.default])
    return [("", each) for each in found.warnings] + [
        (str(device.device), each) for device in devices for each in device.diagnosis.findings
    ]


def brief(device: str, finding: Finding, *, long: bool = False) -> dict[str, Any]:
    """Return a finding in brief."""
    return {
        "id": finding.id,
        "device": device or "all",
        "severity": finding.severity,
        "title": finding.title,
        "explanation": finding.explanation[:300] if long else None,
        "at_stake": size(finding.bytes or None) if long else None,
        "best_change_frees": saving_text(finding.suggestions) or None,
    }


def suggestion_json(suggestion: Suggestion) -> dict[str, Any]:
    """Return a suggestion with its bounds."""
    frees = suggestion.frees
    return {
        "code": suggestion.code,
        "text": suggestion.text,
        "change": suggestion.change or None,
        "frees": frees
        and {
            "least": frees.least,
            "expected": frees.expected,
            "most": frees.most,
            "unit": "bytes",
            "text": frees_text(frees),
        },
        "costs": suggestion.costs or None,
        "unless": suggestion.unless or None,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.label,
        "value": figure.value,
        "unit": figure.unit,
        "most": figure.most,
        "text": figure_text(figure) if figure.unit not in ("text", "count") else None,
        "meaning": figure.meaning or None,
    }


def _whole(about: Mapping[str, Any], device: str, finding: Finding, others: list[str]) -> Reply:
    view = finding.view
    head = {
        "id": finding.id,
        "severity": finding.severity,
        "answer": finding.title,
        "explanation": finding.explanation,
        "at_stake": size(finding.bytes or None),
        "also_on": others,
        "event": view and view.event,
    }
    parts = (
        listed("suggestions", [suggestion_json(each) for each in finding.suggestions]),
        listed("figures", [_figure(each) for each in finding.evidence]),
        *map(finding_table, finding.tables),
    )
    return Reply({**about, "device": device or "all"}, head, parts)


# open, summary

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
        "expected": expected_peak(found.history, device) or None,
        "caveats": list(caveats(found.history.forecast)) if found.history.forecast else None,
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


# whatif

_MODES = (("settings", "capacity"), ("card",), ("fit",), ("free",), ("without",))
_SERVES = {True: "yes", False: "no", None: "perhaps"}
RECORDED = "recorded"
"""As the only ``settings``: asks how exact the replay of the recording itself is."""


def what_if_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Answer one of the questions of ``whatif``.

    Raises:
        SnapreportError: two questions at once, or something in the question does not exist.
    """
    asked = [mode for mode in _MODES if any(name in arguments for name in mode)]
    if len(asked) > 1:
        names = " and ".join(mode[0] for mode in asked)
        raise SnapreportError(f"{names} are separate questions; ask one at a time.")
    device = recording.device(arguments.get("device"))
    about = {"file": recording.file.shown, "device": device.name}
    answer = _ANSWERS[asked[0][0] if asked else "without"]
    head, parts = answer(device, arguments, recording.progress)
    return Reply(about, head, tuple(parts))


Found = tuple[dict[str, Any], list[Part]]


def _removals(device: Device, arguments: Mapping[str, Any], _: Progress) -> Found:
    by, curve = arguments.get("by", "site"), arguments.get("curve", "allocated")
    patterns = arguments.get("without", ())
    was = device.peaks.get(curve)
    head: dict[str, Any] = {
        "curve": curve,
        "peak_as_recorded": None if was is None else size(was.bytes, event=was.event),
    }
    if patterns:
        left = device.peak_without(*patterns, by=by, curve=curve)
        found = left.what_if
        head |= {
            "answer": f"The peak would fall by {format_bytes(found.falls)} to"
            f" {format_bytes(found.peak_bytes)}.",
            "peak": size(found.peak_bytes, event=found.peak_event),
            "falls": size(found.falls),
            "held_at_the_recorded_peak": size(found.held),
            "allocations_taken_away": found.count,
            "taken_away": list(left.taken[:20]),
            "others_taken_away": max(0, len(left.taken) - 20) or None,
        }
        name = "Held at the remaining peak"
        return head, [held_table(name, (by, "text", "name"), left.held, found.peak_bytes)]
    fields: tuple[Field, ...] = (
        (by, "text", "name"),
        ("falls by", "bytes", "falls"),
        ("peak then", "bytes", "peak_bytes"),
        ("at event", "event", "peak_event"),
        ("held at the recorded peak", "bytes", "held"),
        ("allocations", "count", "count"),
    )
    return head, [table_of(f"The peak without each {by}", device.what_if(by, curve), fields)]


def _settings_answer(device: Device, arguments: Mapping[str, Any], progress: Progress) -> Found:
    settings = list(arguments.get("settings", ()))
    if settings == [RECORDED]:
        return {"replay": _replay(device.replay)}, []
    found = device.other_settings(*settings, capacity=arguments.get("capacity"), progress=progress)
    head: dict[str, Any] = {
        "answer": "Nothing of this is measured: the recording was replayed through a model.",
        "floor": size(found.floor, event=found.floor_event, meaning="no setting needs less"),
        "capacity": size(found.capacity),
        "replay_of_the_recording": _replay(found.factual),
    }
    if found.hopeless:
        head["answer"] = (
            f"No setting could have helped: {format_bytes(found.floor)} are needed, and"
            f" {format_bytes(found.capacity or 0)} are available."
        )
    elif found.refused:
        head["answer"] = found.refused
    if found.outcomes:
        head["note"] = how_text(found)
    asked = found.capacity is not None
    fields: tuple[Field, ...] = (
        ("settings", "text", lambda each: f"{each.settings}{' (recorded)' * each.recorded}"),
        ("smallest capacity, least", "bytes", "capacity.least"),
        ("smallest capacity, most", "bytes", "capacity.most"),
        ("peak reserved, least", "bytes", "peak.least"),
        ("peak reserved, most", "bytes", "peak.most"),
        ("retries", "text", lambda each: _range(each.retries)),
        (
            "serves all requests",
            "text",
            lambda each: _SERVES[each.serves] if asked else "not asked",
        ),
    )
    return head, [
        table_of("Settings; smallest capacity is what to compare", found.outcomes, fields)
    ]


def _replay(replay: FactualReplay) -> dict[str, Any]:
    return {
        "settings": replay.settings,
        "exact": replay.exact,
        "allocations": replay.allocations,
        "on_their_recorded_address": replay.placed,
        "first_departs_at_event": replay.divergence,
        "cause": replay.cause or None,
        "not_modelled": replay.not_modelled or None,
    }


def _range(between: Between) -> str:
    return str(between.least) if between.one else f"{between.least} to {between.most}"


def _card(device: Device, arguments: Mapping[str, Any], _: Progress) -> Found:
    fit = device.fits(arguments["card"], arguments.get("allow"))
    needed = fit.replayed
    head = {
        "answer": fit.text,
        "outcome": fit.outcome,
        "card": fit.card,
        "card_has": size(fit.bytes),
        "room_for_pytorch": size(fit.room),
        "set_aside": size(fit.allowance.bytes, source=fit.allowance.source),
        "most_live": size(fit.live, event=fit.live_event, meaning="no setting needs less"),
        "reserved": size(fit.reserved, event=fit.reserved_event),
        "smallest_capacity_in_a_replay": needed and size(needed.most, at_least=needed.least),
    }
    return head, []


def _plan(device: Device, arguments: Mapping[str, Any], _: Progress) -> Found:
    plan = device.plan(fit=arguments.get("fit"), free=arguments.get("free"))
    peak = device.peak
    beyond = None if peak.reserved is None else peak.reserved - peak.allocated
    head = {
        "answer": plan_verdict(plan),
        "reached": plan.reached,
        "target": size(plan.target),
        "peak": size(plan.peak),
        "expected_peak": size(plan.expected),
        "peak_at_most": size(plan.most),
        "note": plan_notes(beyond, bool(device.figures.ooms)),
    }
    steps = [
        {
            "change": suggestion_json(step.suggestion),
            "peak_then": size(step.expected),
            "peak_then_at_most": size(step.most),
        }
        for step in plan.steps
    ]
    fields = (("role", "text", "role"), ("held", "bytes", "bytes"))
    left = table_of("What the peak then consists of", plan.left, fields)
    return head, [listed("steps", steps), left]


_ANSWERS = {
    "settings": _settings_answer,
    "without": _removals,
    "card": _card,
    "fit": _plan,
    "free": _plan,
}
