"""Types for the conclusions about a run: groups of ranks, odd ranks, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapreport.model.run.rank_facts import HolderKind


@dataclass(frozen=True)
class Difference:
    """What a call site, a role or a stage holds on a rank or group, compared with the usual."""

    kind: HolderKind
    key: str
    bytes: int
    usual: int
    """Bytes; the median of what it is compared with."""
    size: int
    """Bytes of the commonest allocation; 0 where there is none."""
    of_size: int
    usual_size: int
    usual_of_size: int


@dataclass(frozen=True)
class Group:
    """Ranks that behave alike."""

    name: str
    """``ranks 8 to 15``, or with a layout ``pipeline stage 1``."""
    rows: tuple[int, ...]
    """Positions in ``RunFindings.rows``, those that are odd among them; of every dump."""
    allocated: int
    """Median of the allocated peaks, in bytes."""
    differences: tuple[Difference, ...]
    """From the other ranks; () for the only group."""
    sentence: str


@dataclass(frozen=True)
class Odd:
    """A rank that is unlike its group, or that failed."""

    row: int
    """Position in ``RunFindings.rows``; of several dumps the last of the rank, or the one that
    failed."""
    code: Literal["heavier", "lighter", "failed", "growth"]
    bytes: int
    """By which its peak, or its growth in a step, differs from the group's median."""
    differences: tuple[Difference, ...]
    """What accounts for it, largest first. Those of sites add up to the difference of the peaks
    to the byte: what no site of its own accounts for has the key ``""``."""
    parts_event: int | None
    """The event from which it differs from its group; None if not known."""
    parts_step: int | None
    """The number of the step from which it differs from its group; None if not known."""
    sentence: str
    group: int | None = None
    """Position in ``RunFindings.groups`` of what it is compared with."""


@dataclass(frozen=True)
class Imbalance:
    """How unlike the ranks along one dimension of the layout, or of a group, are."""

    name: str
    """``tp``, ``pp`` and so on; a group's name."""
    least: int
    """Bytes at the allocated peak, as ``most``."""
    most: int
    sentence: str


@dataclass(frozen=True)
class Replicated:
    """As many bytes of a role on each rank along a dimension whose ranks may hold copies."""

    dimension: str
    """``dp``."""
    copies: int
    """The dimension's size."""
    role: str
    bytes: int
    """On each rank, of the median group of ranks along it."""
    saved: int
    """Bytes that each rank would save if every copy but one were sharded away."""
    sentence: str


@dataclass(frozen=True)
class RunFindings:
    """The answer of a run's page; positions are those of ``rows``."""

    headline: str
    """One sentence: which ranks are unlike the others, and why."""
    rows: tuple[tuple[int, int], ...]
    """Each device that is compared: position in ``Run.ranks``, position in its ``devices``."""
    groups: tuple[Group, ...]
    odd: tuple[Odd, ...]
    """Most telling first."""
    imbalances: tuple[Imbalance, ...]
    missing: tuple[int, ...]
    """Numbers of ranks of which there is no file."""
    broken: tuple[int, ...]
    """Positions in ``Run.ranks`` of files that could not be read."""
    first_failure: tuple[int, int] | None
    """The earliest failed request of all: position in ``rows``, in the device's ``failed``."""
    growth: tuple[int | None, ...] = ()
    """Bytes that each row's rank gains in a step, in the recording or between the dumps; None where
    too few steps are known to tell."""
    replicated: tuple[Replicated, ...] = ()
    notes: tuple[str, ...] = ()
    """What limits the comparison, and why."""
