"""What differs between two recordings at a moment of each, how much, and the sentence on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import titled_table, visible
from snapreport.ground.units import change_in_words, format_bytes, format_count, format_signed_bytes
from snapreport.model.asked import (
    GROUPINGS,
)
from snapreport.model.findings import Amounts, DeviceFigures
from snapreport.model.forecasts import assumed_text, card_title, peak_range
from snapreport.model.history import History
from snapreport.model.snapshot import Forecast, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


EXACT, MOVED_LINE, MOVED_FILE = "exact", "moved line", "moved file"
ONLY_BASE, ONLY_NEW = "only in BASE", "only in NEW"
MATCHES = (EXACT, MOVED_LINE, MOVED_FILE, ONLY_BASE, ONLY_NEW)
"""How two call sites or groups were matched, or in which recording the only one is."""

DIFF_GROUPINGS = tuple(each for each in GROUPINGS if each not in ("stack", "line"))
"""What a comparison can be grouped by."""

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
class Accuracy:
    """How right a forecast was: its peak of allocated memory against the recorded one, in bytes."""

    side: str
    """Which side is the forecast: ``BASE`` or ``NEW``."""
    recorded: int
    expected: int
    least: int
    """The least that the forecast said the peak may be, and the most."""
    most: int

    @property
    def error(self) -> int:
        """By how much the forecast's peak is higher than the recorded one."""
        return self.expected - self.recorded

    @property
    def in_range(self) -> bool:
        """Whether the recorded peak lies in the forecast's range."""
        return self.least <= self.recorded <= self.most

    @property
    def text(self) -> str:
        """How right it was, in a sentence."""
        forecast = "The forecast peak of allocated memory"
        if not self.error:
            return f"{forecast} equals the recorded one, to the byte."
        off = f"{format_bytes(abs(self.error))} ({format_count(abs(self.error))} bytes"
        off += f", {abs(self.error) / self.recorded:.3%})" if self.recorded else ")"
        between = f"{format_count(self.least)} to {format_count(self.most)} bytes"
        lies = "lies in" if self.in_range else "lies outside of"
        return (
            f"{forecast} is {off} {'higher' if self.error > 0 else 'lower'} than the recorded one,"
            f" which {lies} the forecast's range, {between}."
        )


def find_accuracy(base: DiffSide, new: DiffSide) -> Accuracy | None:
    """Compare a forecast's peak with a recorded one; None unless one side is each of them."""
    if (base.forecast is None) == (new.forecast is None):
        return None
    if not (base.figures.recorded and new.figures.recorded):
        return None
    name, side, real = ("BASE", base, new) if base.forecast is not None else ("NEW", new, base)
    assert side.forecast is not None
    peak = side.figures.peaks["allocated"].bytes
    found = peak_range(side.forecast, side.device, peak)
    recorded = real.figures.peaks["allocated"].bytes
    return Accuracy(name, recorded, peak, found.least, found.most)


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

    file: History
    """All of the file; what is compared is one device of it."""
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
    def source(self) -> Source:
        """The file's name, size and SHA-256."""
        return self.file.source

    @property
    def forecast(self) -> Forecast | None:
        """None for a recording."""
        return self.file.forecast

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
    accuracy: Accuracy | None = None
    """How right the forecast was; None unless one side is a forecast and the other a recording."""
    roles: tuple[Change, ...] = ()
    """By role, as ``groups``; only where there is an accuracy."""

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


_MOSTLY = 0.5
_WORTH_NAMING = 0.25


