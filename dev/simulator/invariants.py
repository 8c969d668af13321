"""What holds for every snapshot that PyTorch writes, checked without the simulator's truth."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import Any

from dev.simulator.settings import (
    DIVISION_KEYS,
    LARGE_SEGMENT,
    MIB,
    MIN_BLOCK,
    SEGMENT_ROUNDING,
    SMALL_SEGMENT,
    AllocatorSettings,
    is_small,
)

_FREES = ("free_requested", "free_completed")


def violations(snapshot: dict[str, Any]) -> list[str]:
    """List what a snapshot breaks of the rules; empty for a sound one.

    Frees whose alloc or request lies before the trace are taken as such, so truncated and late
    recordings pass. ``skip_actions`` is not allowed for.
    """
    settings = _settings(snapshot)
    found = []
    for segment in snapshot["segments"]:
        found += _segment_violations(segment, settings)
    found += _order_violations(snapshot["segments"])
    for device, trace in enumerate(snapshot["device_traces"]):
        segments = [s for s in snapshot["segments"] if s["device"] == device]
        problems = _trace_violations(trace, segments, settings)
        found += [f"device {device}: {problem}" for problem in problems]
    found += _annotation_violations(snapshot["external_annotations"])
    return found


def _settings(snapshot: dict[str, Any]) -> AllocatorSettings:
    stated = snapshot["allocator_settings"]
    divisions = tuple(stated["roundup_power2_divisions"][key] for key in DIVISION_KEYS)
    found = re.findall(r"(\w+)_mb:(\d+)", stated["PYTORCH_CUDA_ALLOC_CONF"])
    sizes = {str(name): int(size) * MIB for name, size in found}
    return AllocatorSettings(
        stated["expandable_segments"],
        stated["max_split_size"],
        divisions,
        large_segment_size=sizes.get("large_segment_size", LARGE_SEGMENT),
        max_non_split_rounding=sizes.get("max_non_split_rounding", 0),
    )


def _segment_violations(segment: dict[str, Any], settings: AllocatorSettings) -> list[str]:
    blocks = segment["blocks"]
    used = [block for block in blocks if block["state"] != "inactive"]
    held = [block for block in used if block["state"] == "active_allocated"]
    small = segment["segment_type"] == "small"
    ordinary_small = small and not segment["is_expandable"]
    checks = {
        "block sizes make up total_size": _total(blocks) == segment["total_size"],
        "allocated_size": _total(held) == segment["allocated_size"],
        "active_size": _total(used) == segment["active_size"],
        "requested_size": sum(b["requested_size"] for b in used) == segment["requested_size"],
        "total_size in steps of 2 MiB": segment["total_size"] % SEGMENT_ROUNDING == 0,
        "address in steps of 2 MiB": segment["address"] % SEGMENT_ROUNDING == 0,
        "small segments of 2 MiB": not ordinary_small or segment["total_size"] == SMALL_SEGMENT,
    }
    address = segment["address"]
    before = ""
    for block in blocks:
        state, size = block["state"], block["size"]
        checks["blocks are contiguous"] = block["address"] == address and checks.get(
            "blocks are contiguous", True
        )
        checks[f"block size {size} in steps of 512"] = size % MIN_BLOCK == 0
        checks[f"free neighbours at {address:#x} merge"] = not before == state == "inactive"
        checks[f"inactive block at {address:#x} has no frames"] = (
            state != "inactive" or block["frames"] == []
        )
        if state != "inactive":
            requested = block["requested_size"]
            checks[f"request {requested} fits block {size}"] = 0 < requested <= size
            slack = size - settings.round_size(requested)
            exact = small or (segment["is_expandable"] and settings.expandable_segments)
            most = MIB
            if settings.is_oversize(size):
                most = settings.rounding
            checks[f"slack {slack} of block {size}"] = slack == 0 if exact else 0 <= slack <= most
            checks[f"block {size} is in the right pool"] = small == is_small(size - slack)
        address += size
        before = state
    return [
        f"segment {segment['address']:#x}: {name}" for name, holds in checks.items() if not holds
    ]


def _total(blocks: list[dict[str, Any]]) -> int:
    return sum(block["size"] for block in blocks)


def _order_violations(segments: list[dict[str, Any]]) -> list[str]:
    """Segments come by device, then by address, and are disjoint."""
    found = []
    for segment, following in pairwise(segments):
        end = segment["address"] + segment["total_size"]
        if segment["device"] > following["device"] or (
            segment["device"] == following["device"] and end > following["address"]
        ):
            found.append(f"segment {following['address']:#x} comes too early")
    return found


def _annotation_violations(annotations: list[dict[str, Any]]) -> list[str]:
    """Markers come in order of time; each END closes the latest open START, if that is known."""
    times = [marker["time_us"] for marker in annotations]
    found = [] if times == sorted(times) else ["annotations are not in order of time"]
    open_stages: list[tuple[int, str]] = []
    for marker in annotations:
        stage = (marker["device"], marker["name"])
        if marker["stage"] == "START":
            open_stages.append(stage)
        elif open_stages and open_stages.pop() != stage:
            found.append(f"END of {stage[1]!r} closes another stage")
    return found


class _Extents:
    """The mapped memory of a device while its trace is undone and done again."""

    def __init__(self, segments: list[dict[str, Any]]) -> None:
        self.parts: dict[int, int] = {}
        """Granule of 2 MiB: start of the segment that holds it, or -1 if expandable."""
        for segment in segments:
            owner = -1 if segment["is_expandable"] else segment["address"]
            for granule in self._granules(segment["address"], segment["total_size"]):
                self.parts[granule] = owner

    @staticmethod
    def _granules(address: int, size: int) -> range:
        return range(address, address + size, SEGMENT_ROUNDING)

    def add(self, address: int, size: int, *, expandable: bool) -> bool:
        """Map a range; False if some of it is mapped already."""
        granules = self._granules(address, size)
        fresh = not any(granule in self.parts for granule in granules)
        self.parts.update(dict.fromkeys(granules, -1 if expandable else address))
        return fresh

    def remove(self, address: int, size: int, *, expandable: bool) -> bool:
        """Unmap a range; False if some of it is not mapped, or by another kind of segment."""
        granules = self._granules(address, size)
        owners = [self.parts.pop(granule, None) for granule in granules]
        return owners == [-1 if expandable else address] * len(granules)

    def end_of(self, address: int) -> int:
        """Return where the segment that holds an address ends; 0 if none does."""
        granule = address - address % SEGMENT_ROUNDING
        owner = self.parts.get(granule)
        if owner is None:
            return 0
        while self.parts.get(granule) == owner:
            granule += SEGMENT_ROUNDING
        return granule


def _trace_violations(
    trace: list[dict[str, Any]], segments: list[dict[str, Any]], settings: AllocatorSettings
) -> list[str]:
    found = []
    if any("time_us" in event for event in trace):
        times = [event["time_us"] for event in trace]
        if times != sorted(times):
            found.append("time_us decreases")
    extents = _Extents(segments)
    for index in reversed(range(len(trace))):
        event = trace[index]
        kind, _, change = event["action"].partition("_")
        if kind == "segment":
            expandable = change in ("map", "unmap")
            undo = extents.remove if change in ("alloc", "map") else extents.add
            if not undo(event["addr"], event["size"], expandable=expandable):
                found.append(f"event {index}: {event['action']} cannot be undone")
    return found + _Replay(trace, segments, extents, settings).problems()


class _Replay:
    """Carries a trace out forwards, recovering block sizes by the hole rule."""

    def __init__(
        self,
        trace: list[dict[str, Any]],
        segments: list[dict[str, Any]],
        extents: _Extents,
        settings: AllocatorSettings,
    ) -> None:
        self.trace = [event for event in trace if "internal_metadata" not in event]
        self.extents = extents
        self.settings = settings
        self.found: list[str] = []
        self.blocks = {
            block["address"]: (block, segment)
            for segment in segments
            for block in segment["blocks"]
            if block["state"] != "inactive"
        }
        self.live: dict[int, tuple[int, int | None, bool]] = {}
        """By address: requested size, block size (None if unknown), whether still allocated."""
        self._find_baseline()
        self.starts = sorted(self.live)

    def _find_baseline(self) -> None:
        touched = set()
        for event in self.trace:
            action, addr = event["action"], event.get("addr", 0)
            if action == "alloc" or action in _FREES:
                if addr not in touched and action in _FREES:
                    self.live[addr] = (event["size"], None, action == "free_requested")
                touched.add(addr)
        for addr, (block, _) in self.blocks.items():
            if addr not in touched:
                allocated = block["state"] == "active_allocated"
                self.live[addr] = (block["requested_size"], block["size"], allocated)

    def problems(self) -> list[str]:
        for index, event in enumerate(self.trace):
            action = event["action"]
            if action == "alloc":
                self._alloc(index, event)
            elif action in _FREES:
                self._free(index, event)
            elif action == "snapshot":
                sizes = [size for _, size, _ in self.live.values()]
                if None not in sizes and sum(s for s in sizes if s) != event["size"]:
                    self.found.append(f"event {index}: snapshot does not state the active bytes")
            elif action.startswith("segment_"):
                self._segment(action, event)
        self._compare_end()
        return self.found

    def _segment(self, action: str, event: dict[str, Any]) -> None:
        change = action.removeprefix("segment_")
        redo = self.extents.add if change in ("alloc", "map") else self.extents.remove
        redo(event["addr"], event["size"], expandable=change in ("map", "unmap"))

    def _alloc(self, number: int, event: dict[str, Any]) -> None:
        addr, size = event["addr"], self.settings.round_size(event["size"])
        if addr in self.live:
            self.found.append(f"event {number}: alloc on a live address")
        index = bisect_right(self.starts, addr)
        end = self.extents.end_of(addr)
        if index < len(self.starts):
            end = min(end, self.starts[index])
        hole = end - addr
        if hole < size:
            self.found.append(f"event {number}: alloc of {size} in a hole of {hole}")
        split = self.settings.should_split(hole, size, small=is_small(size))
        self.starts.insert(index, addr)
        self.live[addr] = (event["size"], size if split else hole, True)

    def _free(self, number: int, event: dict[str, Any]) -> None:
        addr = event["addr"]
        if addr not in self.live:
            self.found.append(f"event {number}: free of an address that is not live")
            return
        requested, size, allocated = self.live[addr]
        if requested != event["size"]:
            self.found.append(f"event {number}: free of another size than was allocated")
        if allocated != (event["action"] == "free_requested"):
            self.found.append(f"event {number}: {event['action']} out of turn")
        if event["action"] == "free_requested":
            self.live[addr] = (requested, size, False)
        else:
            del self.live[addr]
            self.starts.remove(addr)

    def _compare_end(self) -> None:
        final = {
            addr: (block["requested_size"], block["state"] == "active_allocated")
            for addr, (block, _) in self.blocks.items()
        }
        replayed = {addr: (live[0], live[2]) for addr, live in self.live.items()}
        if final != replayed:
            self.found.append("the replay ends with other blocks than the segments hold")
        for addr, (_, size, _) in self.live.items():
            if size is not None and addr in self.blocks and self.blocks[addr][0]["size"] != size:
                self.found.append(f"block {addr:#x}: recovered size is wrong")
