"""Turns what torch.profiler saw into a snapshot in PyTorch's own shape, with real frames.

PyTorch has a similar conversion (``torch.cuda._memory_viz._profile_to_snapshot``), without
times, lines, stages and the stacks of frees. As there, the CPU's trace follows the GPUs'.

The profiler does not report what was live when it began, nor, on the CPU, when that memory is
freed. It does report the parameters and optimizer states in use while it runs: we take those to
be live from the start until other memory overlaps their addresses.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.recorders.event_tree import (
    DeviceKey,
    EventTreeReader,
    Frame,
    MemoryEvent,
    NamedRange,
    Recorded,
    SeenTensor,
)

MADE_BY = "torch.profiler"
"""The recorder's name in such a snapshot, in which there is no caching allocator."""

# Addresses this far apart are drawn as two pieces of memory: the heap and what lies far from it.
_APART = 2**26


def profile_to_snapshot(profile: Any) -> dict[str, Any]:
    """Convert a finished profile.

    Args:
        profile: of ``torch.profiler.profile(profile_memory=True, with_stack=True)``; with
            ``record_shapes=True`` too, gradients are identified exactly in every step.

    Raises:
        RecordingError: it is not a profile, not finished, or has no memory in it.
    """
    return to_snapshot([EventTreeReader().read(profile)])


def to_snapshot(parts: Sequence[Recorded]) -> dict[str, Any]:
    """Merge what one or more runs of the profiler recorded, in order, into one snapshot."""
    devices: dict[DeviceKey, _Device] = {}
    for part in parts:
        by_device: dict[DeviceKey, tuple[list[MemoryEvent], list[SeenTensor]]] = {}
        for event in part.memory:
            by_device.setdefault(event.device, ([], []))[0].append(event)
        for tensor in part.tensors:
            by_device.setdefault(tensor.device, ([], []))[1].append(tensor)
        for key, (events, tensors) in by_device.items():
            if key[0] in ("cpu", "cuda"):
                devices.setdefault(key, _Device()).replay(events, tensors)
    last_gpu = max((ordinal for kind, ordinal in devices if kind == "cuda"), default=-1)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(last_gpu + 2)]
    segments: list[dict[str, Any]] = []
    storages: list[dict[str, Any]] = []
    for (kind, ordinal), device in sorted(devices.items()):
        place = ordinal if kind == "cuda" else last_gpu + 1
        traces[place] = device.trace()
        segments += device.segments(place)
        storages += device.storages(f"{kind}:{ordinal}")
    shown = [place for place, trace in enumerate(traces) if trace] or [last_gpu + 1]
    return {
        "segments": segments,
        "device_traces": traces,
        "external_annotations": _markers((r for part in parts for r in part.ranges), shown),
        "snapreport": {"recorder": MADE_BY, "storages": storages},
    }


@dataclass
class _Block:
    """Memory from its alloc to its free."""

    address: int
    size: int
    frames: list[Frame]
    kind: str = ""
    name: str = ""

    @property
    def end(self) -> int:
        return self.address + self.size


class _Live:
    """The live blocks of a device, none of which overlap."""

    def __init__(self) -> None:
        self._addresses: list[int] = []
        self._blocks: dict[int, _Block] = {}

    def __iter__(self) -> Iterator[_Block]:
        return iter([self._blocks[address] for address in self._addresses])

    def add(self, block: _Block) -> list[_Block]:
        """Add a block; return the blocks it overlaps, whose frees the profiler did not report."""
        gone = []
        place = bisect_left(self._addresses, block.address)
        if place and self._blocks[self._addresses[place - 1]].end > block.address:
            place -= 1
        while place < len(self._addresses) and self._addresses[place] < block.end:
            gone.append(self._blocks.pop(self._addresses.pop(place)))
        insort(self._addresses, block.address)
        self._blocks[block.address] = block
        return gone

    def remove(self, address: int) -> _Block | None:
        block = self._blocks.pop(address, None)
        if block is not None:
            del self._addresses[bisect_left(self._addresses, address)]
        return block

    def around(self, address: int) -> _Block | None:
        """Return the block that contains an address."""
        place = bisect_left(self._addresses, address + 1)
        block = self._blocks[self._addresses[place - 1]] if place else None
        return block if block is not None and address < block.end else None


