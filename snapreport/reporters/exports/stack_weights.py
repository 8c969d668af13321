"""What exporters share: the memory to be written, added up by call stack, and names of frames."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import visible
from snapreport.model.answers import LiveRows
from snapreport.model.findings import MISSING_REASONS, DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import DeviceId, FrameTable, StackTable, short_name


@dataclass(frozen=True, eq=False)
class DeviceExport:
    """One device at a moment."""

    found: DeviceFigures
    event: int
    """-1 is the start."""
    live: LiveRows
    """The allocations live then, and their bytes in the export's curve."""


@dataclass(frozen=True, eq=False)
class Export:
    """What is to be written in another tool's format."""

    history: History
    stack_sites: NDArray[np.int32]
    """The call site of each stack, a frame id; -1 for an empty stack."""
    site_frames: FrameTable
    """The frames as they are named as call sites."""
    forward: tuple[NDArray[np.int64], list[str]]
    """The forward line behind each stack, the last for NO_STACK; and the lines' names, the first
    for none."""
    curve: str
    """``allocated``, ``active`` (both block bytes) or ``requested``: which bytes are counted, and
    until when an allocation counts."""
    devices: tuple[DeviceExport, ...]
    at_moment: bool
    """Whether a moment was named; otherwise it is the peak, and tables have all allocations."""


_MACHINERY = re.compile(
    r"torch::(unwind|CapturedTraceback|cuda::\(anonymous namespace\)::gather|cuda::gather)"
    r"|c10::cuda::CUDACachingAllocator::"
)
"""Frames of the allocator and of what recorded the stack, not of the code that asked for memory."""


@dataclass(frozen=True)
class StackWeight:
    """Allocations of one call stack, live at the moment and over the whole recording."""

    frames: tuple[int, ...]
    """Frame ids, outermost first, up to the caller of the allocator; may be empty."""
    reason: str
    """Why there are no frames; ``""`` if there are."""
    live_bytes: int
    live_count: int
    all_bytes: int
    """Of all allocations, including those freed and those from before the recording."""
    all_count: int


def weigh_stacks(export: Export) -> list[StackWeight]:
    """Add up the first device's allocations by call stack, once each, most live bytes first."""
    device = export.devices[0]
    rows = device.found.history.allocations
    stacks = export.history.stacks
    # Different stack ids may be the same node; reasons have negative numbers.
    missing = device.found.missing.astype(np.int64)
    node = np.where(missing > 0, -missing, 0)
    framed = missing == 0
    node[framed] = _callers(stacks)[stacks.stack_node[rows.stack[framed]]]
    nodes, group = np.unique(node, return_inverse=True)
    sizes = rows.weights(export.curve)

    def added(chosen: NDArray[np.int64], amounts: NDArray[np.int64] | int) -> list[int]:
        total = np.zeros(len(nodes), np.int64)
        np.add.at(total, group[chosen], amounts)
        values: list[int] = total.tolist()
        return values

    everyone = np.arange(len(rows), dtype=np.int64)
    columns = zip(
        nodes.tolist(),
        added(device.live.rows, device.live.bytes),
        added(device.live.rows, 1),
        added(everyone, sizes),
        added(everyone, 1),
        strict=True,
    )
    found = [
        StackWeight(tuple(stacks.path_from(n))[::-1], "" if n >= 0 else MISSING_REASONS[-n], *sums)
        for n, *sums in columns
    ]
    return sorted(found, key=lambda each: (-each.live_bytes, -each.all_bytes, each.frames))


def _callers(stacks: StackTable) -> NDArray[np.int64]:
    """Return for each node the innermost one that is not the allocator's, or itself if all are."""
    inner = np.array([_MACHINERY.match(name) is not None for name in stacks.frames.names], np.bool_)
    found = np.arange(len(stacks.node_parent), dtype=np.int64)
    for node in np.flatnonzero(inner[stacks.node_frame]).tolist():  # parents come first
        if stacks.node_parent[node] >= 0:
            found[node] = found[stacks.node_parent[node]]
    return found


def frame_text(name: str, filename: str, line: int) -> str:
    """Return ``function (file:line)`` on one line, without arguments and ``??`` of C++."""
    short = visible(short_name(name))
    filename = visible(filename)
    if filename in ("", "??", "none"):
        return short
    return f"{short} ({filename}:{line})" if line > 0 else f"{short} ({filename})"


def frame_texts(frames: FrameTable) -> list[str]:
    """Return ``frame_text()`` of every frame."""
    columns = (frames.names, frames.filenames, frames.lines.tolist())
    return [frame_text(*each) for each in zip(*columns, strict=True)]


def stack_nodes(export: Export, found: DeviceFigures) -> NDArray[np.int64]:
    """Return the node of each allocation's stack, the same for equal stacks; -1 without frames."""
    nodes = np.full(len(found.missing), -1, np.int64)
    framed = found.missing == 0
    nodes[framed] = export.history.stacks.stack_node[found.history.allocations.stack[framed]]
    return nodes


def site_names(export: Export, found: DeviceFigures) -> tuple[list[str], NDArray[np.int64]]:
    """Name the call site of every allocation, each name once.

    Returns:
        the names: ``function (file:line)``, or why there is none; and int64, the name of each
        allocation.
    """
    frames = export.site_frames
    rows = found.history.allocations
    n_reasons = len(MISSING_REASONS)
    key = found.missing.astype(np.int64)
    framed = key == 0
    key[framed] = export.stack_sites[rows.stack[framed]] + n_reasons
    keys, place = np.unique(key, return_inverse=True)
    names = [
        MISSING_REASONS[k]
        if k < n_reasons
        else frame_text(
            frames.names[k - n_reasons],
            frames.filenames[k - n_reasons],
            int(frames.lines[k - n_reasons]),
        )
        for k in keys.tolist()
    ]
    return names, place.astype(np.int64)


def moment_text(device: DeviceId, curve: str, event: int) -> str:
    """Say what a flame graph shows: ``cuda:0, allocated bytes after event 3485``."""
    when = "at the start" if event < 0 else f"after event {event}"
    return f"{device}, {curve} bytes {when}"


def stack_texts(stacks: StackTable, nodes: Sequence[int]) -> list[str]:
    """Return stacks as text, a line for each frame, innermost first."""
    texts = frame_texts(stacks.frames)
    return ["\n".join(texts[f] for f in stacks.path_from(node)) for node in nodes]
