"""Types for the comparison of two runs, rank by rank and group by group."""

from __future__ import annotations

from dataclasses import dataclass

from snapreport.model.run.run_findings import Difference


@dataclass(frozen=True)
class RankChange:
    """A device of a rank that both runs have."""

    name: str
    """``rank 17``."""
    base_row: int
    """Position in ``RunFindings.rows`` of the earlier run."""
    new_row: int
    """Position in ``RunFindings.rows`` of the later run."""
    base: int
    """Bytes at the allocated peak."""
    new: int
    differences: tuple[Difference, ...]
    """What accounts for the change: ``bytes`` now, ``usual`` before; sites add up to it."""
    odd: bool
    """Whether the change is unlike that of the rank's group."""

    @property
    def change(self) -> int:
        """Bytes by which the peak rose."""
        return self.new - self.base


@dataclass(frozen=True)
class GroupChange:
    """Ranks that behave alike in the run now."""

    name: str
    ranks: tuple[int, ...]
    """Positions in ``RunDiff.ranks``."""
    base: int
    """Median of the allocated peaks, in bytes."""
    new: int
    differences: tuple[Difference, ...]
    """As for a rank, but of the medians."""
    sentence: str

    @property
    def change(self) -> int:
        """Bytes by which the median peak rose."""
        return self.new - self.base


@dataclass(frozen=True)
class RunDiff:
    """How a run differs from an earlier one. Ranks are compared, never added."""

    headline: str
    ranks: tuple[RankChange, ...]
    """In the order of the run now."""
    groups: tuple[GroupChange, ...]
    only_base: tuple[str, ...]
    """Names of ranks with figures only in the base run."""
    only_new: tuple[str, ...]
    notes: tuple[str, ...] = ()
