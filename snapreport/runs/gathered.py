"""What one file leaves for the run that it is part of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapreport.model.run.rank_facts import DeviceFacts

if TYPE_CHECKING:
    from snapreport.model.findings import Findings

_MOST_WARNINGS = 20


@dataclass(frozen=True, eq=False)
class Gathered:
    """The figures of a file, and what was noted in it of its process; small."""

    size: int
    """Bytes of the snapshot itself, even where its bundle was read; ``sha256`` too is of it."""
    sha256: str
    devices: tuple[DeviceFacts, ...]
    warnings: tuple[str, ...]
    rank: int | None = None
    """As the recorder noted it; None where it did not, as below."""
    ranks: int | None = None
    """How many there are."""
    node: int | None = None
    """The number of the machine."""


def gather(findings: Findings) -> Gathered:
    """Return what is kept of a file."""
    from snapreport.api.rank_figures import rank_facts

    history = findings.history
    noted = history.recorder
    several = noted is not None and noted.world_size > 1
    warnings = [each.title for each in findings.warnings if each.severity != "note"]
    return Gathered(
        size=history.source.size,
        sha256=history.source.sha256,
        devices=rank_facts(findings),
        warnings=tuple(warnings[:_MOST_WARNINGS]),
        rank=noted.rank if noted and several else None,
        ranks=noted.world_size if noted and several else None,
        node=noted.node if noted and several else None,
    )
