"""What a recording shows of itself: peaks, failed requests, the closing law, warnings.

A bundle is written with these alone; ``findings`` has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CurvePeak:
    """The most of one curve, at the first event that attains it."""

    bytes: int
    event: int
    time_us: int | None
    width: int = 0
    """The true peak lies between ``bytes`` and ``bytes + width``, perhaps at another event."""


@dataclass(frozen=True)
class OomEvent:
    """A failed request for memory."""

    event: int
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


@dataclass(frozen=True)
class OwnCounters:
    """PyTorch's own counters of a device, beside ours; in bytes."""

    allocated_peak: int
    """``torch.cuda.max_memory_allocated()`` at the end, since its last reset."""
    reserved_peak: int
    when: str
    """When that peak was: ``inside`` the recording, ``before`` it (or equal to one then), or
    ``reset``: since a reset inside the recording."""
    agrees: bool
    """Whether ours is what follows from it: the same if inside, no more if before it."""
    foreign_before: int | None
    """Device memory that was not PyTorch's when the recording began: other processes', and the
    CUDA context; None where the driver was not asked."""
    foreign_after: int | None
    """Likewise at its end."""
