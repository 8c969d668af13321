"""Whether the recording can be trusted: what it covers, what was lost, how to record it better."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.model.diagnoses import Finding
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History


def find_trust(_tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings: those that a bundle's manifest has, too."""
    # A failed request has a verdict of its own.
    yield from (warning for warning in device.warnings if warning.code != "oom")
