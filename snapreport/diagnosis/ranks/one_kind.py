"""Conclusions about one set of comparable devices: groups, odd ranks, imbalances, copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.groups import FLOOR, Grouped, find_groups
from snapreport.diagnosis.ranks.holders import HolderTable, because
from snapreport.diagnosis.ranks.odd_ranks import (
    WHOLE,
    Curves,
    Growth,
    Unlike,
    above,
    all_growing,
    failed_text,
    find_growth,
    find_unlike,
    grows,
    unlike_peak,
)
from snapreport.diagnosis.ranks.rows import (
    COPIES,
    Compared,
    Row,
    Unit,
    dimension_name,
    sentence,
    varying,
)
from snapreport.ground.native.columns import whole_median
from snapreport.ground.units import bytes_and_share, change_in_words, format_bytes, format_count
from snapreport.model.run import Difference, Group, Imbalance, Odd, Replicated, one_shift

_EXPLAINED = 0.5
"""A peak is unlike because of growth if that explains at least this part of the difference."""


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
        self._drawn: dict[int, Curves] = {}

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

    def everyone_gains(self) -> int | None:
        """Return the median bytes that a rank gains per step, if nearly all gain some."""
        if not all_growing(self.grown, self.table.allocated):
            return None
        return whole_median([grown.each for grown in self.grown if grown is not None])

    def _off(self, place: int, member: int) -> Odd:
        row, group = self.rows[member], self.grouped[place]
        total, differences = self._beside(place, member)
        event = self._curves(place).since_event(member, total)
        step = self._curves(place).since_step(member, total)
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
            event = self._curves(place).since_event(member, total)
            step = self._curves(place).since_step(member, total)
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
            step = self._curves(place).since_step(member, 4 * (grown.each - middle), growing=True)
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

    def _curves(self, place: int) -> Curves:
        if place not in self._drawn:
            devices = [row.device for row in self.rows]
            self._drawn[place] = Curves(devices, self.unlike[place].core, self._shift)
        return self._drawn[place]

    @cached_property
    def _shift(self) -> int:
        return one_shift(row.device.by_event for row in self.rows)

    @cached_property
    def _by_dump(self) -> list[dict[int, int]]:
        """The peak of each row's device in each of its dumps."""
        return [
            {
                each.rank.name.dump: each.allocated
                for each in self._dumps[row.unit]
                if each.rank.name.dump is not None
            }
            for row in self.rows
        ]

    def _left(self, place: int, member: int, grown: Growth) -> int | None:
        """Return the first dump in which a rank has gained more than its group since its first."""
        mine = self._by_dump[member]
        others = [self._by_dump[m] for m in self.unlike[place].core if m != member]
        least = max(FLOOR * self.rows[member].allocated / 3, grown.each / 2)
        first = min(mine)
        for dump in sorted(mine)[1:]:
            changes = [
                each[dump] - each[first] for each in others if dump in each and first in each
            ]
            if changes and mine[dump] - mine[first] - float(np.median(changes)) >= least:
                return dump
        return None

    def _first_to_leave(self, place: int) -> int | None:
        left = []
        for at, member in enumerate(self.grouped[place].members):
            grown = self.grown[member]
            if self.unlike[place].growing[at] and grown is not None:
                dump = self._left(place, member, grown)
                left += [] if dump is None else [(dump, member)]
        return min(left)[1] if len(left) > 1 else None


def group_text(
    name: str,
    count: int,
    peaks: Sequence[int],
    others: int | None,
    differences: Sequence[Difference],
) -> str:
    """Say where the ranks of a group peak, and how they differ from the others.

    Args:
        name: the group's.
        count: how many ranks it has.
        peaks: of those that are not odd, in bytes.
        others: the median peak of all other ranks; None if there are none.
        differences: from the other ranks.
    """
    whose = name.replace("all ", f"all {format_count(count)} ") if name.startswith(WHOLE) else name
    if count > 1 and whose == name and not name.startswith("rank") and not name[:1].isdigit():
        whose += f" ({format_count(count)} ranks)"
    middle = whole_median(peaks)
    if count == 2 and len(set(peaks)) == 2:
        least, most = map(format_bytes, sorted(peaks))
        whose = whose.replace("all 2 ", "both ")
        text = f"the peaks of {whose} are {least} and {most}"
        theirs, same = "and their mean is ", "and their mean is"
    else:
        peak = "the peak" if count == 1 else "the median peak"
        text = f"{peak} of {whose} is {format_bytes(middle)}"
        theirs, same = "", "and so is"
    if others is None:
        return sentence(text)
    total = middle - others
    if not total:
        return sentence(f"{text}, {same} that of the other ranks")
    return sentence(
        f"{text}, {theirs}{bytes_and_share(total, others)} {above(total)} that of the other ranks"
        f"{because(differences, total)}"
    )


_COPIED = ("parameter", "optimizer state", "gradient")
_EQUAL = 0.001
"""Copies may differ by this part: they include the allocator's unsplit blocks."""
_WORTH = 0.01
"""Savings below this part of the peak are not mentioned."""
_NEARLY_ALL = 0.9


