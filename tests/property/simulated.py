"""What the property tests share: simulated histories through the real reader, beside the truth."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import given
from numpy.typing import NDArray

from simulator import DeviceTruth, Simulator
from simulator.strategies import simulations
from snapreport.model.history import DeviceHistory, History
from tests.builders import history_of
from tests.property.examples import tried

Test = Callable[..., None]


def for_simulations(examples: int, *, plain: bool = False) -> Callable[[Test], Test]:
    """Run a test on simulated histories, as ``tried`` picks them."""

    def decorate(test: Test) -> Test:
        return tried(examples)(given(simulation=simulations(plain=plain))(test))

    return decorate


def device_pairs(simulation: Simulator) -> Iterator[tuple[DeviceHistory, DeviceTruth]]:
    """Yield each device as snapreport sees it, with the truth about it."""
    history = history_of(simulation.snapshot())
    assert len(history.devices) == len(simulation.allocators)
    yield from zip(history.devices, simulation.truths(), strict=True)


def device_files(simulation: Simulator) -> Iterator[tuple[History, DeviceHistory]]:
    """Yield each device with the file that it is in."""
    history = history_of(simulation.snapshot())
    for device in history.devices:
        yield history, device


def some_steps(events: int, count: int = 6) -> list[int]:
    """Pick steps of a trace: the start, the end, and some in between, always the same."""
    steps = {-1, events - 1}
    inside = range(events)
    steps.update(random.Random(events).sample(inside, min(count, events)))
    return sorted(steps)


def truth_rows(truth: DeviceTruth) -> NDArray[np.int64]:
    """Return the rows of the truth that were live in the window, by alloc step and address."""
    rows = np.flatnonzero(truth.live)
    order = np.lexsort((truth.address[rows], truth.alloc_step[rows]))
    matched: NDArray[np.int64] = rows[order]
    return matched


def history_rows(history: DeviceHistory) -> NDArray[np.int64]:
    """Return the rows of a history in the same order."""
    rows = history.allocations
    order: NDArray[np.int64] = np.lexsort((rows.addr, rows.alloc_step)).astype(np.int64)
    return order


def brute_curve(size: NDArray[Any], begin: NDArray[Any], end: NDArray[Any], step: int) -> int:
    """Add up what is live after a step, one by one."""
    return sum(
        int(s)
        for s, b, e in zip(size.tolist(), begin.tolist(), end.tolist(), strict=True)
        if b <= step < e
    )
