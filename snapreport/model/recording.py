"""What a recording shows of itself: peaks, failed requests, the closing law, warnings.

A bundle is written with these alone; ``findings`` has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CurvePeak:
    """The most of one curve, at the first step that attains it."""

    bytes: int
    step: int
    time_us: int | None
    width: int = 0
    """The true peak lies between ``bytes`` and ``bytes + width``, perhaps at another step."""


@dataclass(frozen=True)
class OomEvent:
    """A failed request for memory."""

    step: int
    time_us: int | None
    size: int
    """The rounded request that failed."""
    device_free: int
    """Free bytes on the device, as the driver told."""
    allocated: int
    reserved: int | None
    """None where no allocator reserves memory (profiler files)."""
    stack: int
    """Stack id or NO_STACK."""


@dataclass(frozen=True)
class Closing:
    """The closing law: the replay's end against the sums over the final segments, in bytes."""

    requested: int
    """Replayed minus stated; 0 when it closes; likewise the next two."""
    allocated: int
    active: int

    @property
    def closes(self) -> bool:
        """Whether all three agree to the byte."""
        return self.requested == self.allocated == self.active == 0
