"""How memory grows from turn to turn of a program's outer loop, by call site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.model.diagnoses import Frees

GrowthKind = Literal["leak", "buffer", "freed-later", "settled"]
"""``leak``: ever more allocations, never freed; ``buffer``: as many as before, but ever larger;
``freed-later``: grew, and was freed after the last turn; ``settled``: grew, then stopped."""


@dataclass(frozen=True, eq=False)
class SiteGrowth:
    """What one call site has live at the bounds of the turns, in allocated bytes."""

    kind: GrowthKind
    row: int
    """An allocation of the site, to name it by."""
    since: int
    """The turn in which the growth began, counted from 0."""
    turns: int
    """How many turns it was watched, from ``since`` on."""
    growing: int
    """In how many of those it grew."""
    first: int
    """Bytes live as the growth began."""
    last: int
    """Bytes live after the last turn."""
    per_step: int
    """Block bytes added in a turn."""
    requested_per_step: int
    count_per_step: float
    """Allocations added in a turn."""

    @property
    def grown(self) -> int:
        """Bytes added in all."""
        return self.last - self.first


@dataclass(frozen=True, eq=False)
class HeldOver:
    """Memory made in one turn and freed in one of the next."""

    rows: NDArray[np.int64]
    """The allocations; int64."""
    typical: int
    """Bytes of it that are live as a turn ends: the median."""
    frees: Frees
    """How far the allocated peak of the turns after the first would fall, had all of this memory
    been freed as its turn ended."""


@dataclass(frozen=True, eq=False)
class StepGrowth:
    """Everything that outlives the turn in which it was made."""

    sites: tuple[SiteGrowth, ...]
    """The fastest first, in each kind."""
    held_over: HeldOver

    def of(self, kind: GrowthKind) -> tuple[SiteGrowth, ...]:
        """Return the sites of one kind."""
        return tuple(site for site in self.sites if site.kind == kind)
