"""``findings``: what went wrong, each with its evidence and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapreport.ground.errors import SnapreportError
from snapreport.mcp.answering.reply import Reply, finding_table, listed, size
from snapreport.mcp.opened.kept_recording import KeptRecording
from snapreport.model.diagnoses import Figure, Finding, Suggestion, names_a_finding
from snapreport.model.findings import Findings
from snapreport.reporters.words.finding_words import figure_text, frees_text, saving_text, tally


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
