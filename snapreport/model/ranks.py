"""Several recordings of one run side by side: what an index of their reports lists."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from snapreport.model.diagnoses import Severity


@dataclass(frozen=True)
class RankDevice:
    """One device of one recording, in bytes."""

    device: str
    """``cuda:0``."""
    kind: str
    """``cuda``, ``host`` or ``cpu``: memories of different kinds do not compare."""
    place: int
    """Of the device in the report, from 0."""
    opens: bool
    """Whether the report opens with it."""
    recorded: bool
    """Whether there is a history; else the peaks are the state at the end."""
    allocated: int
    """At the allocated peak."""
    allocated_width: int
    """The true peak lies between ``allocated`` and ``allocated + allocated_width``."""
    reserved: int | None
    """At the reserved peak; None where no allocator reserves memory."""
    ooms: int
    """How many requests failed."""
    oom_size: int
    """What the last of them asked for."""
    verdict: str
    """The title of the finding to act on first, else of what held the peak; may be ``""``."""
    code: str
    """The kind of that finding."""
    severity: Severity
    growth: int
    """Bytes that leaks add in a step; 0 where none was found."""


@dataclass(frozen=True)
class Rank:
    """One recording, as a rank of a run leaves it."""

    name: str
    """What tells it from the others."""
    link: str
    """The report, relative to the index and fit for a link; ``""`` if there is none."""
    devices: tuple[RankDevice, ...]
    """Those that were used, in the order of the file."""
    error: str = ""
    """Why there is no report; one line."""


@dataclass(frozen=True)
class Run:
    """The recordings that were rendered together, in the order given."""

    title: str
    """As the user gave it; may be ``""``."""
    ranks: tuple[Rank, ...]

    @property
    def rows(self) -> list[tuple[Rank, RankDevice]]:
        """Every device of every recording that has a report."""
        return [(rank, device) for rank in self.ranks for device in rank.devices]

    def of(self, kind: str) -> list[tuple[Rank, RankDevice]]:
        """Return the rows of one kind of memory."""
        return [(rank, device) for rank, device in self.rows if device.kind == kind]

    def middle(self, kind: str) -> int:
        """Return the median of the allocated peaks of one kind, in bytes; 0 where it has none."""
        return round(median([device.allocated for _, device in self.of(kind)] or [0]))

    def is_largest(self, device: RankDevice) -> bool:
        """Say whether no peak of its kind is higher, and it stands out from the middle."""
        peaks = [each.allocated for _, each in self.of(device.kind)]
        return device.allocated == max(peaks) > self.middle(device.kind)
