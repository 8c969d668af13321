"""A process that uses the allocator: devices, recording, annotations, and its snapshot."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dev.simulator.allocator import DeviceAllocator
from dev.simulator.blocks import Block
from dev.simulator.driver import AddressSpace, Driver
from dev.simulator.recorder import Recorder
from dev.simulator.settings import AllocatorSettings
from dev.simulator.truth import DeviceTruth, device_truth

GIB = 1 << 30
OPTIONAL_KEYS = (
    "compile_context", "user_metadata", "pool_id", "forward_frames", "internal_metadata",
)  # fmt: skip


class Simulator:
    """Devices with their allocators, and what is recorded of them.

    Args:
        settings: the allocator's.
        devices: how many.
        capacity: bytes of memory per device.
        others: bytes of it that other users hold.
        optional_keys: those of OPTIONAL_KEYS that trace events get.
        seed: of the clock.
    """

    def __init__(
        self,
        settings: AllocatorSettings | None = None,
        *,
        devices: int = 1,
        capacity: int = 80 * GIB,
        others: int = 0,
        optional_keys: Sequence[str] = OPTIONAL_KEYS,
        seed: int = 0,
    ) -> None:
        self.settings = settings or AllocatorSettings()
        self.recorder = Recorder(random.Random(seed), optional_keys)  # noqa: S311
        addresses = AddressSpace()
        self.allocators = [
            DeviceAllocator(self.settings, Driver(addresses, capacity, others), self.recorder)
            for _ in range(devices)
        ]

    def start_recording(
        self, enabled: str = "all", context: str | None = "all", max_entries: int = 1 << 40
    ) -> None:
        """Begin to record with empty traces, as ``_record_memory_history()``.

        Args:
            enabled: ``"all"``, or ``"state"`` to keep one event only.
            context: when stacks are gathered: ``"all"``, ``"alloc"``, ``"state"`` or None.
            max_entries: size of the ring of each device, and of that of the annotations.
        """
        self.recorder.start(enabled, context, min(max_entries, 1 << 40))
        for allocator in self.allocators:
            allocator.trace.begin(allocator.counters)

    def stop_recording(self) -> None:
        """Stop and forget, as ``_record_memory_history(None)``."""
        self.recorder.stop()
        for allocator in self.allocators:
            allocator.trace.begin(allocator.counters)

    def set_stack(self, frames: Sequence[dict[str, Any]]) -> None:
        """Say from where the next calls come, innermost frame first."""
        self.recorder.frames = frames

    def malloc(self, size: int, *, device: int = 0, stream: int = 0) -> Block:
        """Allocate; see ``DeviceAllocator.malloc``."""
        return self.allocators[device].malloc(size, stream)

    def free(self, block: Block, *, device: int = 0) -> None:
        """Free; see ``DeviceAllocator.free``."""
        self.allocators[device].free(block)

    def empty_cache(self) -> None:
        """Return what is unused on every device to the driver."""
        for allocator in self.allocators:
            allocator.empty_cache()

    def mark_snapshot(self) -> None:
        """Leave the markers that a call of ``_snapshot()`` leaves for later ones."""
        for allocator in self.allocators:
            allocator.mark_snapshot()

    @contextmanager
    def annotation(self, name: str, device: int = 0) -> Iterator[None]:
        """Annotate what happens inside, as ``torch.profiler.record_function()``.

        An error leaves it open: so an observer of the error, which takes the snapshot, sees it.
        """
        self.recorder.annotate(name, "START", device)
        yield
        self.recorder.annotate(name, "END", device)

    def snapshot(self) -> dict[str, Any]:
        """Return what ``torch.cuda.memory._snapshot()`` would; changes nothing."""
        return {
            "segments": [
                _segment(device, head, self.recorder)
                for device, allocator in enumerate(self.allocators)
                for head in allocator.heads()
            ],
            "device_traces": [list(allocator.trace.ring) for allocator in self.allocators],
            "allocator_settings": self.settings.as_snapshot(),
            "external_annotations": list(self.recorder.annotations),
        }

    def truth(self, device: int = 0) -> DeviceTruth:
        """Return what really happened on a device, in the events of ``snapshot()``'s trace."""
        allocator = self.allocators[device]
        trace = allocator.trace
        before = trace.before if trace.ring else allocator.counters
        return device_truth(device, allocator.lives, trace.first, [before, *trace.after])

    def truths(self) -> list[DeviceTruth]:
        """Return ``truth`` of every device."""
        return [self.truth(device) for device in range(len(self.allocators))]


def _segment(device: int, head: Block, recorder: Recorder) -> dict[str, Any]:
    """Describe the run of mapped blocks that begins at ``head``."""
    blocks = []
    total = allocated = active = requested = 0
    block: Block | None = head
    while block is not None and block.mapped:
        total += block.size
        state = "inactive"
        if not block.is_inactive:
            active += block.size
            requested += block.requested
            state = "active_allocated" if block.allocated else "active_pending_free"
        if block.allocated:
            allocated += block.size
        blocks.append(
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": state,
                "frames": [] if block.context is None else block.context,
                **recorder.forward_of(block.context),
            }
        )
        block = block.next
    return {
        "device": device,
        "address": head.address,
        "total_size": total,
        "allocated_size": allocated,
        "active_size": active,
        "requested_size": requested,
        "stream": head.stream,
        "segment_type": "small" if head.pool.small else "large",
        "segment_pool_id": head.pool.pool_id,
        "is_expandable": head.virtual is not None,
        "frames": [] if head.segment_context is None else head.segment_context,
        "blocks": blocks,
    }
