"""What each rank holds: a table with a row per rank, a column per call site, role or stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.model.run.rank_facts import DeviceFacts, Holder, HolderKind
from snapreport.model.run.run_findings import Difference
from snapreport.native.sorting import whole_median

_MOST = {"site": 8, "role": 4, "stage": 3}
_TELLING = 0.01
"""Holders that differ by at most this part of the larger peak are not named, only summed up."""


class HolderTable:
    """The holders of some devices.

    Attributes:
        allocated: at each peak; int64, shape (n,), in bytes.
        sites: bytes of each named site; int64, shape (n, n_sites). The rest of the peak has no
            column.
    """

    def __init__(self, devices: Sequence[DeviceFacts]) -> None:
        self.allocated: NDArray[np.int64] = np.array([d.allocated for d in devices], np.int64)
        self._held: list[dict[tuple[HolderKind, str], Holder]] = [
            {(holder.kind, holder.key): holder for holder in device.holders if holder.key}
            for device in devices
        ]
        self._columns: dict[HolderKind, list[str]] = {}
        self._bytes: dict[HolderKind, NDArray[np.int64]] = {}
        kinds: tuple[HolderKind, ...] = ("site", "role", "stage")
        for kind in kinds:
            keys = sorted({key for held in self._held for each, key in held if each == kind})
            place = {key: column for column, key in enumerate(keys)}
            table = np.zeros((len(devices), len(keys)), np.int64)
            for row, held in enumerate(self._held):
                for (each, key), holder in held.items():
                    if each == kind:
                        table[row, place[key]] = holder.bytes
            self._columns[kind], self._bytes[kind] = keys, table
        self.sites = self._bytes["site"]

    def role(self, key: str) -> NDArray[np.int64]:
        """Return what each device holds in a role; int64, shape (n,)."""
        if key not in self._columns["role"]:
            return np.zeros(len(self.allocated), np.int64)
        return self._bytes["role"][:, self._columns["role"].index(key)]

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
        for kind, keys in self._columns.items():
            table = self._bytes[kind]
            if not keys:
                continue
            others = table[list(usual)]
            have, usually = _medians(table[list(some)]), _medians(others)
            spread = np.median(np.abs(others - usually), axis=0)
            change = have - usually
            if kind == "stage":  # a stage that one side never reached says nothing about memory
                change = np.where((have > 0) & (usually > 0), change, 0)
            beyond = np.abs(change) - 3 * spread
            telling = np.abs(change) > _TELLING * max(most, base, 1)
            order = sorted(np.flatnonzero(telling).tolist(), key=lambda c: (-beyond[c], keys[c]))
            named = [self._difference(kind, column, some, usual) for column in order[: _MOST[kind]]]
            found += named
            if kind != "stage":
                left = most - sum(each.bytes for each in named)
                expected = base - sum(each.usual for each in named)
                if left != expected:
                    found.append(Difference(kind, "", left, expected, 0, 0, 0, 0))
        if not self._columns["site"] and most != base:
            found.insert(0, Difference("site", "", most, base, 0, 0, 0, 0))
        return tuple(found)

    def _difference(
        self, kind: HolderKind, column: int, some: Sequence[int], usual: Sequence[int]
    ) -> Difference:
        key = self._columns[kind][column]
        values = self._bytes[kind][:, column]
        sides = []
        for rows in (list(some), list(usual)):
            middle = whole_median(values[rows])
            row = min(rows, key=lambda row: abs(int(values[row]) - middle))
            holder = self._held[row].get((kind, key))
            sides.append((middle, holder.size if holder else 0, holder.of_size if holder else 0))
        (have, *sizes), (usually, *usual_sizes) = sides
        return Difference(kind, key, have, usually, *sizes, *usual_sizes)


def _medians(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the median of each column, rounded down."""
    ordered = np.sort(table, axis=0)
    low: NDArray[np.int64] = ordered[(len(ordered) - 1) // 2]
    high: NDArray[np.int64] = ordered[len(ordered) // 2]
    return low + (high - low) // 2
