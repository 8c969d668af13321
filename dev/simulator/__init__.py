"""A seeded simulation of PyTorch's CUDA caching allocator that also knows the truth.

It writes snapshots as ``torch.cuda.memory._snapshot()`` does, by the rules of
``c10/cuda/CUDACachingAllocator.cpp``, and keeps beside the trace what a snapshot only implies:
the real block of every allocation and the allocator's counters after every trace event. Tests
compare what snapreport concludes from the snapshot with that truth. Not part of the wheel.
"""

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.settings import AllocatorSettings
from dev.simulator.simulator import Simulator
from dev.simulator.truth import DeviceTruth
from dev.simulator.workloads import Config, simulate

__all__ = [
    "AllocatorSettings",
    "Config",
    "DeviceTruth",
    "OutOfMemoryError",
    "Simulator",
    "simulate",
]
