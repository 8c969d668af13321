"""What an exporter is given: findings, and what is live at a moment of each device."""

from __future__ import annotations

from dataclasses import dataclass

from snapreport.model.answer_tables import LiveRows
from snapreport.model.findings import DeviceFindings, Findings


@dataclass(frozen=True, eq=False)
class DeviceExport:
    """One device at a moment."""

    found: DeviceFindings
    event: int
    """-1 is the start."""
    live: LiveRows
    """The allocations live then, and their bytes in the export's curve."""


@dataclass(frozen=True, eq=False)
class Export:
    """What is to be written in another tool's form."""

    findings: Findings
    curve: str
    """``allocated``, ``active`` (both block bytes) or ``requested``: what bytes are counted, and
    until when an allocation counts."""
    devices: tuple[DeviceExport, ...]
    at_moment: bool
    """Whether a moment was named; else it is the peak, and tables have every allocation."""