def find_imbalances(
    rows: Sequence[Row],
    allocated: NDArray[np.int64],
    groups: Sequence[Grouped],
    cores: Sequence[Sequence[int]],
) -> list[Imbalance]:
    """Return the imbalance along each dimension and within each group, without odd ranks.

    Along a dimension, the smaller figure is the median peak of the ranks at the lowest place; the
    larger one adds the difference between the two places, all else being equal.

    Args:
        rows: all compared rows.
        allocated: int64, shape (n,): their peaks.
        groups: of the rows.
        cores: of each group, the rows that are not odd.
    """
    judged = sorted(member for core in cores for member in core)
    some, peaks = [rows[member] for member in judged], allocated[judged]
    found = []
    for dimension in varying(some):
        effects = _effects(dimension, some, peaks)
        if len(effects) > 1:
            low = min(effects, key=lambda place: (effects[place], place))
            high = min(effects, key=lambda place: (-effects[place], place))
            there = [k for k, row in enumerate(some) if row.coordinates[dimension] == low]
            least = whole_median(peaks[there])
            most = least + effects[high] - effects[low]
            name = dimension_name(dimension)
            text = along_text(dimension, f"{name} {low}", f"{name} {high}", least, most)
            found.append(Imbalance(dimension, least, most, text))
    for group, core in zip(groups, cores, strict=True):
        if len(core) > 1:
            own = allocated[list(core)]
            least, most = int(own.min()), int(own.max())
            text = within_text(group.name, least, most, len(core) < len(group.members))
            found.append(Imbalance(group.name, least, most, text))
    return found


def _effects(dimension: str, rows: Sequence[Row], peaks: NDArray[np.int64]) -> dict[int, int]:
    """Return how far each place along a dimension is from ranks that share all other places.

    The plain median of a place's ranks would also depend on the stages that they belong to.
    """
    off: dict[int, list[int]] = defaultdict(list)
    for members in _beside(dimension, rows):
        middle = whole_median(peaks[members])
        for k in members:
            off[rows[k].coordinates[dimension]].append(int(peaks[k]) - middle)
    return {at: whole_median(each) for at, each in off.items()}


def _beside(dimension: str, rows: Sequence[Row]) -> list[list[int]]:
    """Return sets of two or more ranks that differ only in their place along a dimension."""
    sets: dict[tuple[tuple[str, int], ...], list[int]] = defaultdict(list)
    for k, row in enumerate(rows):
        sets[tuple(sorted((d, p) for d, p in row.coordinates.items() if d != dimension))].append(k)
    return [members for members in sets.values() if len(members) > 1]


def find_copies(rows: Sequence[Row], table: HolderTable) -> list[Replicated]:
    """Return the roles of which all ranks along a data-parallel dimension hold the same amount.

    Equal sizes do not prove equal contents, so the text only says what copies would cost.
    """
    found = []
    for dimension in varying(rows):
        if dimension not in COPIES:
            continue
        full = _beside(dimension, rows)
        copies = len({row.coordinates[dimension] for row in rows})
        for role in _COPIED:
            held = table.role(role)
            alike = [
                members
                for members in full
                if held[members].max() > 0
                and held[members].min() >= (1 - _EQUAL) * held[members].max()
            ]
            if not full or len(alike) < _NEARLY_ALL * len(full):
                continue
            each = whole_median(held[[member for members in alike for member in members]])
            saved = each - -(-each // copies)
            if saved >= _WORTH * whole_median(table.allocated):
                text = copies_text(dimension, copies, role, each, saved)
                found.append(Replicated(dimension, copies, role, each, saved, text))
    return found


def within_text(name: str, least: int, most: int, without_odd: bool) -> str:
    """Say how far apart the peaks of a group are, without odd ranks."""
    whose = f"{name}, the odd ones left out," if without_odd else name
    if least == most:
        return sentence(f"the peaks of {whose} are equal to the byte, {format_bytes(most)}")
    return sentence(
        f"the peaks of {whose} are between {format_bytes(least)} and {format_bytes(most)},"
        f" {bytes_and_share(most - least, least)} apart"
    )


def along_text(dimension: str, lowest: str, highest: str, least: int, most: int) -> str:
    """Say how much the peaks differ along a dimension of the layout, all else being equal."""
    if least == most:
        return sentence(f"along {dimension} the peaks are equal at the median")
    amount, times = bytes_and_share(most - least, least), ""
    if least and not change_in_words(most - least, least):
        times = f" ({most / least:,.0f} times as high)"
    return sentence(
        f"along {dimension} the peaks are {amount} higher on {highest} than on {lowest}{times}, at"
        " the median"
    )


def copies_text(dimension: str, copies: int, role: str, held: int, saved: int) -> str:
    """Say what ranks along a dimension hold in equal amounts, which may be copies."""
    return sentence(
        f"each of the {format_count(copies)} ranks along {dimension} holds the same amount of"
        f" {role}, {format_bytes(held)}; if these are copies, sharding them over {dimension} would"
        f" save each rank {format_bytes(saved)}"
    )
