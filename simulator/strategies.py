"""Hypothesis strategies that give random histories over all features of the simulation."""

from __future__ import annotations

from hypothesis import strategies as st

from simulator.settings import DIVISION_KEYS, MIB, NO_DIVISIONS, UNLIMITED, AllocatorSettings
from simulator.simulator import OPTIONAL_KEYS, Simulator
from simulator.workloads import Config, simulate


@st.composite
def settings(draw: st.DrawFn) -> AllocatorSettings:
    """Draw allocator settings; the defaults come first."""
    return AllocatorSettings(
        expandable_segments=draw(st.booleans()),
        max_split_size=draw(st.sampled_from([UNLIMITED, UNLIMITED, 20 * MIB, 64 * MIB])),
        roundup_power2_divisions=draw(
            st.just(NO_DIVISIONS)
            | st.sampled_from([1, 2, 4, 8, 16]).map(lambda count: (count,) * len(DIVISION_KEYS))
            | st.tuples(*[st.sampled_from([0, 2, 4, 8]) for _ in DIVISION_KEYS])
        ),
    )


@st.composite
def configs(draw: st.DrawFn, max_operations: int = 150, *, plain: bool = False) -> Config:
    """Draw a config; it shrinks to few operations, one device and no feature.

    Args:
        draw: given by hypothesis.
        max_operations: at most this many calls.
        plain: only default allocator settings, full recording and no unknown actions.
    """
    operations = draw(st.integers(0, max_operations))
    off = st.just(False)
    return Config(
        seed=draw(st.integers(0, 2**16)),
        operations=operations,
        settings=AllocatorSettings() if plain else draw(settings()),
        devices=draw(st.sampled_from([1, 1, 1, 2, 3])),
        streams=draw(st.integers(1, 3)),
        capacity=draw(st.sampled_from([80 << 30, 80 << 30, 1 << 30, 256 * MIB, 64 * MIB])),
        largest=draw(st.sampled_from([64 * MIB, 64 * MIB, MIB, 200 * MIB])),
        target=draw(st.sampled_from([30, 3, 10, 100])),
        enabled="all" if plain else draw(st.sampled_from(["all"] * 6 + ["state", None])),
        context="all" if plain else draw(st.sampled_from(["all", "alloc", "state", None])),
        max_entries=1 << 40 if plain else draw(st.just(1 << 40) | st.integers(1, 120)),
        record_from=0 if plain else draw(st.just(0) | st.integers(0, operations)),
        optional_keys=draw(
            st.just(OPTIONAL_KEYS)
            | st.lists(st.sampled_from(OPTIONAL_KEYS), unique=True).map(lambda x: tuple(sorted(x)))
        ),
        empty_cache=draw(st.booleans()),
        private_pools=draw(st.booleans()),
        annotations=draw(st.booleans()),
        markers=draw(st.booleans()),
        unknown_actions=draw(off if plain else st.booleans()),
        odd_frames=draw(off if plain else st.booleans()),
        labels=draw(st.booleans()),
    )


def simulations(max_operations: int = 150, *, plain: bool = False) -> st.SearchStrategy[Simulator]:
    """Draw finished simulators; see ``configs``."""
    return configs(max_operations, plain=plain).map(simulate)
