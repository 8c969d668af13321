"""Hypothesis strategies that give random histories over all features of the simulation."""

from __future__ import annotations

from hypothesis import strategies as st

from dev.simulator.settings import (
    DIVISION_KEYS,
    LARGE_SEGMENT,
    MIB,
    NO_DIVISIONS,
    UNLIMITED,
    AllocatorSettings,
)
from dev.simulator.simulator import OPTIONAL_KEYS, Simulator
from dev.simulator.workloads import Config, simulate

# The parts are made once: a strategy made anew for every draw is checked anew, which took as long
# as the simulation of what was drawn.
_DIVISIONS = (
    st.just(NO_DIVISIONS)
    | st.sampled_from([1, 2, 4, 8, 16]).map(lambda count: (count,) * len(DIVISION_KEYS))
    | st.tuples(*[st.sampled_from([0, 2, 4, 8]) for _ in DIVISION_KEYS])
)
_SPLIT_SIZES = st.sampled_from([UNLIMITED, UNLIMITED, 20 * MIB, 64 * MIB])
_LARGE_SEGMENTS = st.sampled_from([LARGE_SEGMENT, LARGE_SEGMENT, LARGE_SEGMENT, 64 * MIB])
_BOOLEANS = st.booleans()
_SEEDS = st.integers(0, 2**16)
_DEVICES = st.sampled_from([1, 1, 1, 2, 3])
_STREAMS = st.integers(1, 3)
_CAPACITIES = st.sampled_from([80 << 30, 80 << 30, 1 << 30, 256 * MIB, 64 * MIB])
_LARGEST = st.sampled_from([64 * MIB, 64 * MIB, MIB, 200 * MIB])
_TARGETS = st.sampled_from([30, 3, 10, 100])
_ENABLED = st.sampled_from(["all"] * 6 + ["state", None])
_CONTEXTS = st.sampled_from(["all", "alloc", "state", None])
_ENTRIES = st.just(1 << 40) | st.integers(1, 120)
_KEYS = st.just(OPTIONAL_KEYS) | st.lists(st.sampled_from(OPTIONAL_KEYS), unique=True).map(
    lambda x: tuple(sorted(x))
)
_OFF = st.just(False)


@st.composite
def settings(draw: st.DrawFn) -> AllocatorSettings:
    """Draw allocator settings; the defaults come first."""
    limit = draw(_SPLIT_SIZES)
    return AllocatorSettings(
        expandable_segments=draw(_BOOLEANS),
        max_split_size=limit,
        roundup_power2_divisions=draw(_DIVISIONS),
        large_segment_size=draw(_LARGE_SEGMENTS) if limit != 20 * MIB else LARGE_SEGMENT,
    )


_SETTINGS = settings()


@st.composite
def configs(draw: st.DrawFn, max_operations: int = 150, *, plain: bool = False) -> Config:
    """Draw a config; it shrinks to few operations, one device and no feature.

    Args:
        draw: given by hypothesis.
        max_operations: at most this many calls.
        plain: only default allocator settings, full recording and no unknown actions.
    """
    operations = draw(st.integers(0, max_operations))
    return Config(
        seed=draw(_SEEDS),
        operations=operations,
        settings=AllocatorSettings() if plain else draw(_SETTINGS),
        devices=draw(_DEVICES),
        streams=draw(_STREAMS),
        capacity=draw(_CAPACITIES),
        largest=draw(_LARGEST),
        target=draw(_TARGETS),
        enabled="all" if plain else draw(_ENABLED),
        context="all" if plain else draw(_CONTEXTS),
        max_entries=1 << 40 if plain else draw(_ENTRIES),
        record_from=0 if plain else draw(st.just(0) | st.integers(0, operations)),
        optional_keys=draw(_KEYS),
        empty_cache=draw(_BOOLEANS),
        private_pools=draw(_BOOLEANS),
        annotations=draw(_BOOLEANS),
        markers=draw(_BOOLEANS),
        unknown_actions=draw(_OFF if plain else _BOOLEANS),
        odd_frames=draw(_OFF if plain else _BOOLEANS),
        labels=draw(_BOOLEANS),
    )


def simulations(max_operations: int = 150, *, plain: bool = False) -> st.SearchStrategy[Simulator]:
    """Draw finished simulators; see ``configs``."""
    return configs(max_operations, plain=plain).map(simulate)
