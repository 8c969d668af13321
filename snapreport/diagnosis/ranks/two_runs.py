"""Compare two runs: each rank with itself, then group by group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapreport.diagnosis.ranks.groups import FLOOR, find_groups
from snapreport.diagnosis.ranks.holders import HolderTable, because
from snapreport.diagnosis.ranks.odd_ranks import MEGABYTE, stand_out
from snapreport.diagnosis.ranks.rows import (
    Row,
    list_compared,
    list_rows,
    sentence,
    some_of,
    what_tells_apart,
)
from snapreport.ground.native.columns import whole_median
from snapreport.ground.records import dataclass
from snapreport.ground.units import bytes_and_share, format_bytes, format_count
from snapreport.model.run import Difference, GroupChange, RankChange, Run, RunDiff

_MOST_NAMED = 3
_APART = 0.03
"""Groups whose changes differ by at most this part of the peak share a part of the headline."""


def compare_runs(base: Run, new: Run) -> RunDiff:
    """Compare a run with an earlier one, rank by rank, then by the groups of the new one.

    A device is compared with the device of the same name on the same rank, each at its latest dump,
    and only if both have a history, or neither has.

    Args:
        base: the earlier run.
        new: the later run.
    """
    sides = [list_compared(list_rows(run)) for run in (base, new)]
    before = {(row.unit, each.kind): row for each in sides[0] for row in each.rows}
    matched: set[tuple[object, str]] = set()
    ranks: list[RankChange] = []
    groups: list[GroupChange] = []
    unlike: list[str] = []
    for compared, of in zip(sides[1], what_tells_apart(sides[1]), strict=True):
        pairs = []
        for row in compared.rows:
            earlier = before.get((row.unit, compared.kind))
            if earlier is None:
                continue
            matched.add((row.unit, compared.kind))
            if earlier.device.recorded == row.device.recorded:
                pairs.append((earlier, row))
            else:
                unlike.append(row.words)
        if pairs:
            found = _Pairs(pairs, of)
            groups += found.groups(len(ranks))
            ranks += found.ranks()
    only_base = tuple(row.words for key, row in before.items() if key not in matched)
    only_new = tuple(
        row.words
        for compared in sides[1]
        for row in compared.rows
        if (row.unit, compared.kind) not in matched
    )
    notes = tuple(
        f"{name[:1].upper()}{name[1:]} recorded a history in only one of the runs, so it is not"
        " compared."
        for name in unlike
    )
    headline = run_headline(ranks, groups, only_base, only_new)
    return RunDiff(headline, tuple(ranks), tuple(groups), only_base, only_new, notes)


class _Pairs:
    """Devices of one kind that both runs have."""

    def __init__(self, pairs: Sequence[tuple[Row, Row]], of: str) -> None:
        self.pairs = pairs
        devices = [row.device for side in (0, 1) for row in (pair[side] for pair in pairs)]
        self.table = HolderTable(devices)
        rows = [row for _, row in pairs]
        self.grouped = find_groups(rows, HolderTable([row.device for row in rows]), of)
        count = len(pairs)
        self.base, self.new = self.table.allocated[:count], self.table.allocated[count:]
        self.odd = np.zeros(count, bool)
        for group in self.grouped:
            members = list(group.members)
            floor = np.maximum(FLOOR * self.base[members], MEGABYTE).astype(np.float64)
            change = (self.new - self.base)[members]
            self.odd[members] = stand_out(change, floor, np.ones(len(members), bool)) != 0

    def ranks(self) -> list[RankChange]:
        """Return the change of each rank."""
        count = len(self.pairs)
        return [
            RankChange(
                now.words,
                earlier.place,
                now.place,
                earlier.allocated,
                now.allocated,
                self.table.beside([count + place], [place]),
                bool(self.odd[place]),
            )
            for place, (earlier, now) in enumerate(self.pairs)
        ]

    def groups(self, first: int) -> list[GroupChange]:
        """Return the change of each group; its ranks are counted from ``first``."""
        count = len(self.pairs)
        found = []
        for group in self.grouped:
            members = [m for m in group.members if not self.odd[m]] or list(group.members)
            base, new = whole_median(self.base[members]), whole_median(self.new[members])
            differences = self.table.beside([count + m for m in members], members)
            text = group_change(group.name, len(group.members), base, new, differences)
            places = tuple(first + m for m in group.members)
            found.append(GroupChange(group.name, places, base, new, differences, text))
        return found


def group_change(
    name: str, count: int, base: int, new: int, differences: Sequence[Difference]
) -> str:
    """Say how the median peak of a group changed, and why.

    Args:
        name: the group's.
        count: how many ranks it has.
        base: the median before, in bytes.
        new: the median now, in bytes.
        differences: what is held now, compared with before.
    """
    whose = f"the median peak of {name}" if count > 1 else f"the peak of {name}"
    if base == new:
        return sentence(f"{whose} is as high as before, {format_bytes(new)}")
    way = "rose" if new > base else "fell"
    return sentence(
        f"{whose} {way} by {bytes_and_share(new - base, base)}, from {format_bytes(base)} to"
        f" {format_bytes(new)}{because(differences, new - base)}"
    )


def run_headline(
    ranks: Sequence[RankChange],
    groups: Sequence[GroupChange],
    only_base: Sequence[str],
    only_new: Sequence[str],
) -> str:
    """Say how NEW differs from BASE: at the median, by group, on odd ranks, and in its ranks."""
    if not ranks:
        return "BASE and NEW have no rank in common that could be compared."
    parts = []
    largest = max(groups, key=lambda group: len(group.ranks))
    apart = [
        group
        for group in groups
        if group is not largest
        and abs(group.change - largest.change) > _APART * max(group.base, largest.base)
    ]
    count = len(ranks) if not apart else len(largest.ranks)
    whom = _whom(largest.name if apart else "", count)
    if largest.change:
        way = "higher" if largest.change > 0 else "lower"
        cause = because(largest.differences, largest.change)
        amount = bytes_and_share(largest.change, largest.base)
        parts.append(f"NEW peaks {amount} {way}{whom}{cause}")
    else:
        parts.append(f"NEW peaks as high as BASE{whom}, {format_bytes(largest.new)}")
    alike = [group for group in groups if group not in apart]
    parts += _some_of_them(ranks, [(ranks[at], group) for group in alike for at in group.ranks])
    parts += [
        f"on {group.name} it peaks {_way(group.change, group.base)}"
        f"{because(group.differences, group.change)}"
        for group in sorted(apart, key=lambda group: -abs(group.change))[:_MOST_NAMED]
    ]
    odd = sorted((rank for rank in ranks if rank.odd), key=lambda rank: -abs(rank.change))
    parts += [
        f"{rank.name} peaks {_way(rank.change, rank.base)}{because(rank.differences, rank.change)}"
        for rank in odd[:_MOST_NAMED]
    ]
    if len(odd) > _MOST_NAMED:
        parts.append(f"{format_count(len(odd) - _MOST_NAMED)} more ranks are unlike their group")
    for names, side in ((only_base, "BASE"), (only_new, "NEW")):
        if names:
            parts.append(f"only {side} has {some_of(names, _MOST_NAMED + 1)}")
    return sentence("; ".join(parts))


def _some_of_them(
    ranks: Sequence[RankChange], members: Sequence[tuple[RankChange, GroupChange]]
) -> list[str]:
    """Name ranks that changed unlike their group's median, but are too many to be called odd."""
    some = [
        rank
        for rank, group in members
        if not rank.odd
        and abs(rank.change - group.change) > max(_APART * max(rank.base, rank.new), MEGABYTE)
    ]
    parts = []
    for higher in (True, False):
        these = [rank for rank in some if (rank.change > 0) == higher and rank.change]
        if these:
            most = max(these, key=lambda rank: abs(rank.change))
            way = _way(most.change, most.base)
            parts.append(
                f"{format_count(len(these))} of the {format_count(len(ranks))} ranks peak up to"
                f" {way}, most {most.name}{because(most.differences, most.change)}"
                if len(these) > 1
                else f"{most.name} peaks {way}{because(most.differences, most.change)}"
            )
    same = [rank for rank in some if not rank.change]
    if same:
        who = some_of([rank.name for rank in same], _MOST_NAMED + 1)
        parts.append(f"{who} peak{'s' * (len(same) == 1)} as high as before")
    return parts


