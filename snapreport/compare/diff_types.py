"""Types for the comparison of two recordings: what differs at a moment of each, and how much."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.ground.object_display import titled_table
from snapreport.ground.safe_text import visible
from snapreport.model.answer_tables import GROUPINGS
from snapreport.model.findings import Amounts, DeviceFigures
from snapreport.model.snapshot import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT, MOVED_LINE, MOVED_FILE = "exact", "moved line", "moved file"
ONLY_BASE, ONLY_NEW = "only in BASE", "only in NEW"
MATCHES = (EXACT, MOVED_LINE, MOVED_FILE, ONLY_BASE, ONLY_NEW)
"""How two call sites or groups were matched, or in which recording the only one is."""

DIFF_GROUPINGS = ("site", *(each for each in GROUPINGS if each not in ("stack", "line")))
"""What a comparison can be grouped by."""

MOMENTS = ("peak", "start", "end")
"""Moments that every recording has."""

UNUSED = "reserved, in no live block"
"""The part of the reserved curve that no allocation holds."""


@dataclass(frozen=True)
class Place:
    """A place in the source code."""

    filename: str
    line: int | None
    """None if the frame has none."""


@dataclass(frozen=True)
class Change:
    """What one call site or group holds at each of the two moments."""

    name: str
    """A site's function, a group's name, or why there is no call stack."""
    kind: str
    """``site``, ``no stack``, ``group`` or ``unused``."""
    base_place: Place | None
    """Where BASE has the site; None if it has not, or this is no site."""
    new_place: Place | None
    """Where NEW has the site; None if it has not, or this is no site."""
    match: str
    """One of ``MATCHES``."""
    base_bytes: int
    new_bytes: int
    base_count: int
    """Live allocations in BASE."""
    new_count: int

    @property
    def change(self) -> int:
        """NEW's bytes minus BASE's."""
        return self.new_bytes - self.base_bytes


@dataclass(frozen=True)
class Figure:
    """One figure of both recordings."""

    name: str
    """A curve, or an amount derived from the curves."""
    when: str
    """``peak`` (of this curve), ``start``, ``average``, ``end``, or the compared ``moment``."""
    base: int | None
    """In bytes; None if not known."""
    new: int | None

    @property
    def change(self) -> int | None:
        """NEW's value minus BASE's, None if one of them is not known."""
        return None if self.base is None or self.new is None else self.new - self.base


@dataclass(frozen=True)
class StageChange:
    """A stage of both recordings, or of one; stages of one name are matched in order."""

    name: str
    """With its number if the name occurs more than once, ``forward[2]``."""
    depth: int
    match: str
    base_peak: int | None
    """Allocated bytes; None where not known."""
    new_peak: int | None
    base_change: int | None
    """Allocated bytes at the stage's end minus those at its start, in BASE."""
    new_change: int | None

    @property
    def change(self) -> int | None:
        """NEW's peak minus BASE's; None if one of them is not known."""
        if self.base_peak is None or self.new_peak is None:
            return None
        return self.new_peak - self.base_peak


@dataclass(frozen=True, eq=False)
class DiffSide:
    """One of the two recordings, and its moment."""

    source: Source
    figures: DeviceFigures
    event: int
    """-1 is the start."""
    time_us: int | None
    bytes: int
    """The curve's value at the moment."""
    count: int
    """Live allocations at the moment."""
    amounts: Amounts

    @property
    def device(self) -> str:
        """Such as ``cuda:0``."""
        return str(self.figures.device)


@dataclass(frozen=True, eq=False)
class Diff:
    """BASE and NEW compared; every list of changes adds up to ``change``, to the byte."""

    base: DiffSide
    new: DiffSide
    curve: str
    moment: str
    """Which moment of each: ``at the peak``, ``at the peak of stage 'x'`` and so on."""
    conclusion: str
    """One sentence."""
    notes: tuple[str, ...]
    """What a reader of the figures needs to know."""
    figures: tuple[Figure, ...]
    sites: tuple[Change, ...]
    """Largest change first, as in ``categories`` and ``groups``."""
    parts: tuple[Change, ...]
    """The sites added up: those in both recordings, in only one of them, and without a stack."""
    categories: tuple[Change, ...]
    by: str
    """One of ``DIFF_GROUPINGS``."""
    groups: tuple[Change, ...]
    """The groups of ``by``; the same as ``sites`` for ``site``."""
    stages: tuple[StageChange, ...]
    """Empty unless both recordings have stages."""
    settings: tuple[tuple[str, Any, Any], ...]
    """Allocator settings that differ: name, BASE's and NEW's value."""
    files: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    """The files that were compared, if given by path."""

    @property
    def change(self) -> int:
        """The curve's value at NEW's moment minus that at BASE's."""
        return self.new.bytes - self.base.bytes

    def curves(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the curve of each recording; int64, (events + 1,), index 0 is the start."""
        return self.base.figures.curves[self.curve], self.new.figures.curves[self.curve]

    def __repr__(self) -> str:
        names = f"{self.base.source.name} and {self.new.source.name}"
        return visible(f"<Diff of {names}: {self.conclusion}>")

    def _repr_html_(self) -> str:
        return titled_table(self, self.sites)
