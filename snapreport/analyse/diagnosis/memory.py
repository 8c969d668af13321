"""Who held the memory when a request failed, or at the peak; why it failed, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.model.diagnosis import Finding
from snapreport.model.findings import DeviceFindings
from snapreport.model.history import History


def find_memory(tables: History, device: DeviceFindings) -> Iterator[Finding]:
    """Yield the findings.

    Args:
        tables: the file.
        device: the device's figures.
    """
    yield from ()
