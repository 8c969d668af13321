"""Say what a comparison of two recordings shows, in one sentence, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.compare.diff_types import Change, DiffSide
from snapreport.ground.units import (
    change_in_words,
    format_bytes,
    format_count,
    format_signed_bytes,
)

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
    amount = f"{format_bytes(abs(change))} {_more(change, peaks)}{what}"
    where = "" if peaks else f" {moment}"
    return (
        f"NEW {'peaks' if peaks else 'holds'} {amount}{_percent(change, base.bytes)}{where}"
        f"{_from_where(change, sites)}."
    )


def _more(change: int, peaks: bool) -> str:
    if peaks:
        return "higher" if change > 0 else "lower"
    return "more" if change > 0 else "less"


def _percent(change: int, base: int) -> str:
    percent = change_in_words(change, base, signed=True)
    return f" ({percent})" if percent else ""


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
    notes = []
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
        notes += [
            f"{name} ran out of memory at event {format_count(oom.event)}, when it asked for"
            f" {format_bytes(oom.size)}."
            for oom in findings.ooms[-1:]
        ]
    return tuple(notes)
