"""A stand-in for torch with a GPU, whose allocator is the simulator's."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dev.simulator import OutOfMemoryError as DriverIsFull
from dev.simulator import Simulator
from dev.simulator.blocks import Block

GIB = 2**30

Observer = Callable[[int, int, int, int], None]


class OutOfMemoryError(RuntimeError):
    """As ``torch.OutOfMemoryError``."""


class FakeGpu:
    """What a test does with the GPU, and the modules that snapreport finds as torch."""

    def __init__(self, capacity: int = GIB, devices: int = 1, others: int = 0) -> None:
        self.simulator = Simulator(capacity=capacity, devices=devices, others=others)
        self.capacity = capacity
        self.calls: list[dict[str, Any]] = []
        """The arguments of every ``_record_memory_history``."""
        self.observers: list[Observer] = []
        self.peak = [0] * devices
        self.in_use = [True] * devices
        """Whether a device has a context already."""
        self.torch = self._modules(devices)

    def alloc(self, size: int, line: int = 1, device: int = 0) -> Block:
        """Allocate from a line of ``train.py``, as a program would."""
        sim = self.simulator
        sim.recorder.clock.now_us = _now_us()
        sim.set_stack([{"name": "step", "filename": "/home/me/train.py", "line": line}])
        try:
            block = sim.malloc(size, device=device)
        except DriverIsFull:
            for observer in self.observers:
                observer(device, size, self.capacity, 0)
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate much.") from None
        self.peak[device] = max(self.peak[device], self._counters(device).allocated)
        return block

    def free(self, block: Block, device: int = 0) -> None:
        self.simulator.recorder.clock.now_us = _now_us()
        self.simulator.free(block, device=device)

    def _counters(self, device: int) -> Any:
        return self.simulator.allocators[device].counters

    def _record(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = sys.maxsize,
        device: object = None,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
    ) -> None:
        self.calls.append({"enabled": enabled, "context": context, "stacks": stacks})
        if enabled is None:
            self.simulator.stop_recording()
        else:
            self.simulator.start_recording(enabled, context, max_entries)

    def _snapshot(self) -> dict[str, Any]:
        found = self.simulator.snapshot()
        self.simulator.mark_snapshot()
        return found

    @contextmanager
    def _record_function(self, name: str) -> Iterator[None]:
        self.simulator.recorder.clock.now_us = _now_us()
        with self.simulator.annotation(name):
            yield

    def _stats(self, device: int) -> dict[str, int]:
        now = self._counters(device)
        return {
            "allocated_bytes.all.current": now.allocated,
            "allocated_bytes.all.peak": self.peak[device],
            "reserved_bytes.all.current": now.reserved,
            "num_ooms": 0,
        }

    def _mem_get_info(self, device: int) -> tuple[int, int]:
        self.in_use[device] = True
        return self.capacity - self._counters(device).reserved, self.capacity

    def _modules(self, devices: int) -> types.ModuleType:
        torch = types.ModuleType("torch")
        properties = types.SimpleNamespace(name="Fake H100", total_memory=self.capacity)
        memory = types.SimpleNamespace(
            _record_memory_history=self._record,
            _snapshot=self._snapshot,
            get_allocator_backend=lambda: "native",
        )
        cuda = types.SimpleNamespace(
            memory=memory,
            is_available=lambda: True,
            init=lambda: None,
            device_count=lambda: devices,
            current_device=lambda: 0,
            get_device_properties=lambda _: properties,
            memory_stats=self._stats,
            mem_get_info=self._mem_get_info,
            OutOfMemoryError=OutOfMemoryError,
        )
        vars(torch).update(
            __version__="2.99.0+fake",
            version=types.SimpleNamespace(cuda="12.9", hip=None),
            cuda=cuda,
            OutOfMemoryError=OutOfMemoryError,
            profiler=types.SimpleNamespace(record_function=self._record_function),
            _C=types.SimpleNamespace(
                _cuda_isHistoryEnabled=lambda: self.simulator.recorder.on,
                _cuda_attach_out_of_memory_observer=self.observers.append,
                _cuda_hasPrimaryContext=lambda device: self.in_use[device],
            ),
        )
        return torch


def install(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> FakeGpu:
    """Let ``import torch`` give the stand-in, and forget what earlier tests recorded."""
    from snapreport.recorders import cuda

    for name in [each for each in sys.modules if each.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", gpu.torch)
    monkeypatch.setattr(cuda, "_attached", set())
    monkeypatch.setattr(cuda, "_observers", [])
    return gpu


def _now_us() -> int:
    import time

    return time.time_ns() // 1000
