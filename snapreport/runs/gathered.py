"""What a run keeps of one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapreport.model.run.rank_facts import DeviceFacts

if TYPE_CHECKING:
    from snapreport.model.findings import Findings

_MOST_WARNINGS = 20


@dataclass(frozen=True, eq=False)
class Gathered:
    """The figures of a file, and what the recorder noted about its process; small."""

    size: int
    """Bytes of the snapshot, even if its bundle was read; ``sha256`` is the snapshot's, too."""
    sha256: str
    devices: tuple[DeviceFacts, ...]
    warnings: tuple[str, ...]
    rank: int | None = None
    """As the recorder noted it; None if it did not, as in the next two."""
    ranks: int | None = None
    """The number of ranks."""
    node: int | None = None
    """The number of the machine."""


def gather(findings: Findings) -> Gathered:
    """Return what a run keeps of a file."""
    from snapreport.api.rank_figures import rank_facts

    history = findings.history
    noted = history.recorder
    several = noted if noted and noted.world_size > 1 else None
    warnings = [each.title for each in findings.warnings if each.severity != "note"]
    return Gathered(
        size=history.source.size,
        sha256=history.source.sha256,
        devices=rank_facts(findings),
        warnings=tuple(warnings[:_MOST_WARNINGS]),
        rank=several.rank if several else None,
        ranks=several.world_size if several else None,
        node=several.node if several else None,
    )
