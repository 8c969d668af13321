"""Who held the memory when a request failed, or at the peak; why it failed, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.diagnosis.oom.cpu_oom import cpu_oom_finding
from snapreport.diagnosis.oom.oom_finding import oom_findings
from snapreport.diagnosis.oom.peak_finding import peak_finding
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History


def find_memory(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield a verdict for each place at which requests failed, or else who held the peak."""
    if device.ooms:
        yield from oom_findings(tables, device)
        return
    failed = None if tables.recorder is None else tables.recorder.cpu_failure
    if failed is not None and device.history.device.kind == "cpu":
        yield cpu_oom_finding(tables, device, failed)
    elif device.peak.allocated:
        yield peak_finding(tables, device)
