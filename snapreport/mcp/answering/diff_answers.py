"""``diff``: what one recording holds more or less of than another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapreport.api.comparison import diff
from snapreport.compare.diff_types import Change, Diff, DiffSide, Place
from snapreport.mcp.answering.reply import Part, Reply, listed, size, table
from snapreport.mcp.keeping.kept_recording import KeptRecording
from snapreport.reporters.words.plain_text import location


def diff_reply(base: KeptRecording, new: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return what changed between two recordings, at a moment of each.

    Raises:
        SnapreportError: they have no device or moment that can be compared.
    """
    found = diff(
        base.snapshot,
        new.snapshot,
        device=arguments.get("device"),
        new_device=arguments.get("new_device"),
        curve=arguments.get("curve", "allocated"),
        at=arguments.get("at", "peak"),
        stage=arguments.get("stage"),
        base_event=arguments.get("base_event"),
        new_event=arguments.get("new_event"),
        by=arguments.get("by", "site"),
    )
    head = {
        "answer": found.conclusion,
        "change": size(found.change),
        "curve": found.curve,
        "moment": found.moment,
        "base": _side(base, found.base),
        "new": _side(new, found.new),
        "notes": list(found.notes),
    }
    parts = [_changes(f"Changes by {found.by}, largest first", found.groups)]
    if found.by == "site":
        parts.append(_changes("By category", found.categories))
    parts += [_figures(found), *_stages(found), *_settings(found)]
    return Reply({}, head, tuple(parts))


def _side(recording: KeptRecording, side: DiffSide) -> dict[str, Any]:
    return {
        "file": recording.file.shown,
        "device": side.device,
        "event": side.event,
        **(size(side.bytes) or {}),
        "allocations": side.count,
    }


def _changes(title: str, changes: tuple[Change, ...]) -> Part:
    columns = (
        ("name", "text"), ("change", "bytes"), ("base", "bytes"), ("new", "bytes"),
        ("base allocations", "count"), ("new allocations", "count"), ("match", "text"),
    )  # fmt: skip
    rows = [
        (
            _name(each), each.change, each.base_bytes, each.new_bytes, each.base_count,
            each.new_count, each.match,
        )
        for each in changes
    ]  # fmt: skip
    return table(title, columns, rows)


def _name(change: Change) -> str:
    base, new = _place(change.base_place), _place(change.new_place)
    if base and new and base != new:
        return f"{change.name}  {new} (in base {base})"
    return f"{change.name}  {new or base}".rstrip()


def _place(place: Place | None) -> str:
    if place is None:
        return ""
    return location(place.filename, place.line)


def _figures(found: Diff) -> Part:
    columns = (
        ("figure", "text"), ("when", "text"), ("change", "bytes"), ("base", "bytes"),
        ("new", "bytes"),
    )  # fmt: skip
    rows = [(each.name, each.when, each.change, each.base, each.new) for each in found.figures]
    return table("Figures of both", columns, rows)


def _stages(found: Diff) -> list[Part]:
    columns = (
        ("stage", "text"), ("match", "text"), ("change of its peak", "bytes"),
        ("base peak", "bytes"), ("new peak", "bytes"),
    )  # fmt: skip
    rows = [
        (each.name, each.match, each.change, each.base_peak, each.new_peak) for each in found.stages
    ]
    return [table("Stages", columns, rows)] if rows else []


def _settings(found: Diff) -> list[Part]:
    items = [{"setting": name, "base": base, "new": new} for name, base, new in found.settings]
    return [listed("settings_that_differ", items)] if items else []
