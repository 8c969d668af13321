"""Conclude everything about a run: groups, odd ranks with their causes, what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from snapreport.compare.among_ranks.compared_rows import (
    Row,
    list_compared,
    list_rows,
    row_places,
    what_tells_apart,
)
from snapreport.compare.among_ranks.headline import write_headline
from snapreport.compare.among_ranks.one_kind import OneKind
from snapreport.compare.among_ranks.run_notes import missing_ranks, write_notes
from snapreport.model.run.rank_facts import Run
from snapreport.model.run.run_findings import Group, Odd, RunFindings

_ORDER = {"heavier": 0, "growth": 1, "failed": 2, "lighter": 3}


def find_run(run: Run) -> RunFindings:
    """Compare the ranks of a run with one another.

    Devices of different kinds are never compared, nor a rank with a history with one that only has
    the final state. Equal runs give equal findings.
    """
    rows = list_rows(run)
    first = _first_failure(rows)
    sets = list_compared(rows)
    words = what_tells_apart(sets)
    kinds = [OneKind(each, first, of) for each, of in zip(sets, words, strict=True)]
    groups: list[Group] = []
    odd: list[Odd] = []
    growth: list[int | None] = [None] * len(rows)
    for kind in kinds:
        odd += [replace(each, group=(each.group or 0) + len(groups)) for each in kind.odd()]
        groups += kind.groups()
        for row, grown in zip(kind.rows, kind.grown, strict=True):
            growth[row.place] = None if grown is None else grown.each
    odd.sort(key=lambda each: (_ORDER[each.code], -abs(each.bytes), each.row))
    found = RunFindings(
        headline="",
        rows=row_places(run),
        groups=tuple(groups),
        odd=tuple(odd),
        imbalances=tuple(each for kind in kinds for each in kind.imbalances()),
        missing=missing_ranks(run),
        broken=tuple(place for place, rank in enumerate(run.ranks) if rank.error),
        first_failure=first,
        growth=tuple(growth),
        replicated=tuple(each for kind in kinds for each in kind.copies()),
        notes=write_notes(run, kinds),
    )
    gains = kinds[0].everyone_gains() if kinds else None
    leading = len(kinds[0].grouped) if kinds else 0
    return replace(found, headline=write_headline(run, found, rows, gains, leading))


def _first_failure(rows: Sequence[Row]) -> tuple[int, int] | None:
    """Return the earliest failed request: its row, and its position in ``failed``.

    Times are by the clocks of the ranks' hosts. If a request has no time, None, unless all failures
    are of one device.
    """
    failed = [
        (request.time_us, row.place, place)
        for row in rows
        for place, request in enumerate(row.device.failed)
    ]
    if len({rows[row].unit for _, row, _ in failed}) == 1:
        return failed[0][1:]
    timed = [each for each in failed if each[0] is not None]
    if len(timed) < len(failed) or not timed:
        return None
    return min(timed, key=lambda each: (each[0] or 0, each[1], each[2]))[1:]
