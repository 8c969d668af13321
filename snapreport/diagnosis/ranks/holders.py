"""What ranks hold, and in words: the call sites that make one hold more than others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import whole_median
from snapreport.ground.units import MOST_SHARE, format_bytes, format_count, list_of
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.run import DeviceFacts, Difference, HolderKind

_MOST_HOLDERS: dict[HolderKind, int] = {"site": 8, "role": 4, "stage": 3}
"""At most so many holders are named."""
_TELLING = 0.01
"""Holders that differ by at most this part of the larger peak are not named, only summed up."""


_MOST_CELLS = 1 << 15


def in_parts(columns: int, rows: int) -> Iterator[slice]:
    """Yield the columns of a table in parts that are small, however many rows it has."""
    width = max(_MOST_CELLS // max(rows, 1), 1)
    for begin in range(0, columns, width):
        yield slice(begin, begin + width)


class HolderTable:
    """The holders of some devices.

    Attributes:
        allocated: at each peak; int64, shape (n,), in bytes.
        sites: bytes of each named site; int64, shape (n, n_sites). The rest of the peak has no
            column.
    """

    def __init__(self, devices: Sequence[DeviceFacts]) -> None:
        self.allocated: NDArray[np.int64] = np.array([d.allocated for d in devices], np.int64)
        self._devices = devices
        named = {(each.kind, each.key) for device in devices for each in device.holders if each.key}
        self._columns: dict[HolderKind, dict[str, int]] = {}
        self._bytes: dict[HolderKind, NDArray[np.int64]] = {}
        for kind in _MOST_HOLDERS:
            keys = sorted(key for each, key in named if each == kind)
            self._columns[kind] = {key: column for column, key in enumerate(keys)}
            self._bytes[kind] = np.zeros((len(devices), len(keys)), np.int64)
        for row, device in enumerate(devices):
            for holder in device.holders:
                if holder.key:
                    column = self._columns[holder.kind][holder.key]
                    self._bytes[holder.kind][row, column] = holder.bytes
        self.sites = self._bytes["site"]

    def role(self, key: str) -> NDArray[np.int64]:
        """Return what each device holds in a role; int64, shape (n,)."""
        if key not in self._columns["role"]:
            return np.zeros(len(self.allocated), np.int64)
        return self._bytes["role"][:, self._columns["role"][key]]

    def beside(self, some: Sequence[int], usual: Sequence[int]) -> tuple[Difference, ...]:
        """Return how the median of some devices differs from the median of others.

        The differences of sites add up to the difference of the median peaks, to the byte, and so
        do those of roles where roles are known: a difference with the key ``""`` holds all that is
        not named. Those furthest beyond the usual spread come first.

        Args:
            some: rows of the table; at least one.
            usual: rows to compare with; at least one.
        """
        peaks = self.allocated
        most, base = whole_median(peaks[list(some)]), whole_median(peaks[list(usual)])
        found: list[Difference] = []
        for kind, columns in self._columns.items():
            keys, table = list(columns), self._bytes[kind]
            if not keys:
                continue
            have, usually, spread = np.empty((3, len(keys)))
            for part in in_parts(len(keys), len(usual)):
                sides = table[list(some), part], table[list(usual), part]
                have[part], usually[part] = (np.floor(np.median(each, axis=0)) for each in sides)
                spread[part] = np.median(np.abs(sides[1] - usually[part]), axis=0)
            change = have - usually
            if kind == "stage":  # a stage that one side never reached says nothing about memory
                change = np.where((have > 0) & (usually > 0), change, 0)
            beyond = np.abs(change) - 3 * spread
            telling = np.abs(change) > _TELLING * max(most, base, 1)
            order = sorted(np.flatnonzero(telling).tolist(), key=lambda c: (-beyond[c], keys[c]))
            named = [
                self._difference(kind, keys[column], some, usual)
                for column in order[: _MOST_HOLDERS[kind]]
            ]
            found += named
            left = most - sum(each.bytes for each in named)
            expected = base - sum(each.usual for each in named)
            if kind != "stage" and left != expected:
                found.append(Difference(kind, "", left, expected, 0, 0, 0, 0))
        if not self._columns["site"] and most != base:
            found.insert(0, Difference("site", "", most, base, 0, 0, 0, 0))
        return tuple(found)

    def _difference(
        self, kind: HolderKind, key: str, some: Sequence[int], usual: Sequence[int]
    ) -> Difference:
        values = self._bytes[kind][:, self._columns[kind][key]]
        sides = []
        for rows in (list(some), list(usual)):
            middle = whole_median(values[rows])
            row = min(rows, key=lambda row: abs(int(values[row]) - middle))
            held = {each.key: each for each in self._devices[row].holders if each.kind == kind}
            holder = held.get(key)
            sides.append((middle, holder.size if holder else 0, holder.of_size if holder else 0))
        (have, *sizes), (usually, *usual_sizes) = sides
        return Difference(kind, key, have, usually, *sizes, *usual_sizes)


# The reasons in words: which call sites, with their sizes.

_MOSTLY = 0.5
_WORTH_NAMING = 0.25
_MOST_NAMED = 3
_SEVERAL = 3
_ALIKE = 0.25


def main_cause(differences: Sequence[Difference], total: int) -> Difference | None:
    """Return the call site that makes at least half of a difference by itself, or None."""
    along = [d for d in _sites(differences) if _change(d) * total > 0]
    return along[0] if along and abs(_change(along[0])) >= _MOSTLY * abs(total) else None


def because(differences: Sequence[Difference], total: int, whose: str = "") -> str:
    """Return a clause that gives the cause, including the space or comma before it; may be ``""``.

    Args:
        differences: what is held compared with what is usual, the most significant first.
        total: the difference of the peaks, in bytes.
        whose: the rank that the sizes are from, if the sentence is about several ranks.
    """
    if not total:
        return ""
    largest = sorted(_sites(differences), key=lambda each: -abs(_change(each)))
    along = [d for d in largest if _change(d) * total > 0]
    if not along:
        return ", and no single call site accounts for it"
    if first := main_cause(differences, total):
        of = f"on {whose} " if whose else ""
        text = f" because {_holds(first)} ({of}{instead(first)})"
        against = next((d for d in largest if _change(d) * total < 0), None)
        if against and abs(_change(against)) >= _WORTH_NAMING * abs(_change(first)):
            text += f", though {_holds(against)}"
        return text
    if share := _alike(largest, total):
        return f" because all of its large call sites hold {share}"
    named = along[:_MOST_NAMED]
    text = list_of([_holds(each) for each in named])
    if abs(sum(_change(each) for each in named)) >= _MOSTLY * abs(total):
        return f" because {text}"
    return f"; many call sites differ, most of all {text}"


def _alike(sites: Sequence[Difference], total: int) -> str:
    """Return how much all call sites differ, ``about 10% more``; ``""`` unless all do alike."""
    if len(sites) < _SEVERAL or not all(d.usual and d.kind == "site" for d in sites):
        return ""
    change = sum(_change(d) for d in sites)
    share = change / sum(d.usual for d in sites)
    if abs(change) < _MOSTLY * abs(total) or share * total < 0:
        return ""
    if any(abs(_change(d) / d.usual - share) > _ALIKE * abs(share) for d in sites):
        return ""
    if share >= MOST_SHARE:
        return f"about {1 + share:,.0f} times as much"
    return f"about {abs(share):.0%} {'more' if total > 0 else 'less'}"


def instead(difference: Difference) -> str:
    """Return what is held and what is usual: ``24 x 192.0 MiB instead of 24 x 96.00 MiB``.

    It counts allocations of the commonest size if these make the difference, else bytes.
    """
    d = difference
    by_size = d.size * d.of_size - d.usual_size * d.usual_of_size
    counted = _change(d) and abs(by_size - _change(d)) <= _MOSTLY * abs(_change(d))

    def side(held: int, count: int, size: int) -> str:
        if not (count if counted else held):
            return "nothing"
        if counted:
            return f"{format_count(count)} \N{MULTIPLICATION SIGN} {format_bytes(size)}"
        return format_bytes(held)

    usual = side(d.usual, d.usual_of_size, d.usual_size)
    return f"{side(d.bytes, d.of_size, d.size)} instead of {usual}"


def holder_words(difference: Difference) -> str:
    """Return what holds it: ```softmax nn_utils.py:6```, or a role, or memory without a stack."""
    if difference.key in MISSING_REASONS[1:]:
        return f"memory without a call stack ({difference.key})"
    return f"`{difference.key}`" if difference.kind == "site" else difference.key


def _holds(difference: Difference) -> str:
    change = _change(difference)
    more = "more" if change > 0 else "less"
    return f"{holder_words(difference)} holds {format_bytes(abs(change))} {more}"


def _sites(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences of named call sites, or of roles if there are none."""
    named = [d for d in differences if d.key]
    return [d for d in named if d.kind == "site"] or [d for d in named if d.kind == "role"]


def _change(difference: Difference) -> int:
    return difference.bytes - difference.usual
