"""Find the moment at which a rank diverges from its group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapreport.compare.among_ranks.standing_out import SPREADS, TO_NORMAL, spread_of
from snapreport.model.run.cell_widths import to_one_width
from snapreport.model.run.rank_facts import DeviceFacts

_PART = 0.25
"""A rank has diverged once it shows this part of the difference that it has in the end."""
_ALIGNED = 0.02
"""Events are comparable one by one only if the numbers of events spread by at most this part."""


class Curves:
    """The curves of a group over events, in cells of one width."""

    def __init__(self, devices: Sequence[DeviceFacts], core: Sequence[int]) -> None:
        self._devices = devices
        self._core = list(core)
        cells = to_one_width([device.by_event for device in devices])
        self._shift = cells[0].shift
        width = max(len(each.allocated) for each in cells)
        table = np.full((len(cells), width), np.nan)
        for row, each in enumerate(cells):
            table[row, : len(each.allocated)] = each.allocated
        self._table = table
        events = np.array([devices[row].events for row in self._core])
        off = np.median(np.abs(events - np.median(events))) if len(events) else 0
        self._aligned = bool(off <= _ALIGNED * max(float(np.median(events)), 1))
        known = np.sum(~np.isnan(table[self._core]), axis=0)
        self._until = int(np.sum(2 * known > len(self._core)))
        some = table[self._core][:, : self._until]
        self._middle = np.nanmedian(some, axis=0)
        self._spread = TO_NORMAL * np.nanmedian(np.abs(some - self._middle), axis=0)

    def parts(self, row: int, difference: int) -> tuple[int | None, int | None]:
        """Return the event and the number of the step at which a rank's curve diverges."""
        return self.parts_event(row, difference), self.parts_step(row, difference)

    def parts_event(self, row: int, difference: int) -> int | None:
        """Return the first event of the cell in which a rank diverges from its group.

        Args:
            row: the rank's position among the devices.
            difference: bytes by which it differs in the end; negative if it holds less.
        """
        if not self._aligned or not difference:
            return None
        sign = 1 if difference > 0 else -1
        away = sign * (self._table[row, : self._until] - self._middle)
        least = np.maximum(_PART * abs(difference), SPREADS * self._spread)
        with np.errstate(invalid="ignore"):
            beyond = np.flatnonzero(away >= least)
        return int(beyond[0]) << self._shift if len(beyond) else None

    def parts_step(self, row: int, difference: int, growing: bool = False) -> int | None:
        """Return the number of the first step in which a rank diverges from its group.

        Args:
            row: the rank's position among the devices.
            difference: bytes by which it differs in the end; negative if it holds less.
            growing: whether to compare what steps leave allocated, instead of their peaks.
        """
        usual: dict[int, list[int]] = {}
        for member in self._core:
            if member != row:
                for step in self._devices[member].steps:
                    usual.setdefault(step.number, []).append(
                        step.left if growing else step.allocated
                    )
        sign = 1 if difference > 0 else -1
        for step in self._devices[row].steps:
            others = np.array(usual.get(step.number, ()))
            if 2 * len(others) <= len(self._core) - 1:
                continue
            away = sign * ((step.left if growing else step.allocated) - float(np.median(others)))
            if away >= max(_PART * abs(difference), SPREADS * spread_of(others)):
                return step.number
        return None