class _Device:
    """One device's events, put together from what the profiler saw of it."""

    def __init__(self) -> None:
        self._events: list[MemoryEvent] = []
        self._blocks: list[_Block] = []
        """Each event's block; a new one for a free whose allocation was not reported."""
        self._lost: dict[int, list[_Block]] = defaultdict(list)
        """Blocks found to be gone at an event, by its index."""
        self._live = _Live()
        self._unreported: list[tuple[int, SeenTensor]] = []
        """Tensors whose allocation was not reported, each with the number of events before it."""

    def replay(self, events: list[MemoryEvent], tensors: list[SeenTensor]) -> None:
        """Add the events of one run of the profiler and the tensors that it saw between them."""
        self.__dict__.pop("_baseline", None)
        waiting = tensors[::-1]
        for event in events:
            while waiting and waiting[-1].time_ns <= event.time_ns:
                self._note_tensor(waiting.pop())
            self._add_event(event)
        while waiting:
            self._note_tensor(waiting.pop())

    def _add_event(self, event: MemoryEvent) -> None:
        block: _Block | None
        if event.size < 0:
            block = self._live.remove(event.address)
            if block is None:
                block = _Block(event.address, -event.size, event.frames)
        else:
            block = _Block(event.address, event.size, event.frames)
            gone = self._live.add(block)
            if gone:
                self._lost[len(self._events)] += gone
        self._events.append(event)
        self._blocks.append(block)

    def _note_tensor(self, tensor: SeenTensor) -> None:
        block = self._live.around(tensor.address)
        if block is None:
            self._unreported.append((len(self._events), tensor))
        elif not block.kind or (block.kind == tensor.kind and not block.name):
            block.kind, block.name = tensor.kind, tensor.name

    @cached_property
    def _baseline(self) -> tuple[list[_Block], dict[int, list[_Block]]]:
        """Return the blocks live from start to end, and those live only at the start.

        The latter are keyed by the event that overlaps them. A tensor is left out if earlier
        events lie in its memory: it was allocated later, at an unknown time. So are gradients,
        which the next zero_grad() may free unreported.
        """
        address = np.array([block.address for block in self._blocks], np.int64)
        end = address + np.array([block.size for block in self._blocks], np.int64)
        is_free = np.array([event.size < 0 for event in self._events], np.bool_)
        blocks = _Live()
        gone: dict[int, list[_Block]] = defaultdict(list)
        ended: set[int] = set()
        for met, tensor in self._unreported:
            if tensor.kind == "gradient":
                continue
            block = _Block(tensor.address, tensor.size, [], tensor.kind, tensor.name)
            if block.address in ended or blocks.around(block.address) is not None:
                continue
            over = _first_over(block, address, end)
            if over < met:
                continue
            if over == len(address):
                blocks.add(block)
            elif not is_free[over]:
                gone[over].append(block)
                ended.add(block.address)
        return list(blocks), gone

    def trace(self) -> list[dict[str, Any]]:
        """Return the events in PyTorch's shape, with unreported frees where memory is reused."""
        _, gone = self._baseline
        trace: list[dict[str, Any]] = []
        for index, (event, block) in enumerate(zip(self._events, self._blocks, strict=True)):
            time_us = event.time_ns // 1000
            for lost in (*self._lost.get(index, ()), *gone.get(index, ())):
                trace += _frees(lost.address, lost.size, time_us, [])
            if event.size < 0:
                trace += _frees(block.address, block.size, time_us, event.frames)
                continue
            row = _event("alloc", block.address, block.size, time_us, event.frames)
            if block.kind:
                row["category"] = block.kind
            trace.append(row)
        return trace

    def segments(self, place: int) -> list[dict[str, Any]]:
        """Return the segments that the events and blocks lie in, with what is live at the end."""
        _, gone = self._baseline
        live = self._live_at_end()
        every = [*self._blocks, *live, *(block for blocks in gone.values() for block in blocks)]
        segments: list[dict[str, Any]] = []
        for first, end in _pieces(every):
            blocks: list[dict[str, Any]] = []
            at = first
            for block in (b for b in live if first <= b.address < end):
                if at < block.address:
                    blocks.append(_slice(at, block.address - at))
                blocks.append(_slice(block.address, block.size, block))
                at = block.end
            if at < end:
                blocks.append(_slice(at, end - at))
            # As in PyTorch's own conversion there is no segment_type: nothing reserved this.
            segments.append(
                {
                    "device": place,
                    "address": first,
                    "total_size": end - first,
                    "stream": 0,
                    "blocks": blocks,
                }
            )
        return segments

    def storages(self, device: str) -> list[dict[str, Any]]:
        """Return the parameters, gradients and optimizer states that are live at the end."""
        return [
            {
                "device": device,
                "address": block.address,
                "size": block.size,
                "kind": block.kind,
                "name": block.name,
            }
            for block in self._live_at_end()
            if block.kind
        ]

    def _live_at_end(self) -> list[_Block]:
        return sorted([*self._live, *self._baseline[0]], key=lambda block: block.address)


def _first_over(block: _Block, address: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """Return the index of the first event in a block's memory, or the number of events for none."""
    over = (address < block.end) & (end > block.address)
    return int(over.argmax()) if over.any() else len(over)


def _pieces(blocks: list[_Block]) -> list[tuple[int, int]]:
    """Return the start and end of each range of addresses that blocks lie in."""
    pieces: list[tuple[int, int]] = []
    for address, end in sorted((block.address, block.end) for block in blocks):
        if pieces and address - pieces[-1][1] < _APART:
            pieces[-1] = (pieces[-1][0], max(pieces[-1][1], end))
        else:
            pieces.append((address, end))
    return pieces


def _slice(address: int, size: int, live: _Block | None = None) -> dict[str, Any]:
    """Return a block in PyTorch's shape: inactive where none is live."""
    return {
        "address": address,
        "size": size,
        "requested_size": size if live else 0,
        "state": "active_allocated" if live else "inactive",
        "frames": live.frames if live else [],
    }


def _event(
    action: str, address: int, size: int, time_us: int, frames: list[Frame]
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": frames,
    }


def _frees(address: int, size: int, time_us: int, frames: list[Frame]) -> list[dict[str, Any]]:
    return [
        _event(action, address, size, time_us, frames)
        for action in ("free_requested", "free_completed")
    ]


def _markers(ranges: Iterable[NamedRange], places: list[int]) -> list[dict[str, Any]]:
    """Return the START and END of each range for each device, ordered so that they pair."""
    markers: list[tuple[int, int, dict[str, Any]]] = []
    for named in ranges:
        # At the same time, ends come before starts, but a range of no length starts first.
        start, end = named.start_ns, named.end_ns
        markers.append((start, 1, {"name": named.name, "stage": "START"}))
        if end is not None:
            markers.append((end, 2 if end == start else 0, {"name": named.name, "stage": "END"}))
    markers.sort(key=lambda marker: marker[:2])
    return [
        {**marker, "device": place, "time_us": time_ns // 1000}
        for time_ns, _, marker in markers
        for place in places
    ]
