"""``diff``: what grew and what shrank from one recording to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapreport.api.comparison import diff
from snapreport.compare.diff_types import Change, DiffSide, Place
from snapreport.mcp.answering.reply import Field, Reply, listed, size, table_of
from snapreport.mcp.opened.kept_recording import KeptRecording
from snapreport.reporters.words.plain_text import location


def diff_reply(base: KeptRecording, new: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return what changed between two recordings, each at its own moment.

    Raises:
        SnapreportError: they have no device or moment that can be compared.
    """
    found = diff(base.snapshot, new.snapshot, **arguments)
    head = {
        "answer": found.conclusion,
        "change": size(found.change),
        "curve": found.curve,
        "moment": found.moment,
        "base": _side(base, found.base),
        "new": _side(new, found.new),
        "notes": list(found.notes),
    }
    categories = found.categories if found.by == "site" else ()
    settings = [{"setting": name, "base": one, "new": other} for name, one, other in found.settings]
    parts = (
        table_of(f"Changes by {found.by}, largest first", found.groups, _CHANGE),
        table_of("By category", categories, _CHANGE),
        table_of("Figures of both", found.figures, _FIGURE),
        table_of("Stages", found.stages, _STAGE),
        listed("settings_that_differ", settings),
    )
    return Reply({}, head, parts)


def _side(recording: KeptRecording, side: DiffSide) -> dict[str, Any]:
    return {
        "file": recording.file.shown,
        "device": side.device,
        "event": side.event,
        **(size(side.bytes) or {}),
        "allocations": side.count,
    }


def _name(change: Change) -> str:
    base, new = _place(change.base_place), _place(change.new_place)
    if base and new and base != new:
        return f"{change.name}  {new} (in base {base})"
    return f"{change.name}  {new or base}".rstrip()


def _place(place: Place | None) -> str:
    return "" if place is None else location(place.filename, place.line)


_CHANGE: tuple[Field, ...] = (
    ("name", "text", _name),
    ("change", "bytes", "change"),
    ("base", "bytes", "base_bytes"),
    ("new", "bytes", "new_bytes"),
    ("base allocations", "count", "base_count"),
    ("new allocations", "count", "new_count"),
    ("match", "text", "match"),
)
_FIGURE: tuple[Field, ...] = (
    ("figure", "text", "name"),
    ("when", "text", "when"),
    ("change", "bytes", "change"),
    ("base", "bytes", "base"),
    ("new", "bytes", "new"),
)
_STAGE: tuple[Field, ...] = (
    ("stage", "text", "name"),
    ("match", "text", "match"),
    ("change of its peak", "bytes", "change"),
    ("base peak", "bytes", "base_peak"),
    ("new peak", "bytes", "new_peak"),
)
