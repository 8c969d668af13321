"""Programs as lists of calls, which are the same whatever the allocator does with them.

So one program can be recorded under some settings, and really run under others.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from dev.simulator import AllocatorSettings, OutOfMemoryError, Simulator
from dev.simulator.blocks import Block
from dev.simulator.settings import MIB

AMPLE = 1 << 40
"""Capacity of a card that has more memory than any of the programs wants."""

Call = tuple[str, int, int, int]
"""What is called; the number of an allocation, its bytes, and a stream, so far as it has them."""


@dataclass(frozen=True)
class Script:
    """A program."""

    calls: tuple[Call, ...]
    record_from: int = 0
    """The call before which recording starts."""


@dataclass(frozen=True)
class Ran:
    """What came of a program."""

    simulator: Simulator
    peak: int
    """Most bytes reserved from the start of the recording on."""
    retries: int
    failed: bool
    """Whether a request failed, which ends the program."""
    calls: int
    """How many calls came before that, or all."""


def run(
    script: Script,
    settings: AllocatorSettings,
    capacity: int = AMPLE,
    fraction: float = 0.0,
) -> Ran:
    """Run a program on a card, recorded."""
    simulator = Simulator(settings, capacity=capacity)
    (allocator,) = simulator.allocators
    if fraction:
        allocator.limit = int(fraction * capacity)
    held: dict[int, Block] = {}
    calls: dict[str, Callable[[int, int, int], None]] = {
        "free": lambda number, *_: simulator.free(held.pop(number)),
        "use": lambda number, _, stream: allocator.record_stream(held[number], stream),
        "pass": lambda count, _, stream: allocator.pass_events(stream, count),
        "empty": lambda *_: simulator.empty_cache(),
        "begin": lambda pool, *_: allocator.begin_pool((pool, 0)),
        "end": lambda *_: allocator.end_pool(),
        "release": lambda pool, *_: allocator.release_pool((pool, 0)),
    }
    failed, peak, place = False, 0, 0
    for place, (name, number, size, stream) in enumerate(script.calls):
        if place == script.record_from:
            simulator.start_recording()
            peak = allocator.counters.reserved
        line = 1 if name == "empty" else 2 + number % 7
        simulator.set_stack([{"name": name, "filename": "train.py", "line": line}])
        if name == "malloc":
            try:
                held[number] = simulator.malloc(size, stream=stream)
            except OutOfMemoryError:
                failed = True
                break
            finally:
                peak = max(peak, allocator.counters.reserved)
        else:
            calls[name](number, size, stream)
    if len(script.calls) <= script.record_from:
        simulator.start_recording()
    return Ran(simulator, peak, allocator.retries, failed, place if failed else len(script.calls))


@dataclass(frozen=True)
class Kind:
    """What random programs of a kind have."""

    operations: int = 300
    largest: int = 64 * MIB
    target: int = 30
    """About how many allocations live together."""
    streams: int = 1
    late: bool = False
    empties: bool = True
    pools: bool = False


@cache
def draw_script(seed: int, kind: Kind) -> Script:
    """Draw a program: phases of growth and decline, sizes that recur and change a little."""
    rng = random.Random(f"{seed} {kind}")
    sizes = [_size(rng, kind.largest) for _ in range(8)]
    calls: list[Call] = []
    live: list[int] = []
    pools: list[int] = []
    used: list[int] = []
    while len(calls) < kind.operations:
        if rng.random() < 0.02:  # as where batches change their length
            factor = rng.uniform(0.7, 1.4)
            sizes = [max(int(size * factor), 1) for size in sizes]
        chance, stream = rng.random(), rng.randrange(kind.streams)
        if chance < 0.01 and kind.empties:
            calls.append(("empty", 0, 0, 0))
        elif chance < 0.04 and kind.pools:
            if pools:
                calls.append(("end", 0, 0, 0))
                used.append(pools.pop())
            elif used and rng.random() < 0.4:
                calls.append(("release", used.pop(), 0, 0))
            else:
                pools.append(len(calls))
                calls.append(("begin", len(calls), 0, 0))
        elif chance < 0.12 and kind.streams > 1:
            if live and rng.random() < 0.6:
                calls.append(("use", rng.choice(live), 0, stream))
            else:
                calls.append(("pass", rng.randrange(1, 4), 0, stream))
        elif live and rng.random() * 2 * kind.target < len(live):
            place = len(live) - 1 if rng.random() < 0.5 else rng.randrange(len(live))
            calls.append(("free", live.pop(place), 0, 0))
        else:
            size = rng.choice(sizes) if rng.random() < 0.7 else _size(rng, kind.largest)
            live.append(len(calls))
            calls.append(("malloc", len(calls), min(size, 2 * kind.largest), stream))
    return Script(tuple(calls), kind.operations // 3 if kind.late else 0)


def _size(rng: random.Random, largest: int) -> int:
    if rng.random() < 0.3:
        return rng.randrange(1, MIB + MIB // 4)
    return int(MIB * (largest / MIB) ** rng.random())
