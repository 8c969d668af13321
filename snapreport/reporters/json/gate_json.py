"""A verdict as plain objects for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from snapreport.compare.diff_types import Change, Diff
from snapreport.compare.gate_types import Check, Raised, Verdict
from snapreport.model.findings import CallSite
from snapreport.reporters.json.json_parts import fields_of
from snapreport.reporters.words.diff_rows import place_of
from snapreport.reporters.words.gate_rows import conclusion


def verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain objects, sizes in bytes."""
    return {
        "file": verdict.source.name,
        "sha256": verdict.source.sha256,
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
        "sites": [_change(change) for change in diff.sites if change.change],
    }


def _change(change: Change) -> dict[str, Any]:
    place = place_of(change)
    return {
        "name": change.name,
        "file": None if place is None else place.filename,
        "line": None if place is None else place.line,
        "match": change.match,
        "base_bytes": change.base_bytes,
        "bytes": change.new_bytes,
        "change": change.change,
    }