def write_conclusion(
    base: DiffSide, new: DiffSide, curve: str, moment: str, sites: Sequence[Change]
) -> str:
    """Say which recording has more, by how much and from where.

    Args:
        base: the earlier recording.
        new: the later recording.
        curve: which curve is compared.
        moment: which moment of each, such as ``at the peak``.
        sites: every call site, largest change first.
    """
    change = new.bytes - base.bytes
    what = "" if curve == "allocated" else f" in {curve} bytes"
    peaks = moment == "at the peak"
    if not change:
        same = (
            f"peaks as high as BASE{what}," if peaks else f"holds as much as BASE{what} {moment},"
        )
        return f"NEW {same} {format_bytes(new.bytes)}{_nothing_else(sites)}."
    more = ("higher", "lower") if peaks else ("more", "less")
    amount = f"{format_bytes(abs(change))} {more[change < 0]}{what}"
    percent = change_in_words(change, base.bytes, signed=True)
    where = f"{percent and f' ({percent})'}{'' if peaks else f' {moment}'}"
    return f"NEW {'peaks' if peaks else 'holds'} {amount}{where}{_from_where(change, sites)}."


def _nothing_else(sites: Sequence[Change]) -> str:
    changed = [site for site in sites if site.change]
    if not changed:
        return ", and no call site holds more or less"
    up = sum(site.change for site in changed if site.change > 0)
    return (
        f", though call sites changed: some hold {format_bytes(up)} more, others as much less, most"
        f" of all {site_text(changed[0])}, {format_signed_bytes(changed[0].change)}"
    )


def _from_where(change: int, sites: Sequence[Change]) -> str:
    """Name the largest changes in the direction of the total, and a large one against it."""
    sign = 1 if change > 0 else -1
    along = [site for site in sites if site.change * sign > 0]
    against = [site for site in sites if site.change * sign < 0]
    first = along[0]
    text = f"{site_text(first)}, {format_signed_bytes(first.change)}"
    if abs(first.change) >= _MOSTLY * abs(change):
        found = f", mostly from {text}"
    elif len(along) > 1:
        second = along[1]
        found = (
            f", spread over {format_count(len(along))} call sites, the largest {text}, then"
            f" {site_text(second)}, {format_signed_bytes(second.change)}"
        )
    else:
        found = f", from {text}"
    if against and abs(against[0].change) >= _WORTH_NAMING * abs(change):
        most = against[0]
        found += f"; in the other direction {site_text(most)}, {format_signed_bytes(most.change)}"
    return found


def site_text(site: Change) -> str:
    """Return ``attention.py:40 attend``, as in NEW, or the name alone if there is no place."""
    place = site.new_place or site.base_place
    if site.kind == "no stack":
        return f"memory without a call stack ({site.name})"
    if place is None:
        return site.name
    name = place.filename.replace("\\", "/").rpartition("/")[2]
    if name in ("", "??", "none"):
        return site.name
    return f"{name} {site.name}" if place.line is None else f"{name}:{place.line} {site.name}"


def write_notes(base: DiffSide, new: DiffSide, curve: str) -> tuple[str, ...]:
    """Say what limits the comparison: no history, size ranges, different devices, failures."""
    notes = [
        f"{name} is a forecast for {card_title(side.forecast)}: nothing was computed, and no card"
        " was used."
        for name, side in (("BASE", base), ("NEW", new))
        if side.forecast is not None
    ]
    accuracy = find_accuracy(base, new)
    if accuracy is not None:
        notes.append(accuracy.text)
    forecasts = [side.forecast for side in (base, new) if side.forecast is not None]
    notes += filter(None, map(assumed_text, forecasts))
    if base.device != new.device:
        notes.append(f"BASE is {base.device}, and NEW {new.device}.")
    for name, side in (("BASE", base), ("NEW", new)):
        findings = side.figures
        if not findings.recorded:
            notes.append(
                f"{name} recorded no history: its figures are the state when the snapshot was"
                " written, and an earlier peak is not known."
            )
        width = side.amounts.allocated_width
        if width and curve in ("allocated", "active"):
            notes.append(
                f"{name}'s {curve} bytes may be up to {format_bytes(width)} more: the sizes of some"
                " blocks from before the recording are only known as ranges."
            )
        ran = "ran" if side.forecast is None else "would run"
        notes += [
            f"{name} {ran} out of memory at event {format_count(oom.event)}, when it asked for"
            f" {format_bytes(oom.size)}."
            for oom in findings.ooms[-1:]
        ]
    return tuple(notes)
