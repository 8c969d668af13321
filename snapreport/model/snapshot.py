"""What a snapshot file holds, as columns: the reader's output and the builder's input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.model.recorder_notes import RecorderInfo
from snapreport.model.stacks import StackTable

NO_TIME = -1
"""The event carries no ``time_us`` (PyTorch 2.1 and older, profiler-derived files)."""

NO_ID = -1
"""No row of the table that the column points into."""


@dataclass(frozen=True)
class Source:
    """The file that a history came from."""

    name: str
    size: int
    """Bytes on disk."""
    sha256: str
    """Hexadecimal digest of the file as it lies on disk."""


OTHER_CARDS = ("npu", "mlu", "musa", "gcu", "hpu", "xla", "xpu")
"""Kinds of cards whose backends write the same format with allocators of their own."""
CARDS = ("cuda", *OTHER_CARDS)
DEVICE_KINDS = (*CARDS, "host", "cpu")
"""Everything that ``DeviceId.kind`` can be."""


@dataclass(frozen=True, order=True)
class DeviceId:
    """One memory space with its own addresses: a GPU, pinned host memory, or a profiler's CPU."""

    kind: str
    """One of ``CARDS``, ``host`` (pinned) or ``cpu`` (profiler)."""
    ordinal: int

    @property
    def on_card(self) -> bool:
        """Whether it is a card's own memory."""
        return self.kind not in ("host", "cpu")

    def __str__(self) -> str:
        return f"{self.kind}:{self.ordinal}"


def pool_name(pool: tuple[int, int]) -> str:
    """Return a pool's two numbers, and what makes pools with such numbers."""
    first, second = pool
    made_by = ""
    if first and not second:
        made_by = " (CUDA graph)"
    elif second and not first:
        made_by = " (MemPool or graph_pool_handle)"
    return f"{first},{second}{made_by}"


@dataclass(frozen=True, eq=False)
class Trace:
    """One device's trace events in recorded order; every array has shape (n_events,)."""

    device: DeviceId
    actions: tuple[str, ...]
    """The distinct action names; ``action`` points in here."""
    action: NDArray[np.int16]
    addr: NDArray[np.int64]
    """Start address; for ``oom`` the free bytes on the device, where PyTorch keeps them too."""
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    time_us: NDArray[np.int64]
    """Microseconds since the Unix epoch, or NO_TIME."""
    stack: NDArray[np.int32]
    """Stack ids; NO_STACK where the event has no ``frames`` key. In a backward pass the frames of
    ``forward_frames`` stand outside of its own (GRADIENT_OF)."""
    pool: NDArray[np.int32]
    """Pool ids (rows of ``RawSnapshot.pools``), or NO_ID where the event does not say."""
    category: NDArray[np.int32]
    """String ids, or NO_ID, as the next three columns."""
    compile_context: NDArray[np.int32]
    metadata: NDArray[np.int32]
    internal: NDArray[np.int32]
    """What in the allocator made the event (``internal_metadata``); NO_ID for the program's own."""

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, eq=False)
class Segments:
    """One device's segments and blocks when the snapshot was taken, in address order."""

    address: NDArray[np.int64]
    """int64, shape (n_segments,), as the next seven columns."""
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    """Pool ids; NO_ID in files from before PyTorch 2.1."""
    large: NDArray[np.bool_]
    """``segment_type == 'large'``."""
    expandable: NDArray[np.bool_]
    stack: NDArray[np.int32]
    stated: NDArray[np.int64]
    """int64, (n_segments, 3): the file's own sizes, by STATED, or -1."""

    block_segment: NDArray[np.int32]
    """Rows of the segment arrays; int32, shape (n_blocks,), as the remaining columns."""
    block_address: NDArray[np.int64]
    block_size: NDArray[np.int64]
    block_requested: NDArray[np.int64]
    """Requested bytes; of an inactive block stale garbage in the file and 0 here."""
    block_state: NDArray[np.int8]
    """Positions in BLOCK_STATES."""
    block_stack: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.address)


BLOCK_STATES = ("active_allocated", "active_pending_free", "inactive")
ACTIVE, PENDING, INACTIVE = range(3)
STATED = ("allocated_size", "active_size", "requested_size")
"""What a file states of a segment, by the file's own names."""


@dataclass(frozen=True)
class Annotation:
    """One START or END marker of a named span."""

    device: DeviceId
    name: str
    start: bool
    time_us: int


@dataclass(frozen=True, eq=False)
class RawSnapshot:
    """A whole snapshot file as columns, before anything is concluded from it."""

    source: Source
    layout: str
    """``trace``, ``segments`` (a bare list), ``no-segments``, ``torch-2.0`` or ``profiler``."""
    stacks: StackTable
    strings: list[str]
    """Categories, compile contexts and metadata; the trace columns point in here."""
    pools: list[tuple[int, int]]
    traces: tuple[Trace, ...]
    """One per device that the file names, with or without events."""
    segments: dict[DeviceId, Segments]
    annotations: tuple[Annotation, ...]
    settings: dict[str, Any]
    """``allocator_settings`` as read; empty where the file has none."""
    oddities: dict[str, int]
    """Unknown keys and values met while reading, with how often: kept for the warnings."""
    recorder: RecorderInfo | None = None
    """What snapreport noted if it made the recording."""
    length: int = 0
    """Bytes that it was read from, unpacked."""
