"""The smallest capacity with which a setting serves every request of a recording."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from snapreport.allocator.replay_tape import EMPTY_CACHE
from snapreport.allocator.replaying import (
    Addresses,
    AllocatorModel,
    chosen_operations,
    with_operations,
)
from snapreport.history.allocator_settings import UNLIMITED, AllocatorSettings
from snapreport.native.allocator_replay import Replayed

LONG = 300_000
"""Above this many operations the search tries fewer capacities, to answer while one waits."""
UNIT = 2 << 20
"""Segments and granules are multiples of this, so capacities between have no effect."""
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Fit:
    """The results of one replay without a limit, and of the search for the smallest capacity."""

    capacity: int
    peak: int
    retries: int
    driver_calls: int


class CapacitySearch:
    """Replays of one start of a recording under one setting."""

    def __init__(
        self,
        model: AllocatorModel,
        settings: AllocatorSettings,
        floor: int,
    ) -> None:
        self._model, self._settings = model, settings
        self._stride = 4 if len(model.tape) > LONG else 2
        # Before a smaller capacity than what was reserved at the start there was no cache.
        self._emptied = (
            AllocatorModel(with_operations(model.tape, [EMPTY_CACHE]))
            if model.tape.reserved
            else model
        )
        self._may_last = _depends_on_capacity_alone(model, settings)
        self._known: dict[Addresses, list[tuple[int, Replayed]]] = {}
        least = floor
        if model.tape.reserved:
            only = chosen_operations(self._emptied.tape, slice(1))
            least = max(floor, AllocatorModel(only).replay(settings).reserved)
        self._least = -(-least // UNIT) * UNIT

    def at(self, capacity: int, addresses: Addresses) -> Replayed:
        """Replay on a card with this capacity, up to the first request that fails.

        Where another capacity had the same result, that one is returned, without its columns.
        """
        if capacity < self._model.tape.reserved:
            return self._emptied.replay(self._settings, capacity, addresses, stop=True)
        known = self._known.setdefault(addresses, [])
        for least, found in known:
            if least <= capacity < found.enough:
                return found
        found = self._model.replay(self._settings, capacity, addresses, stop=True)
        if self._may_last:
            known.append((found.peak, _without_columns(found)))
        return found

    def serves(self, capacity: int, addresses: Addresses) -> bool:
        """Say whether every request is served."""
        return capacity >= self._least and self.at(capacity, addresses).failed_op < 0

    def find(self, addresses: Addresses, near: int | None = None) -> Fit:
        """Find the smallest capacity that serves everything, as does every larger one tried.

        Success is not monotone in the capacity: with more, more is cached, in other places. So
        larger capacities than the boundary found by bisection are tried as well.

        Args:
            addresses: where new segments lie.
            near: a capacity that is likely the answer, or close to it.
        """
        free = self._model.replay(self._settings, UNLIMITED, addresses)
        if self._may_last and free.failed_op < 0:
            self._known.setdefault(addresses, []).append((free.peak, _without_columns(free)))
        high = -(-max(free.peak, self._least) // UNIT) * UNIT
        low = self._least - UNIT  # does not serve
        if near is not None and low < near < high:
            low, high = self._around(near, low, high, addresses)
        low, high = self._bisected(low, high, addresses)
        step = UNIT
        while high + step < free.peak:
            if not self.serves(high + step, addresses):
                low, high = self._bisected(high + step, -(-free.peak // UNIT) * UNIT, addresses)
                step = UNIT
                continue
            step *= self._stride
        found = self.at(high, addresses)
        return Fit(high, free.peak, found.retries, found.driver_calls)

    def _around(self, near: int, low: int, high: int, addresses: Addresses) -> tuple[int, int]:
        """Return closer bounds: one that does not serve and one that does."""
        step = UNIT
        if self.serves(near, addresses):
            high = near
            while high - step > low and self.serves(high - step, addresses):
                high -= step
                step *= 4
            return max(low, high - step), high
        low = near
        while low + step < high and not self.serves(low + step, addresses):
            low += step
            step *= 4
        return low, min(high, low + step)

    def _bisected(self, low: int, high: int, addresses: Addresses) -> tuple[int, int]:
        while high - low > UNIT:
            middle = (low + high) // (2 * UNIT) * UNIT
            if self.serves(middle, addresses):
                high = middle
            else:
                low = middle
        return low, high


def _without_columns(found: Replayed) -> Replayed:
    """Return a result without where each allocation lies: a search keeps dozens of results."""
    return replace(found, placed=_NOTHING, events=_NOTHING)


def _depends_on_capacity_alone(model: AllocatorModel, settings: AllocatorSettings) -> bool:
    """Say whether replays are the same as long as each attempt to get a segment ends alike.

    Then one is valid from its own peak up to what would have been enough for an attempt that
    failed. The room of an expandable segment depends on the capacity, and so does a limit.
    """
    expandable = settings.expandable_segments or bool(model.tape.segments[:, 4].any())
    return not (expandable or settings.memory_fraction or model.tape.limited)
