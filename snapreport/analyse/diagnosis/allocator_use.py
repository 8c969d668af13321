"""What is lost between the program and the driver: fragmentation, locked pools, slack, retries."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.model.diagnosis import Finding
from snapreport.model.findings import DeviceFindings
from snapreport.model.history import History


def find_allocator_faults(tables: History, device: DeviceFindings) -> Iterator[Finding]:
    """Yield the findings.

    Args:
        tables: the file.
        device: the device's figures.
    """
    yield from ()
