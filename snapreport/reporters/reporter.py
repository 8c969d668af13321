"""What every reporter can do."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from snapreport.compare.diff_types import Diff
from snapreport.model.findings import Findings


class Reporter(Protocol):
    """Writes the findings about a file in one format."""

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write an entire report; ``out`` stays open."""
        ...


class DiffReporter(Protocol):
    """Writes a comparison of two recordings in one format."""

    def render(self, diff: Diff, out: BinaryIO) -> None:
        """Write an entire report; ``out`` stays open."""
        ...
