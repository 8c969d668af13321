"""Name ranks: ``rank 17``, ``ranks 8 to 15``, ``every second rank from 1 to 63``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from snapreport.ground.units import format_bytes, format_count, list_of
from snapreport.model.run import DeviceFacts, Difference, RankChange, RankFacts, Run

_MOST_RANGES = 5


def some_of(words: Sequence[str], most: int, named: int = 3) -> str:
    """Join words; if there are more than ``most``, the first few and how many more there are."""
    if len(words) <= most:
        return list_of(words)
    return list_of([*words[:named], f"{format_count(len(words) - named)} more"])


def number_ranges(numbers: Sequence[int], known: Collection[int] = ()) -> list[str]:
    """Return numbers as ``5``, ``8 to 15``; two in a row stay two numbers.

    Args:
        numbers: to be named.
        known: all numbers that exist, if some are missing: a missing one does not split a range.
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if (
            found
            and not any(each in known for each in range(found[-1][-1] + 1, number))
            and (known or number == found[-1][-1] + 1)
        ):
            found[-1].append(number)
        else:
            found.append([number])
    words = []
    for each in found:
        words += [f"{each[0]} to {each[-1]}"] if len(each) > 2 else [str(n) for n in each]
    return words


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


def _ordinal(number: int) -> str:
    if number == 2:
        return "second"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


# Find ranks that changed alike between two runs: by the same amount and the same call site.


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


# Decide which devices of a run are compared with which: a row per device, a set per kind.


Unit: TypeAlias = tuple[str, str]
"""A device of a rank, across all dumps: the rank or file, and the device."""


@dataclass(frozen=True, eq=False)
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


def row_places(run: Run) -> tuple[tuple[int, int], ...]:
    """Return each of these rows as a position in ``Run.ranks`` and one in its ``devices``."""
    return tuple(
        (at, place) for at, rank in enumerate(run.ranks) for place in range(len(rank.devices))
    )


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


def name_rows(rows: Sequence[Row], everyone: Sequence[Row] = ()) -> str:
    """Name the ranks of some rows; ``everyone`` has all rows, if some rank numbers are missing."""
    return rows_in_words(
        [row.number if row.lone else None for row in rows],
        [row.words for row in rows],
        [row.number for row in everyone],
    )


def last_dump(rows: Sequence[Row]) -> int | None:
    """Return the latest dump that at least half of the devices have; None without dumps."""
    units = {row.unit for row in rows}
    dumps = Counter(row.rank.name.dump for row in rows if row.rank.name.dump is not None)
    return max((dump for dump, count in dumps.items() if 2 * count >= len(units)), default=None)


def _latest(rows: Sequence[Row]) -> list[Row]:
    """Return a row per device: from the last dump that most devices have, else its own last."""
    usual = last_dump(rows)
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
