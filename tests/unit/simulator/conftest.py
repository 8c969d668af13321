"""Simulators that record everything."""

from __future__ import annotations

import pytest

from dev.simulator import AllocatorSettings, Simulator


@pytest.fixture
def simulator() -> Simulator:
    """One device with default settings, recording."""
    simulator = Simulator()
    simulator.start_recording()
    return simulator


@pytest.fixture
def expandable() -> Simulator:
    """One device of 200 MiB with expandable segments, recording."""
    simulator = Simulator(AllocatorSettings(expandable_segments=True), capacity=200 << 20)
    simulator.start_recording()
    return simulator
