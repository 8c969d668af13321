"""Find ranks that changed alike between two runs: by the same amount and the same call site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapreport.compare.among_ranks.rank_words import some_of
from snapreport.ground.units import format_bytes
from snapreport.model.run.run_diff import RankChange
from snapreport.model.run.run_findings import Difference

_ALIKE = 0.01
"""Changes that differ by no more than this part of the larger are alike."""
_NAMED = 6


@dataclass(frozen=True)
class ChangedAlike:
    """Ranks that changed alike."""

    ranks: tuple[int, ...]
    """Positions in ``RunDiff.ranks``."""
    largest: int
    """The one of them that changed most."""
    sentence: str


def changed_alike(changes: Sequence[RankChange]) -> list[ChangedAlike]:
    """Group ranks whose peaks changed alike; those with the largest change first."""
    by_cause: dict[tuple[str, bool], list[int]] = {}
    for row, each in enumerate(changes):
        if each.change:
            cause = _cause(each)
            key = "" if cause is None else cause.key
            by_cause.setdefault((key, each.change > 0), []).append(row)
    found = []
    for members in by_cause.values():
        members.sort(key=lambda row: abs(changes[row].change))
        group: list[int] = []
        for row in members:
            if group and abs(changes[row].change) * (1 - _ALIKE) > abs(changes[group[0]].change):
                found.append(_alike(changes, group))
                group = []
            group.append(row)
        found.append(_alike(changes, group))
    found.sort(key=lambda each: (-abs(changes[each.largest].change), each.ranks))
    return found


def _cause(change: RankChange) -> Difference | None:
    """Return the call site that changed most along with the peak."""
    along = [
        each
        for each in change.differences
        if each.kind == "site" and each.key and (each.bytes > each.usual) == (change.change > 0)
    ]
    return max(along, key=lambda each: abs(each.bytes - each.usual), default=None)


def _alike(changes: Sequence[RankChange], rows: Sequence[int]) -> ChangedAlike:
    ordered = tuple(sorted(rows))
    largest = max(ordered, key=lambda row: abs(changes[row].change))
    change = changes[largest].change
    who = some_of([changes[row].name for row in ordered], _NAMED, _NAMED)
    verb = "peaks" if len(ordered) == 1 else "peak"
    equal = len(ordered) > 1 and len({changes[row].change for row in ordered}) == 1
    by = f"{'' if equal or len(ordered) == 1 else 'up to '}{format_bytes(abs(change))}"
    way = "higher" if change > 0 else "lower"
    text = f"{who[:1].upper()}{who[1:]} {verb} {by} {way}{' each' if equal else ''}"
    if cause := _cause(changes[largest]):
        more = cause.bytes - cause.usual
        text += (
            f" because `{cause.key}` holds {format_bytes(abs(more))}"
            f" {'more' if more > 0 else 'less'} ({format_bytes(cause.usual)} before,"
            f" {format_bytes(cause.bytes)} now)"
        )
    return ChangedAlike(ordered, largest, text + ".")
