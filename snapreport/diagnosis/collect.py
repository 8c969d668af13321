"""Collect the findings about a device from every detector, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from snapreport.diagnosis.allocator_use.allocator_findings import find_allocator_faults
from snapreport.diagnosis.churn.churn_findings import find_churn
from snapreport.diagnosis.growth.growth_findings import find_growth
from snapreport.diagnosis.oom.cpu_oom import cpu_oom_finding
from snapreport.diagnosis.oom.oom_finding import oom_findings
from snapreport.diagnosis.oom.peak_finding import peak_finding
from snapreport.ground.memoize import once_for_both
from snapreport.model.diagnoses import Diagnosis, Finding, Suggestion, in_order
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import OTHER_CARDS


@once_for_both
def diagnose(device: DeviceFigures, tables: History) -> Diagnosis:
    """Return everything found about a device."""
    found = _each_change_once(in_order(_find_all(tables, device)))
    kind = device.history.device.kind
    if kind in OTHER_CARDS:
        return Diagnosis(tuple(_in_words_of(kind, each) for each in found))
    return Diagnosis(tuple(found))


def _each_change_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Leave a suggestion to the first of the findings that make it, in the very same words."""
    said: set[Suggestion] = set()
    for finding in findings:
        own = tuple(each for each in finding.suggestions if each not in said)
        said.update(own)
        yield finding if own == finding.suggestions else replace(finding, suggestions=own)


def _in_words_of(kind: str, finding: Finding) -> Finding:
    """Name another backend's modules and settings in place of CUDA's."""

    def put(text: str) -> str:
        return text.replace("torch.cuda.", f"torch.{kind}.").replace(
            "PYTORCH_CUDA_ALLOC_CONF", f"PYTORCH_{kind.upper()}_ALLOC_CONF"
        )

    said = (
        replace(each, text=put(each.text), change=put(each.change)) for each in finding.suggestions
    )
    return replace(finding, explanation=put(finding.explanation), suggestions=tuple(said))


def _find_all(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    yield from find_memory(tables, device)
    # The warnings that are also in a bundle's manifest; a failed request has a verdict instead.
    yield from (warning for warning in device.warnings if warning.code != "oom")
    yield from find_growth(tables, device)
    yield from find_churn(tables, device)
    yield from find_allocator_faults(tables, device)


def find_memory(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield a verdict for each place at which requests failed, or else what held the peak."""
    failed = None if tables.recorder is None else tables.recorder.cpu_failure
    if device.ooms:
        yield from oom_findings(tables, device)
    elif failed is not None and device.history.device.kind == "cpu":
        yield cpu_oom_finding(tables, device, failed)
    elif device.peak.allocated:
        yield peak_finding(tables, device)
