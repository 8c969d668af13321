"""Which devices of a run are compared with which, and what its ranks are called.

A device of a file is a row. Rows are compared in sets: one kind of device, all with or all without
a history, each from the dump that most ranks have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain, combinations
from typing import TypeAlias

from snapreport.ground.records import dataclass
from snapreport.ground.units import format_count, list_of
from snapreport.model.run import DeviceFacts, RankFacts, Run

Unit: TypeAlias = tuple[str, str]
"""A device of a rank, across all dumps: the rank or file, and the device."""


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """One device of one file."""

    place: int
    """Its position in ``RunFindings.rows``."""
    rank: RankFacts
    device: DeviceFacts
    unit: Unit
    coordinates: dict[str, int]
    lone: bool
    """Whether its rank has no other device of the kind, so that naming the rank is enough."""

    @property
    def number(self) -> int | None:
        """The rank's number."""
        return self.rank.name.rank

    @property
    def allocated(self) -> int:
        """Allocated bytes at the peak."""
        return self.device.allocated

    @property
    def words(self) -> str:
        """What to call it: ``rank 17``, or the file's or the device's name where needed."""
        name = f"`{self.rank.label}`" if self.number is None else f"rank {self.number}"
        return name if self.lone else f"device {self.device.device} of {name}"


@dataclass(frozen=True, eq=False)
class Compared:
    """Devices that may be compared with one another, a row each, from the latest dump."""

    kind: str
    recorded: bool
    rows: tuple[Row, ...]
    earlier: tuple[Row, ...]
    """The same devices in other dumps."""


def list_rows(run: Run) -> tuple[Row, ...]:
    """Return every device of every file that has figures, in the order of the run."""
    found: list[Row] = []
    dumps = [rank.name.dump for rank in run.ranks if rank.name.rank is None]
    one_process = len(dumps) > 1 and None not in dumps and len(set(dumps)) == len(dumps)
    for rank in run.ranks:
        number = rank.name.rank
        unnumbered = "" if one_process else rank.source
        who = unnumbered if number is None else f"rank {number}"
        kinds = Counter(device.kind for device in rank.devices)
        coordinates = dict(rank.name.coordinates)
        for device in rank.devices:
            unit = (who, device.device)
            lone = kinds[device.kind] == 1
            found.append(Row(len(found), rank, device, unit, coordinates, lone))
    return tuple(found)


def list_compared(rows: Sequence[Row]) -> list[Compared]:
    """Split the rows into sets that can be compared: one kind, all with or all without a history.

    If ranks have different numbers of devices, the largest device of each is compared with the
    largest of the others, and so on: a rank that also touched a neighbour's card holds little
    there, and that is not the rank's peak. The set that the page opens with comes first.
    """
    latest = _latest(rows)
    slots = _slots(latest)
    sets: dict[tuple[str, int, bool], list[Row]] = defaultdict(list)
    for row in latest:
        sets[row.device.kind, slots[row.place], row.device.recorded].append(row)
    chosen = {row.place for row in latest}
    found = []
    for (kind, _, recorded), members in sets.items():
        units = {row.unit for row in members}
        earlier = [row for row in rows if row.place not in chosen and row.unit in units]
        found.append(Compared(kind, recorded, tuple(members), tuple(earlier)))
    last = {kind: place for place, kind in enumerate(("cpu", "host"))}
    return sorted(
        found,
        key=lambda each: (
            last.get(each.kind, -1),
            -len(each.rows),
            -sum(row.allocated for row in each.rows),
        ),
    )


def _latest(rows: Sequence[Row]) -> list[Row]:
    """Return a row per device: from the last dump that half of them have, else its own last."""
    units = {row.unit for row in rows}
    dumps = Counter(row.rank.name.dump for row in rows if row.rank.name.dump is not None)
    usual = max((dump for dump, count in dumps.items() if 2 * count >= len(units)), default=None)
    chosen: dict[Unit, Row] = {}
    for row in rows:
        before = chosen.get(row.unit)
        if before is None or before.rank.name.dump != usual or usual is None:
            chosen[row.unit] = row
    return sorted(chosen.values(), key=lambda row: row.place)


def _slots(rows: Sequence[Row]) -> dict[int, int]:
    """Number each row so that devices compared with one another have the same number."""
    ranks: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        ranks[row.unit[0], row.device.kind].append(row)
    devices: dict[str, set[frozenset[str]]] = defaultdict(set)
    for (_, kind), members in ranks.items():
        devices[kind].add(frozenset(row.device.device for row in members))
    slots = {}
    for (_, kind), members in ranks.items():
        alike = len(devices[kind]) == 1
        ordered = sorted(
            members, key=lambda row: row.device.device if alike else -row.device.allocated
        )
        one_rank = sum(1 for each in ranks if each[1] == kind) == 1
        for slot, row in enumerate(ordered):
            slots[row.place] = 0 if one_rank else slot
    return slots


def what_tells_apart(sets: Sequence[Compared]) -> list[str]:
    """Say how each set differs from the others: ``on cpu``, ``without a history``."""
    words = []
    for each in sets:
        said = []
        others = [other for other in sets if other.recorded == each.recorded]
        if len(others) > 1:
            devices = {row.device.device for row in each.rows}
            said.append(
                f"on {devices.pop() if len(devices) == 1 else f'their {each.kind} devices'}"
            )
        if any(other.recorded != each.recorded for other in sets):
            said.append("with a history" if each.recorded else "without a history")
        words.append(", ".join(said))
    return words


