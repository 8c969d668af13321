"""The input of an exporter: a history, and what is live at a moment of each device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapreport.model.answer_tables import LiveRows
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.stacks import FrameTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
