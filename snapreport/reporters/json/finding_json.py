"""Findings, and how far a recording can be trusted, as plain objects for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from snapreport.model.diagnoses import Diagnosis, Finding
from snapreport.model.trust import Trust
from snapreport.reporters.json.json_parts import fields_of


def finding_as_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain objects, values in their units."""
    names = "id code topic severity title explanation bytes"
    view = finding.view
    return {
        **fields_of(finding, names),
        "evidence": [fields_of(each, "label value unit most meaning") for each in finding.evidence],
        "tables": [asdict(each) for each in finding.tables],
        "suggestions": [asdict(each) for each in finding.suggestions],
        "view": None if view is None else fields_of(view, "tab event curve search"),
    }


def diagnosis_as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as plain objects."""
    return {
        "findings": [finding_as_json(each) for each in diagnosis.findings],
        "silenced": list(diagnosis.silenced),
    }


def trust_as_json(trust: Trust) -> dict[str, Any]:
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
