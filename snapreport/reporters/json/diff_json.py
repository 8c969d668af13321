"""The comparison of two recordings as plain objects: flat rows that a table can take."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from snapreport.compare.diff_types import Change, Diff, DiffSide
from snapreport.ground.version import __version__
from snapreport.reporters.json.json_parts import fields_of


def diff_as_json(diff: Diff) -> dict[str, Any]:
    """Return every figure of a comparison, in bytes, events and microseconds.

    Each row of ``changes``, ``sites``, ``parts`` and ``categories`` has the same scalar fields,
    and their ``change`` adds up to that of the comparison.
    """
    return {
        "snapreport": __version__,
        **fields_of(diff, "conclusion curve moment"),
        "base": _side(diff.base),
        "new": _side(diff.new),
        "change": diff.change,
        "notes": list(diff.notes),
        "figures": [{**asdict(figure), "change": figure.change} for figure in diff.figures],
        "by": diff.by,
        "changes": [_change(change) for change in diff.groups],
        "sites": [_change(change) for change in diff.sites],
        "parts": [_change(change) for change in diff.parts],
        "categories": [_change(change) for change in diff.categories],
        "stages": [{**asdict(stage), "change": stage.change} for stage in diff.stages],
        "settings": [{"name": name, "base": base, "new": new} for name, base, new in diff.settings],
    }


def _side(side: DiffSide) -> dict[str, Any]:
    figures = side.figures
    return {
        "file": side.source.name,
        "sha256": side.source.sha256,
        "device": side.device,
        "recorded": figures.recorded,
        "events": figures.history.events,
        **fields_of(side, "event time_us bytes count"),
        "amounts": asdict(side.amounts),
        "peaks": {name: asdict(peak) for name, peak in figures.peaks.items()},
    }


def _change(change: Change) -> dict[str, Any]:
    base, new = change.base_place, change.new_place
    return {
        **fields_of(change, "name kind match"),
        "base_file": None if base is None else base.filename,
        "base_line": None if base is None else base.line,
        "new_file": None if new is None else new.filename,
        "new_line": None if new is None else new.line,
        **fields_of(change, "base_bytes new_bytes change base_count new_count"),
    }
