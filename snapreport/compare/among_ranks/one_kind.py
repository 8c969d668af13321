"""Conclusions about one set of comparable devices: one kind, all with or all without a history."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from snapreport.compare.among_ranks.compared_rows import Compared, Row, Unit
from snapreport.compare.among_ranks.holder_table import HolderTable
from snapreport.compare.among_ranks.imbalances import find_copies, find_imbalances
from snapreport.compare.among_ranks.likeness import FLOOR
from snapreport.compare.among_ranks.odd_ranks import Unlike, find_unlike
from snapreport.compare.among_ranks.odd_words import failed_text, group_text, grows, unlike_peak
from snapreport.compare.among_ranks.parting import Curves
from snapreport.compare.among_ranks.rank_groups import Grouped, find_groups
from snapreport.compare.among_ranks.rank_growth import (
    Growth,
    all_growing,
    find_growth,
    leaves_at,
)
from snapreport.model.run.run_findings import Difference, Group, Imbalance, Odd, Replicated
from snapreport.native.sorting import whole_median

_EXPLAINED = 0.5


class OneKind:
    """The devices, their groups, and which are odd.

    Args:
        compared: the devices, in their latest and earlier dumps.
        first_failure: the run's earliest failed request: its row, and its position in ``failed``.
        of: how the set differs from the run's other sets; ``""`` if there are none.
    """

    def __init__(
        self, compared: Compared, first_failure: tuple[int, int] | None, of: str = ""
    ) -> None:
        self.compared = compared
        self.rows = compared.rows
        self._first_failure = first_failure
        self._dumps: dict[Unit, list[Row]] = defaultdict(list)
        for row in sorted([*compared.rows, *compared.earlier], key=lambda each: each.place):
            self._dumps[row.unit].append(row)
        self.table = HolderTable([row.device for row in self.rows])
        self.grown: list[Growth | None] = [
            find_growth(row, self._dumps[row.unit]) for row in self.rows
        ]
        self.grouped: list[Grouped] = find_groups(self.rows, self.table, of)
        self.unlike: list[Unlike] = [
            find_unlike(group, self.rows, self.table, self.grown) for group in self.grouped
        ]

    def groups(self) -> list[Group]:
        """Return the groups, each with its differences from all other ranks."""
        found = []
        for group, unlike in zip(self.grouped, self.unlike, strict=True):
            others = [m for each in self.unlike if each is not unlike for m in each.core]
            differences: tuple[Difference, ...] = ()
            peaks = self.table.allocated[list(unlike.core)]
            allocated = whole_median(peaks)
            usual = None
            if others:
                differences = self.table.beside(unlike.core, others)
                usual = whole_median(self.table.allocated[others])
            places = sorted(
                row.place for m in group.members for row in self._dumps[self.rows[m].unit]
            )
            text = group_text(group.name, len(group.members), peaks.tolist(), usual, differences)
            found.append(Group(group.name, tuple(places), allocated, differences, text))
        return found

    def odd(self) -> list[Odd]:
        """Return the odd ranks; their ``group`` is a position in ``groups()``."""
        found = []
        for place, unlike in enumerate(self.unlike):
            for at, member in enumerate(self.grouped[place].members):
                if unlike.failed[at]:
                    found.append(self._failed(place, member))
                elif unlike.growing[at] and not (unlike.side[at] and self._more(place, member)):
                    found.append(self._grows(place, member))
                elif unlike.side[at]:
                    found.append(self._off(place, member))
        return found

    def imbalances(self) -> list[Imbalance]:
        """Return the imbalance along each dimension of the layout, and within each group."""
        cores = [unlike.core for unlike in self.unlike]
        return find_imbalances(self.rows, self.table.allocated, self.grouped, cores)

    def copies(self) -> list[Replicated]:
        """Return what all ranks along a data-parallel dimension hold in equal amounts."""
        return find_copies(self.rows, self.table)

    def everyone_gains(self) -> int | None:
        """Return the median bytes that a rank gains per step, if nearly all gain some."""
        if not all_growing(self.grown, self.table.allocated):
            return None
        return whole_median([grown.each for grown in self.grown if grown is not None])

    def _off(self, place: int, member: int) -> Odd:
        row, group = self.rows[member], self.grouped[place]
        total, differences = self._beside(place, member)
        event, step = self._curves[place].parts(member, total)
        text = unlike_peak(row, total, differences, group.name, event, step)
        code = "heavier" if total > 0 else "lighter"
        return Odd(row.place, code, total, differences, event, step, text, place)  # type: ignore[arg-type]

    def _failed(self, place: int, member: int) -> Odd:
        row, group = self.rows[member], self.grouped[place]
        total, differences = self._beside(place, member)
        usual = row.allocated - total
        telling = abs(total) >= FLOOR * usual
        event = step = None
        if telling and total > 0:
            event, step = self._curves[place].parts(member, total)
        first = self._first_failure
        failures = sum(bool(each.device.failed) for each in self.rows)
        leads = first is not None and first[0] == row.place and failures > 1
        request = row.device.failed[first[1] if leads and first else 0]
        text = failed_text(row, request, leads, total, differences, group.name, telling)
        return Odd(row.place, "failed", total, differences, event, step, text, place)

    def _grows(self, place: int, member: int) -> Odd:
        row, grown = self.rows[member], self.grown[member]
        assert grown is not None
        core = self.unlike[place].core
        usual = [other.each for m in core if (other := self.grown[m]) is not None]
        middle = whole_median(usual) if usual else 0
        _, differences = self._beside(place, member)
        event = step = None
        if grown.between_dumps:
            step = self._left(place, member, grown)
        else:
            step = self._curves[place].parts_step(member, 4 * (grown.each - middle), growing=True)
        first = step is not None and grown.between_dumps and self._first_to_leave(place) == member
        text = grows(row, grown, middle, differences, self.grouped[place].name, step, first)
        by = grown.each - middle
        return Odd(row.place, "growth", by, differences, event, step, text, place)

    def _beside(self, place: int, member: int) -> tuple[int, tuple[Difference, ...]]:
        core = [m for m in self.unlike[place].core if m != member] or [member]
        total = int(self.table.allocated[member]) - whole_median(self.table.allocated[core])
        return total, self.table.beside([member], core)

    def _more(self, place: int, member: int) -> bool:
        """Say whether a peak differs by far more than the rank's growth explains."""
        total, _ = self._beside(place, member)
        grown = self.grown[member]
        return grown is None or grown.total < _EXPLAINED * abs(total)

    @cached_property
    def _curves(self) -> list[Curves]:
        devices = [row.device for row in self.rows]
        return [Curves(devices, unlike.core) for unlike in self.unlike]

    def _left(self, place: int, member: int, grown: Growth) -> int | None:
        dumps = {
            row.unit: {
                each.rank.name.dump: each.allocated
                for each in self._dumps[row.unit]
                if each.rank.name.dump is not None
            }
            for row in self.rows
        }
        others = [self.rows[m].unit for m in self.unlike[place].core if m != member]
        least = max(FLOOR * self.rows[member].allocated / 3, grown.each / 2)
        return leaves_at(self.rows[member].unit, others, dumps, least)

    def _first_to_leave(self, place: int) -> int | None:
        left: list[tuple[int, int]] = []
        for at, member in enumerate(self.grouped[place].members):
            grown = self.grown[member]
            if self.unlike[place].growing[at] and grown is not None:
                dump = self._left(place, member, grown)
                if dump is not None:
                    left.append((dump, member))
        return min(left)[1] if len(left) > 1 else None
