"""Facts about a recording: peaks, failed requests, how the events match the final state.

Writing a bundle only needs these; ``findings`` has the rest.
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
    bound: str = ""
    """``most`` or ``least`` where the recording left out the events at which the curve falls, or
    does not show how large blocks are."""


@dataclass(frozen=True)
class OomEvent:
    """A failed request for memory."""

    event: int
    time_us: int | None
    size: int
    """The rounded request that failed."""
    device_free: int
    """Free bytes on the device, by the driver's count."""
    allocated: int
    reserved: int | None
    """None where no allocator reserves memory (profiler files)."""
    stack: int
    """Stack id or NO_STACK."""


@dataclass(frozen=True)
class Closing:
    """The end of the curves compared with the file's final segments, in bytes."""

    requested: int
    """Replayed minus stated, as in the next two; 0 if they agree."""
    allocated: int
    active: int

    @property
    def closes(self) -> bool:
        """Whether all three agree to the byte."""
        return self.requested == self.allocated == self.active == 0


@dataclass(frozen=True)
class OwnCounters:
    """PyTorch's own counters of a device, compared with ours; in bytes."""

    allocated_peak: int
    """``torch.cuda.max_memory_allocated()`` at the end, since its last reset."""
    reserved_peak: int
    when: str
    """When that peak was: ``inside`` the recording, ``before`` it (or equal to one then), or
    ``reset``: since a reset inside the recording."""
    agrees: bool
    """Whether our peak is consistent with it: equal if inside, no higher if before."""
    foreign_before: int | None
    """Device memory that was not PyTorch's when the recording began: other processes', and the
    CUDA context; None where the driver was not asked."""
    foreign_after: int | None
    """The same at the end of the recording."""
