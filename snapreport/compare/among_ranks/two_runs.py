"""Compare two runs: each rank with itself, then group by group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapreport.compare.among_ranks.compared_rows import (
    Row,
    list_compared,
    list_rows,
    what_tells_apart,
)
from snapreport.compare.among_ranks.holder_table import HolderTable
from snapreport.compare.among_ranks.likeness import FLOOR, MEGABYTE
from snapreport.compare.among_ranks.rank_groups import find_groups
from snapreport.compare.among_ranks.run_diff_words import group_change, run_headline
from snapreport.compare.among_ranks.standing_out import stand_out
from snapreport.model.run.rank_facts import Run
from snapreport.model.run.run_diff import GroupChange, RankChange, RunDiff
from snapreport.native.sorting import whole_median


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
