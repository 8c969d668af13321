"""Conclusions about one set of comparable devices: one kind, all with or all without a history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.groups import Grouped, find_groups
from snapreport.diagnosis.ranks.likeness import (
    COPIES,
    FLOOR,
    Curves,
    HolderTable,
    dimension_name,
    varying,
)
from snapreport.diagnosis.ranks.odd_ranks import (
    Growth,
    Unlike,
    all_growing,
    find_growth,
    find_unlike,
    leaves_at,
)
from snapreport.diagnosis.ranks.odd_words import (
    along_text,
    copies_text,
    failed_text,
    group_text,
    grows,
    unlike_peak,
    within_text,
)
from snapreport.diagnosis.ranks.rows import Compared, Row, Unit
from snapreport.ground.native.columns import whole_median
from snapreport.model.run import Difference, Group, Imbalance, Odd, Replicated

# Find how much peaks differ within each group, and along each dimension of the layout.


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
    coordinates = [rows[member].coordinates for member in judged]
    found = []
    for dimension in varying(coordinates):
        effects = _effects(dimension, judged, coordinates, allocated)
        if len(effects) > 1:
            low = min(effects, key=lambda place: (effects[place], place))
            high = min(effects, key=lambda place: (-effects[place], place))
            there = [k for k, place in enumerate(coordinates) if place[dimension] == low]
            least = whole_median(allocated[[judged[k] for k in there]])
            most = least + effects[high] - effects[low]
            name = dimension_name(dimension)
            text = along_text(dimension, f"{name} {low}", f"{name} {high}", least, most)
            found.append(Imbalance(dimension, least, most, text))
    for group, core in zip(groups, cores, strict=True):
        if len(core) > 1:
            peaks = allocated[list(core)]
            least, most = int(peaks.min()), int(peaks.max())
            text = within_text(group.name, least, most, len(core) < len(group.members))
            found.append(Imbalance(group.name, least, most, text))
    return found


def _effects(
    dimension: str,
    judged: Sequence[int],
    coordinates: Sequence[Mapping[str, int]],
    allocated: NDArray[np.int64],
) -> dict[int, int]:
    """Return how far each place along a dimension is from ranks that share all other places.

    The plain median of a place's ranks would also depend on the stages that they belong to.
    """
    off: dict[int, list[int]] = {}
    for some in _beside(dimension, coordinates):
        peaks = allocated[[judged[k] for k in some]].tolist()
        middle = whole_median(peaks)
        for k, peak in zip(some, peaks, strict=True):
            off.setdefault(coordinates[k][dimension], []).append(peak - middle)
    return {at: whole_median(each) for at, each in off.items()}


def _beside(dimension: str, coordinates: Sequence[Mapping[str, int]]) -> list[list[int]]:
    """Return sets of two or more ranks that differ only in their place along a dimension."""
    sets: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for k, place in enumerate(coordinates):
        others = tuple(sorted((d, p) for d, p in place.items() if d != dimension))
        sets.setdefault(others, []).append(k)
    return [members for members in sets.values() if len(members) > 1]


def find_copies(rows: Sequence[Row], table: HolderTable) -> list[Replicated]:
    """Return the roles of which all ranks along a data-parallel dimension hold the same amount.

    Equal sizes do not prove equal contents, so the text only says what copies would cost.
    """
    coordinates = [row.coordinates for row in rows]
    found = []
    for dimension in varying(coordinates):
        if dimension not in COPIES:
            continue
        full = _beside(dimension, coordinates)
        copies = len({place[dimension] for place in coordinates})
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