# Ranks in words: ``rank 17``, ``ranks 8 to 15``, ``every second rank from 1 to 63``.


_MOST_RANGES = 5


def name_rows(rows: Sequence[Row], everyone: Sequence[Row] = ()) -> str:
    """Name the ranks of some rows; ``everyone`` has all rows, if some rank numbers are missing."""
    return rows_in_words(
        [row.number if row.lone else None for row in rows],
        [row.words for row in rows],
        [row.number for row in everyone],
    )


def rows_in_words(
    numbers: Sequence[int | None], words: Sequence[str], everyone: Sequence[int | None] = ()
) -> str:
    """Name ranks by their numbers, or by their words if one has no number.

    Args:
        numbers: of ranks; None where a number is not enough.
        words: what each is called.
        everyone: the numbers of all ranks that exist.
    """
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers) == len(set(known)):
        return ranks_in_words(known, {number for number in everyone if number is not None})
    return some_of(words, _MOST_RANGES)


def ranks_in_words(
    numbers: Sequence[int], known: Collection[int] = (), most: int = _MOST_RANGES
) -> str:
    """Name ranks; in more than ``most`` ranges, only the first few and how many there are.

    ``known`` is as in ``number_ranges()``.
    """
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    parts = number_ranges(ordered, known)
    if len(parts) <= most:
        return f"ranks {list_of(parts)}"
    step = ordered[1] - ordered[0]
    regular = set(range(ordered[0], ordered[-1] + 1, step))
    if step > 1 and regular.issuperset(ordered) and regular & set(known) <= set(ordered):
        return f"every {_ordinal(step)} rank from {ordered[0]} to {ordered[-1]}"
    first = ", ".join(str(number) for number in ordered[:3])
    return f"{format_count(len(ordered))} ranks ({first} and so on)"


def number_ranges(numbers: Sequence[int], known: Collection[int] = ()) -> list[str]:
    """Return numbers as ``5``, ``8 to 15``; two in a row stay two numbers.

    Args:
        numbers: to be named.
        known: all numbers that exist, if some are missing: a missing one does not split a range.
    """
    there = known or range(max(numbers, default=0))
    found: list[list[int]] = []
    for number in sorted(numbers):
        if not found or any(each in there for each in range(found[-1][-1] + 1, number)):
            found.append([])
        found[-1].append(number)
    words = []
    for each in found:
        words += [f"{each[0]} to {each[-1]}"] if len(each) > 2 else [str(n) for n in each]
    return words


def _ordinal(number: int) -> str:
    if number == 2:
        return "second"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def some_of(words: Sequence[str], most: int, named: int = 3) -> str:
    """Join words; if there are more than ``most``, the first few and how many more there are."""
    if len(words) <= most:
        return list_of(words)
    return list_of([*words[:named], f"{format_count(len(words) - named)} more"])


def sentence(text: str) -> str:
    """Return text as a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


# Places in the parallel layout, numbered as in Megatron-LM: the first dimension varies fastest, so
# with ``tp=8,pp=4,dp=2`` rank 8 is the first of pipeline stage 1.


COPIES = frozenset(("dp", "ddp", "data", "replica", "replicate", "dp_replicate"))
"""Dimensions whose ranks may hold the same parameters."""
_MOST_PLACES = 3
"""Ranks in more ranges of places than this are named by their numbers."""
_NAMES = {
    "pp": "pipeline stage",
    "tp": "tensor rank",
    "ep": "expert rank",
    "cp": "context rank",
    "sp": "sequence rank",
    "fsdp": "FSDP rank",
    "dp_shard": "shard",
    "dp": "replica",
    "ddp": "replica",
    "dp_replicate": "replica",
}


def dimension_name(dimension: str) -> str:
    """Return the name for a rank's place along a dimension: ``pipeline stage``."""
    return _NAMES.get(dimension, dimension)


def place_name(members: Sequence[Row], everyone: Sequence[Row]) -> str:
    """Return the places that exactly these ranks share: ``pipeline stage 1``; ``""`` if none."""
    free = varying(everyone)
    for dimensions in chain.from_iterable(combinations(free, count) for count in (1, 2, 3)):
        values = [sorted({row.coordinates[d] for row in members}) for d in dimensions]
        inside = sum(
            all(row.coordinates[d] in v for d, v in zip(dimensions, values, strict=True))
            for row in everyone
        )
        ranges = [number_ranges(each) for each in values]
        if inside == len(members) and all(len(each) <= _MOST_PLACES for each in ranges):
            return ", ".join(
                f"{dimension_name(d)}{'s' * (len(v) > 1)} {list_of(parts)}"
                for d, v, parts in zip(dimensions, values, ranges, strict=True)
            )
    return ""


def varying(rows: Sequence[Row]) -> list[str]:
    """Return the dimensions in which every rank has a place, and not all the same one."""
    places = [row.coordinates for row in rows]
    return [
        dimension
        for dimension in (places[0] if places else ())
        if all(dimension in place for place in places)
        and len({place[dimension] for place in places}) > 1
    ]
