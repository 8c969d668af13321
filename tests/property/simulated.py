"""What the property tests share: simulated histories through the real reader, beside the truth."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dev.simulator import Config, DeviceTruth, simulate
from dev.simulator.strategies import configs
from snapreport import read
from snapreport.diagnosis.conclude import find, find_figures
from snapreport.history.build import build_history
from snapreport.model.findings import DeviceFigures, Findings
from snapreport.model.history import DeviceHistory, History
from tests.thorough import OTHERS_EACH_TIME, tried

Test = Callable[..., None]

_SHARED = 300
"""Simulations that tests share: as many as the most that one of them tries."""


class Simulated:
    """A finished simulation: the file it leaves, the truth, and what is found in the file."""

    def __init__(self, config: Config) -> None:
        simulator = simulate(config)
        self.config = config
        self.settings = simulator.settings
        self.truths = simulator.truths()
        self.file = pickle.dumps(simulator.snapshot(), 4)

    def __repr__(self) -> str:
        return f"Simulated({self.config})"

    def snapshot(self) -> Any:
        """What the file holds, for the caller alone."""
        return pickle.loads(self.file)

    @cached_property
    def history(self) -> History:
        """What is read from the file."""
        return build_history(read.read_bytes(self.file, "snap.pickle"))

    @cached_property
    def figures(self) -> tuple[DeviceFigures, ...]:
        """The figures of each device: most of what is found, in half of the time."""
        return figures_of(self.history)

    @cached_property
    def findings(self) -> Findings:
        """What is found in the history."""
        return find(self.history)


def figures_of(history: History) -> tuple[DeviceFigures, ...]:
    """Return the figures of each device of a history."""
    return tuple(find_figures(history, device) for device in range(len(history.devices)))


def simulations(*, plain: bool = False) -> st.SearchStrategy[Simulated]:
    """Draw simulations: of those that all tests share, or others each time.

    To simulate a program and to read its file takes many times as long as most tests of it, and
    one that was right for other tests is as good for the next.
    """
    if OTHERS_EACH_TIME:
        return configs(plain=plain).map(Simulated)
    return st.sampled_from(range(_SHARED)).map(lambda number: _shared(plain)(number))


@cache
def _shared(plain: bool) -> Callable[[int], Simulated]:
    """Return what gives a shared simulation by its number; those with fewer calls come first."""
    drawn: list[Config] = []
    tried(_SHARED)(given(config=configs(plain=plain))(lambda config: drawn.append(config)))()
    drawn.sort(key=lambda config: config.operations)
    return cache(lambda number: Simulated(drawn[number % len(drawn)]))


def for_simulations(examples: int, *, plain: bool = False) -> Callable[[Test], Test]:
    """Run a test on simulated histories, as ``tried`` picks them."""

    def decorate(test: Test) -> Test:
        return tried(examples)(given(simulation=simulations(plain=plain))(test))

    return decorate


def device_pairs(simulation: Simulated) -> Iterator[tuple[DeviceHistory, DeviceTruth]]:
    """Yield each device as snapreport sees it, with the truth about it."""
    yield from zip(simulation.history.devices, simulation.truths, strict=True)


def device_files(simulation: Simulated) -> Iterator[tuple[History, DeviceHistory]]:
    """Yield each device with the file that it is in."""
    for device in simulation.history.devices:
        yield simulation.history, device


def some_events(events: int, count: int = 6) -> list[int]:
    """Pick events of a trace: the start, the end, and some in between, always the same."""
    chosen = {-1, events - 1}
    inside = range(events)
    chosen.update(random.Random(events).sample(inside, min(count, events)))
    return sorted(chosen)


def truth_rows(truth: DeviceTruth) -> NDArray[np.int64]:
    """Return the rows of the truth that were live in the window, by alloc event and address."""
    rows = np.flatnonzero(truth.live)
    order = np.lexsort((truth.address[rows], truth.alloc_event[rows]))
    matched: NDArray[np.int64] = rows[order]
    return matched


def history_rows(history: DeviceHistory) -> NDArray[np.int64]:
    """Return the rows of a history in the same order."""
    rows = history.allocations
    order: NDArray[np.int64] = np.lexsort((rows.addr, rows.alloc_event)).astype(np.int64)
    return order


def brute_curve(size: NDArray[Any], begin: NDArray[Any], end: NDArray[Any], event: int) -> int:
    """Add up what is live after an event, one by one."""
    return sum(
        int(s)
        for s, b, e in zip(size.tolist(), begin.tolist(), end.tolist(), strict=True)
        if b <= event < e
    )
