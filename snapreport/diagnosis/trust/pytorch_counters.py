"""Compare PyTorch's own counters with our figures, where a recording has both."""

from __future__ import annotations

from snapreport.model.recorder_notes import RecordedDevice
from snapreport.model.recording_facts import CurvePeak, OwnCounters


def own_counters(noted: RecordedDevice | None, peaks: dict[str, CurvePeak]) -> OwnCounters | None:
    """Compare PyTorch's allocated peak with ours; None if its counters were not read.

    PyTorch's peak counts from its last reset, which may be before the recording or during it. Only
    a peak that rose during the recording must equal ours, to the byte.

    Args:
        noted: what the recorder noted about the device.
        peaks: of the device's curves.
    """
    after = None if noted is None else noted.stat("allocated_bytes.all.peak")
    if noted is None or after is None:
        return None
    before = noted.stat("allocated_bytes.all.peak", "before") or 0
    ours = peaks["allocated"]
    if after > before:
        when = "inside"
        agrees = ours.bytes <= after <= ours.bytes + ours.width
    elif after == before:
        when = "before"
        agrees = ours.bytes <= after
    else:
        when = "reset"
        agrees = after <= ours.bytes + ours.width
    return OwnCounters(
        allocated_peak=after,
        reserved_peak=noted.stat("reserved_bytes.all.peak") or 0,
        when=when,
        agrees=agrees,
        foreign_before=_foreign(noted, "before"),
        foreign_after=_foreign(noted, "after"),
    )


def _foreign(noted: RecordedDevice, when: str) -> int | None:
    """Return the bytes held outside PyTorch's allocator: other processes, and the CUDA context."""
    free = noted.free_before if when == "before" else noted.free_after
    total = noted.total_before if when == "before" else noted.total_after
    if free is None or total is None:
        return None
    return max(total - free - (noted.stat("reserved_bytes.all.current", when) or 0), 0)
