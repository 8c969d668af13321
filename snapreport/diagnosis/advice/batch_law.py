"""The peak at a batch size that nobody ran, from recordings at other sizes.

Where the recordings make the same allocations in the same order, each allocation has a known size
at each recorded batch, and its law gives the size at any other. The curve is added up again from
these sizes, so the peak may move to another moment. The results are estimates, not bounds: a
program that pads to a multiple, or splits large work, behaves differently between recorded sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.same_program import NONE, match_recordings
from snapreport.diagnosis.advice.size_doubts import doubt_of
from snapreport.diagnosis.advice.size_laws import SizeLaws, find_laws
from snapreport.diagnosis.block_room import rounded
from snapreport.model.history import DeviceHistory, History
from snapreport.model.roles import (
    BUFFER,
    COMMUNICATION,
    GRADIENT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    ROLES,
    STATE,
    WEIGHT_COPY,
    WORKSPACE,
)
from snapreport.model.what_if import LARGEST_BATCH, BatchGrowth, BatchPeak, RoleGrowth
from snapreport.native.sweeps import sum_live
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.passes import BACKWARD, FORWARD, OPTIMIZER, find_passes

_FIXED = (
    PARAMETER, BUFFER, GRADIENT, STATE, WEIGHT_COPY, OPTIMIZER_TEMPORARY, COMMUNICATION, WORKSPACE,
)  # fmt: skip
"""Roles whose size is assumed constant where no other recording shows it."""
_PHASES = {FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}
_MOST_BYTES = 1 << 62
"""No block is assumed larger than its share of this, so that their sum fits in an int64."""


@dataclass(frozen=True, eq=False)
class SeveralSizes:
    """One program at several batch sizes; arrays have shape (n_allocations,) of the last."""

    file: History
    device: DeviceHistory
    """The recording at the largest size."""
    laws: SizeLaws
    same: bool
    spare: NDArray[np.int64]
    """Bytes of each block beyond its rounded request."""
    peaks: tuple[int, ...]
    """The recorded allocated peaks, in bytes."""
    requested: tuple[int, ...]
    """The recorded requested peaks, which do not depend on how the allocator splits blocks."""

    def doubt(self, smallest: int, largest: int) -> str:
        """Return why estimates from the smallest to the largest batch may be off."""
        if not self.same:
            return "other work"
        if not self.laws.regular.all():
            return "no law"
        beyond = smallest < self.laws.batches[0] or largest > self.laws.batches[-1]
        return doubt_of(self.file, self.device) or ("extrapolated" if beyond else "")

    def expected(self, batch: int) -> NDArray[np.int64]:
        """Return the expected block sizes at a batch size."""
        most = _MOST_BYTES // max(len(self.spare), 1)
        return rounded(self.file, self.device, self.laws.expected(batch, most)) + self.spare

    def peak(self, batch: int) -> tuple[int, int]:
        """Return the expected peak at a batch size, and its first event."""
        rows = self.device.allocations
        lives = (rows.alloc_event, rows.free_requested_event, self.device.events)
        curve = sum_live(self.expected(batch), *lives)
        place = int(curve.argmax())
        return int(curve[place]), place - 1

    def largest(self, target: int) -> int | None:
        """Return the largest batch expected to fit: 0 if none fits, None if all do."""
        if self.peak(1)[0] > target:
            return 0
        low, high = 1, 2
        while self.peak(high)[0] <= target:
            low, high = high, high * 2
            if high > LARGEST_BATCH:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.peak(middle)[0] <= target:
                low = middle
            else:
                high = middle
        return low

    def at(self, batch: int) -> BatchPeak:
        """Return the peak at a batch size."""
        expected, event = self.peak(batch)
        recorded = dict(zip(self.laws.batches.tolist(), self.peaks, strict=True)).get(batch)
        passes, here = find_passes(self.device, self.file), np.array([event])
        phase = (name for pass_, name in _PHASES.items() if passes.covers(pass_, here)[0])
        return BatchPeak(batch, expected, recorded, next(phase, ""))

    def roles(self, batch: int) -> tuple[RoleGrowth, ...]:
        """Return how each role grows, at the expected peak of a batch size, most bytes first."""
        live = self.device.allocations.live_at(self.peak(batch)[1])
        fixed, each, squared = self.laws.coefficients(batch)
        blocks = self.expected(batch)
        # What rounding adds counts as fixed.
        over = blocks - (fixed + each * batch + squared * batch**2)
        role = find_roles(self.device, self.file).role[live]
        columns = [
            np.bincount(role, weights=column[live], minlength=len(ROLES))
            for column in (fixed + over, each, squared, blocks)
        ]
        found = [
            RoleGrowth(ROLES[i], *(round(column[i]) for column in columns))
            for i in np.unique(role).tolist()
        ]
        return tuple(sorted(found, key=lambda growth: -growth.bytes))


def put_together(recordings: Sequence[tuple[int, History, DeviceHistory]]) -> SeveralSizes:
    """Match recordings of one program, and find the law of each allocation.

    Args:
        recordings: batch size, file and device of each; at least two, by ascending batch size.
    """
    batches = np.array([batch for batch, _, _ in recordings], np.int64)
    matched = match_recordings([(file, device) for _, file, device in recordings])
    _, file, last = recordings[-1]
    role = find_roles(last, file).role
    grows = ~np.isin(role, _FIXED)
    sizes, spare, peaks, requested = [], [], [], []
    for (batch, one, device), rows in zip(recordings, matched.rows, strict=True):
        own = device.allocations
        known = rows != NONE
        there = rows[known]
        # Without a counterpart: as allocations of its role usually behave.
        share = np.where(grows, batch / batches[-1], 1.0)
        size = np.rint(last.allocations.size * share).astype(np.int64)
        size[known] = own.size[there]
        extra = np.zeros(len(rows))
        extra[known] = (own.block_size - rounded(one, device, own.size))[there]
        sizes.append(size)
        spare.append(extra)
        lives = (own.alloc_event, own.free_requested_event, device.events)
        peaks.append(int(sum_live(own.block_size, *lives).max()))
        requested.append(int(sum_live(own.size, *lives).max()))
    extra = np.maximum(np.rint(np.mean(spare, axis=0)), 0).astype(np.int64)
    laws = find_laws(batches, np.stack(sizes))
    return SeveralSizes(file, last, laws, matched.exact, extra, tuple(peaks), tuple(requested))


def find_growth(several: SeveralSizes, target: int | None, wanted: Sequence[int]) -> BatchGrowth:
    """Return how the peak grows, and the largest batch that fits into a target.

    Args:
        several: the recordings.
        target: in bytes, or None.
        wanted: batch sizes to estimate the peak for, besides the recorded ones.
    """
    recorded = several.laws.batches.tolist()
    fits = None if target is None else several.largest(target)
    shown = {*recorded, *wanted, *((fits, fits + 1) if fits is not None else ())} - {0}
    at_batch = fits or recorded[-1]
    largest = LARGEST_BATCH if fits is None and target is not None else max(shown)
    return BatchGrowth(
        tuple(several.at(batch) for batch in sorted(shown)),
        several.roles(at_batch),
        at_batch,
        several.doubt(min(shown), largest),
        target,
        fits,
    )
