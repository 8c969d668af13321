"""What every reporter can do."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from snapreport.model.findings import Findings


class Reporter(Protocol):
    """Writes the findings about a file in one format."""

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write a whole report; nothing is closed."""
        ...