def _whom(name: str, count: int) -> str:
    if name:
        return f" on {name}"
    return f" at the median of {format_count(count)} ranks" if count > 1 else ""


def _way(change: int, base: int) -> str:
    if not change:
        return "as high as before"
    return f"{bytes_and_share(change, base)} {'higher' if change > 0 else 'lower'}"


# Ranks that changed alike: by the same amount, at the same call site.


_SIMILAR = 0.01
"""Changes that differ by no more than this part of the larger are alike."""
_MOST_NAMED_ALIKE = 6


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
            cause = _main_site(each)
            key = "" if cause is None else cause.key
            by_cause.setdefault((key, each.change > 0), []).append(row)
    found = []
    for members in by_cause.values():
        members.sort(key=lambda row: abs(changes[row].change))
        group: list[int] = []
        for row in members:
            if group and abs(changes[row].change) * (1 - _SIMILAR) > abs(changes[group[0]].change):
                found.append(_alike(changes, group))
                group = []
            group.append(row)
        found.append(_alike(changes, group))
    found.sort(key=lambda each: (-abs(changes[each.largest].change), each.ranks))
    return found


def _main_site(change: RankChange) -> Difference | None:
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
    who = some_of([changes[row].name for row in ordered], _MOST_NAMED_ALIKE, _MOST_NAMED_ALIKE)
    verb = "peaks" if len(ordered) == 1 else "peak"
    equal = len(ordered) > 1 and len({changes[row].change for row in ordered}) == 1
    by = f"{'' if equal or len(ordered) == 1 else 'up to '}{format_bytes(abs(change))}"
    way = "higher" if change > 0 else "lower"
    text = f"{who[:1].upper()}{who[1:]} {verb} {by} {way}{' each' if equal else ''}"
    if cause := _main_site(changes[largest]):
        more = cause.bytes - cause.usual
        text += (
            f" because `{cause.key}` holds {format_bytes(abs(more))}"
            f" {'more' if more > 0 else 'less'} ({format_bytes(cause.usual)} before,"
            f" {format_bytes(cause.bytes)} now)"
        )
    return ChangedAlike(ordered, largest, text + ".")
