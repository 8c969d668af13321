"""``run``: which ranks differ from the others and why, and the figures of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snapreport.api.runs.run_making import LoadedRun
from snapreport.commands.mcp_server.reply import Field, Part, Reply, listed, size, table_of
from snapreport.ground.errors import SnapreportError
from snapreport.ground.units import format_bytes
from snapreport.model.run import Difference, Group, HolderKind, Odd, Run
from snapreport.reporters.run import (
    ODD_WORDS,
    RunRow,
    balance,
    broken_files,
    difference_name,
    extent,
    missing_text,
    odd_first,
    parting_text,
    rows_of,
)

_DIFFERENCES, _LONGEST_NUMBER = 5, 12
_HOLDERS: tuple[tuple[HolderKind, str], ...] = (
    ("site", "Held at its allocated peak, by call site"),
    ("role", "Held at its allocated peak, by role (what it is for)"),
    ("stage", "Stages, the most allocated while open"),
)
_FAILED: tuple[Field, ...] = (
    ("event", "event", "event"),
    ("time_us", "any", "time_us"),
    ("asked for", "bytes", "size"),
    ("call site", "text", "site"),
)
_RANK: tuple[Field, ...] = (
    ("rank", "text", "name"),
    ("peak allocated", "bytes", lambda row: row.device.allocated),
    ("vs. median", "text", "versus"),
    (
        "at event",
        "event",
        lambda row: row.device.peak_event if row.device.recorded else None,
    ),
    ("peak reserved", "bytes", lambda row: row.device.reserved),
    ("growth in a step", "bytes", "growth"),
    ("failed requests", "count", lambda row: len(row.device.failed)),
    ("group", "text", lambda row: row.group_name or None),
)
_HELD: tuple[Field, ...] = (
    ("name", "text", lambda each: each.key or "the rest"),
    ("held", "bytes", "bytes"),
    ("count", "count", "count"),
)
_STEP: tuple[Field, ...] = (
    ("step", "count", "number"),
    ("peak", "bytes", "allocated"),
    ("left at its end", "bytes", "left"),
)
_FINDING: tuple[Field, ...] = (
    ("severity", "text", "severity"),
    ("code", "text", "code"),
    ("finding", "text", "title"),
)


def run_reply(
    shown: str,
    loaded: LoadedRun,
    skipped: Sequence[Mapping[str, str]],
    arguments: Mapping[str, Any],
) -> Reply:
    """Return the findings about a run, or with ``rank`` the figures of one rank.

    Args:
        shown: the name of the run's folder or zip in answers.
        loaded: the run.
        skipped: files that were left out, and why.
        arguments: the tool's arguments.

    Raises:
        SnapreportError: there is no such rank, or it has no figures.
    """
    if "rank" in arguments:
        return _rank_reply(shown, loaded, arguments["rank"])
    run, findings = loaded.run, loaded.findings
    rows = rows_of(run, findings)
    head: dict[str, Any] = {
        "answer": findings.headline,
        "extent": ", ".join(extent(run, findings)),
        "missing": missing_text(findings),
        "first_failure": _first_failure(loaded, rows),
        "notes": balance(findings),
        "next": ["run with rank: one rank's peak, holders, steps and failed requests"],
    }
    parts = (
        listed("odd", [_odd(loaded, each, rows) for each in findings.odd]),
        listed("broken", broken_files(run, findings)),
        listed("groups", [_group(each) for each in findings.groups]),
        listed("skipped", skipped),
        _ranks([rows[place] for place in odd_first(findings)]),
    )
    return Reply(_about(shown, run), head, parts)


def _about(shown: str, run: Run) -> dict[str, Any]:
    return {"file": shown, **({"forecast": run.forecast} if run.forecast else {})}


def _first_failure(loaded: LoadedRun, rows: Sequence[RunRow]) -> dict[str, Any] | None:
    if loaded.findings.first_failure is None:
        return None
    row, place = loaded.findings.first_failure
    failed = rows[row].device.failed[place]
    return {
        "rank": rows[row].name,
        "event": failed.event,
        "time_us": failed.time_us,
        "asked_for": size(failed.size),
        "site": failed.site or None,
    }


def _odd(loaded: LoadedRun, odd: Odd, rows: Sequence[RunRow]) -> dict[str, Any]:
    group = None if odd.group is None else loaded.findings.groups[odd.group].name
    return {
        "rank": rows[odd.row].name,
        "kind": ODD_WORDS[odd.code],
        "differs_by": size(odd.bytes or None),
        "text": odd.sentence,
        "from": parting_text(odd) or None,
        "compared_with": group,
        **_differences(odd.differences),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "ranks": len(group.rows),
        "median_peak": size(group.allocated),
        "text": group.sentence if group.differences else None,
        **_differences(group.differences),
    }


def _differences(found: Sequence[Difference]) -> dict[str, Any]:
    return {
        "differences": [_difference(each) for each in found[:_DIFFERENCES]] or None,
        "more_differences": max(0, len(found) - _DIFFERENCES) or None,
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "name": difference_name(difference),
        "held": size(difference.bytes),
        "usually": size(difference.usual),
    }


def _ranks(rows: Sequence[RunRow]) -> Part:
    return table_of("Ranks: never add them up", rows, _RANK)


def _rank_reply(shown: str, loaded: LoadedRun, wanted: int | str) -> Reply:
    named = rows_of(loaded.run, loaded.findings)
    odd = {each.row: each for each in loaded.findings.odd}
    rows = _rows_of(loaded, wanted, [each.name for each in named])
    row = next((each for each in rows if each in odd), rows[-1])
    found = named[row]
    rank, device, compared = found.rank, found.device, found.versus
    state = "peak" if device.recorded else "final_state"
    head: dict[str, Any] = {
        "answer": f"{found.name} held {format_bytes(device.allocated)}"
        f" {'at its peak' if device.recorded else 'when its snapshot was written'},"
        f" {f'{compared} compared with' if compared else 'about as much as'} the median of all.",
        state: size(
            device.allocated,
            event=device.peak_event if device.recorded else None,
            time_us=device.peak_time_us if device.recorded else None,
            may_be_more=size(device.allocated_width or None),
        ),
        "reserved": size(device.reserved),
        "growth_in_a_step": size(found.growth),
        "card_has": size(device.capacity),
        "unlike_others": _odd(loaded, odd[row], named) if row in odd else None,
        "group": found.group_name or None,
        "device": device.device,
        "recording": rank.source,
        "host": rank.name.host,
        "coordinates": dict(rank.name.coordinates),
        "warnings": list(rank.warnings),
    }
    parts = (
        _ranks([named[each] for each in rows] if len(rows) > 1 else []),
        table_of("Failed requests", device.failed, _FAILED),
        *(
            table_of(title, [each for each in device.holders if each.kind == kind], _HELD)
            for kind, title in _HOLDERS
        ),
        table_of("Steps", device.steps, _STEP),
        table_of("Findings; the tool findings has them in full", device.findings, _FINDING),
    )
    return Reply({**_about(shown, loaded.run), "rank": found.name}, head, parts)


def _rows_of(loaded: LoadedRun, wanted: int | str, names: Sequence[str]) -> list[int]:
    """Return a rank's rows, one for each device and dump, unless ``wanted`` names one of them.

    Raises:
        SnapreportError: there is no such rank, or it has no figures.
    """
    ranks = loaded.run.ranks
    if isinstance(wanted, str) and not (wanted.isdecimal() and len(wanted) < _LONGEST_NUMBER):
        rows = [row for row, name in enumerate(names) if name == wanted]
        known = [k for k, each in enumerate(ranks) if wanted in (each.label, each.source)]
    else:
        rows, number = [], int(wanted)
        known = [k for k, each in enumerate(ranks) if each.name.rank == number]
    rows = rows or [row for row, (at, _) in enumerate(loaded.findings.rows) if at in set(known)]
    if rows:
        return rows
    if known:
        rank = ranks[known[0]]
        raise SnapreportError(f"{rank.label} has no figures: {rank.error or 'nothing was used.'}")
    raise SnapreportError("There is no file of that rank; run without rank lists all ranks.")
