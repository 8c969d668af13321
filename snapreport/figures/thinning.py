"""Choose what is drawn individually; the rest is added up, so that no total changes.

To make a page fit, it is thinned in this order, each level only if those before are not enough:

1. times: recorded ones at TIME_COLUMNS events and wherever something is exact, even between;
2. allocations, least bytes times events first, but none that is live at a peak of the device, at a
   failed request or at the peak of a stage; their sum is kept at every event;
3. that sum: the least of it in each of some thousand, then fewer, columns of events. At the start,
   the end, every peak, failed request and edge of a stage it stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.figures.moments import event_from, first_time
from snapreport.ground.errors import CutError
from snapreport.ground.native.columns import sum_live, unique
from snapreport.ground.records import dataclass
from snapreport.model.asked import (
    NO_CUT,
    Bound,
    Cut,
)
from snapreport.model.history import (
    START,
    Allocations,
    Drawn,
    Rest,
)
from snapreport.model.snapshot import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from snapreport.model.findings import DeviceFigures

TIME_COLUMNS = 4096
REST_COLUMNS = (8192, 1024, 128)
"""Columns of events that the sum is kept in, one after the other."""


@dataclass(frozen=True)
class Thinning:
    """How much is left out beyond the cut."""

    times: bool = False
    allocations: int = 0
    """How many more allocations are not drawn one by one."""
    columns: int | None = None
    """Columns of events in which the sum is kept; None for every event."""


class Cutter:
    """Says what of some devices is drawn, for one cut and any thinning."""

    def __init__(self, devices: Sequence[DeviceFigures], cut: Cut | None) -> None:
        """Apply the cut; a time is after the first event of each device.

        Raises:
            CutError: it begins behind the end of every device, ends before it begins, or names
                a time where none is recorded.
        """
        self.cut = cut or NO_CUT
        bounds = (self.cut.first, self.cut.last)
        times = any((device.times != NO_TIME).any() for device in devices)
        if not times and any(each and each.time_us is not None for each in bounds):
            raise CutError("this recording has no times; name an event instead.")
        self._devices = [_Device(device, self.cut) for device in devices]
        first = self.cut.first
        if first is not None and devices and all(each.empty for each in self._devices):
            events = max(device.history.events for device in devices)
            raise CutError(
                f"--from is behind the end of the recording, which has {events:,} events."
            )
        # One order over all devices, so that each gives what matters least.
        score = np.concatenate([each.score for each in self._devices] or [np.empty(0, np.float64)])
        owner = np.repeat(
            np.arange(len(self._devices)), [len(each.score) for each in self._devices]
        )
        self._owner = owner[np.argsort(score, kind="stable")]

    @property
    def spare(self) -> int:
        """How many allocations thinning may leave out."""
        return len(self._owner)

    def levels(self) -> list[Thinning]:
        """The most thinning of each level, in order."""
        summed = [Thinning(True, self.spare, columns) for columns in (None, *REST_COLUMNS)]
        return [Thinning(), Thinning(times=True), *summed]

    def drawn(self, thinning: Thinning = Thinning()) -> tuple[Drawn, ...]:
        """What is drawn of each device."""
        given = np.bincount(self._owner[: thinning.allocations], minlength=len(self._devices))
        return tuple(
            each.drawn(int(n), thinning) for each, n in zip(self._devices, given, strict=True)
        )


class _Device:
    """One device's allocations in the order in which they are left out."""

    def __init__(self, device: DeviceFigures, cut: Cut) -> None:
        self._device, self._history = device, device.history
        rows, events = self._history.allocations, self._history.events
        self._window = _window(device, cut)
        self._kept = rows.size >= cut.min_size
        self.empty = False
        if self._window is not None:
            first, last = self._window
            self.empty = first >= max(events, 1)
            self._kept &= (rows.alloc_event <= last) & (rows.free_event >= first)
        peaks = {device.peak.event, *(peak.event for peak in device.peaks.values())}
        peaks |= {oom.event for oom in device.ooms}
        peaks |= {stage.peak_event for stage in device.stages if stage.peak_event is not None}
        held = np.array(sorted(peaks), np.int64)
        # Live at one of these events: there is one from its birth on and before its end.
        needed = np.searchsorted(held, rows.alloc_event) < np.searchsorted(held, rows.free_event)
        spare = np.flatnonzero(self._kept & ~needed)
        lived = rows.free_event[spare] - rows.alloc_event[spare]
        area = rows.block_size[spare].astype(np.float64) * lived
        order = np.argsort(area, kind="stable")
        self._spare, self.score = spare[order], area[order]
        edges = {START, events - 1, *peaks}
        for stage in device.stages:
            edges |= {stage.start_event - 1, stage.start_event, stage.end_event - 1}
        self._exact = np.array(
            [event for event in sorted(edges) if START <= event < events], np.int64
        )

    def drawn(self, spared: int, thinning: Thinning) -> Drawn:
        rows = self._history.allocations
        kept = self._kept.copy()
        kept[self._spare[:spared]] = False
        out = ~kept
        curves = _rest_curves(rows, out, self._history.events)
        error = 0
        if thinning.columns is None:
            changes = np.flatnonzero((np.diff(curves, axis=1) != 0).any(axis=0)) + 1
            places = np.concatenate(([0], changes))
            values = curves[:, places]
        else:
            places = self._columns(thinning.columns, self._history.events + 1)
            # The least of each column: never above the truth, so that no new peak can arise.
            values = np.minimum.reduceat(curves, places, axis=1)
            spread = np.repeat(values, np.diff(np.append(places, curves.shape[1])), axis=1)
            error = int((curves[:3] - spread[:3]).max())
            news = np.concatenate(([True], (np.diff(values, axis=1) != 0).any(axis=0)))
            places, values = places[news], values[:, news]
        times, late = self._times() if thinning.times else (None, 0)
        peak = self._device.peak.event
        at_peak = out & rows.live_at(peak)
        return Drawn(
            rows=np.flatnonzero(kept),
            rest=Rest(places - 1, *values),
            window=self._window,
            left_out=int(out.sum()),
            left_out_bytes=int(rows.block_size[out].sum()),
            left_out_requested=int(rows.size[out].sum()),
            all_bytes=int(rows.block_size.sum()),
            left_out_at_peak=int(rows.block_size[at_peak].sum()),
            error=error,
            times=times,
            time_error_us=late,
        )

    def _columns(self, count: int, length: int) -> NDArray[np.int64]:
        """Where columns begin, as places in curves; each exact event is a column of its own."""
        even = np.arange(count, dtype=np.int64) * length // count
        exact = self._exact + 1
        places = unique(np.concatenate([even, exact, exact + 1]))
        return places[places < length]

    def _times(self) -> tuple[NDArray[np.int64] | None, int]:
        """Times recorded at some events and even between them, and the most that they are off."""
        times = self._device.times
        known = np.flatnonzero(times != NO_TIME)
        if len(known) <= TIME_COLUMNS:
            return None, 0
        ends = known[[0, -1]]
        even = known[np.arange(TIME_COLUMNS, dtype=np.int64) * len(known) // TIME_COLUMNS]
        exact = self._exact[self._exact >= 0]
        at = unique(np.concatenate([ends, even, exact[times[exact] != NO_TIME]]))
        # Whole microseconds an event, so that each column is one number to gzip.
        pace = np.append(np.diff(times[at]) // np.diff(at), 0)
        events = np.arange(len(times), dtype=np.int64)
        column = np.maximum(np.searchsorted(at, events, side="right") - 1, 0)
        even_times = times[at][column] + pace[column] * (events - at[column])
        even_times[: at[0]] = NO_TIME
        off = np.abs(even_times[known] - times[known])
        return even_times, int(off.max())


def _rest_curves(rows: Allocations, out: NDArray[np.bool_], events: int) -> NDArray[np.int64]:
    """The columns of ``Rest`` but for the event, after every event; shape (5, events + 1)."""
    begin, one = rows.alloc_event[out], np.ones(int(out.sum()), np.int64)

    def added(curve: str, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        return sum_live(weights, begin, rows.ends(curve)[out], events)

    curves = [added(name, rows.weights(name)[out]) for name in ("requested", "allocated", "active")]
    return np.stack([*curves, added("allocated", one), added("requested", one)])


def _window(device: DeviceFigures, cut: Cut) -> tuple[int, int] | None:
    """The first and the last event that are drawn; None for all."""
    if cut.first is None and cut.last is None:
        return None
    events = device.history.events
    first = START if cut.first is None else _event(device, cut.first, first=True)
    last = events - 1 if cut.last is None else min(_event(device, cut.last), events - 1)
    if cut.first is not None and cut.last is not None and last < first < events:
        raise CutError("--to is before --from; nothing would be drawn.")
    return first, last


def _event(device: DeviceFigures, bound: Bound, *, first: bool = False) -> int:
    """The event of a bound: the first at or after a time, or the last at or before it."""
    if bound.event is not None:
        return bound.event
    assert bound.time_us is not None
    begin = first_time(device.times)
    if begin is None:  # only another device has times: draw all of this one
        return START if first else device.history.events
    wanted = begin + bound.time_us
    return event_from(device.times, wanted) if first else event_from(device.times, wanted + 1) - 1
