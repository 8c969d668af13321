"""What reserved memory consisted of at the peak: parts that sum to it, to the byte."""

from __future__ import annotations

from dataclasses import dataclass

from snapreport.ground.units import format_bytes
from snapreport.model.findings import DeviceFindings


@dataclass(frozen=True)
class Part:
    """One part of reserved memory."""

    kind: str
    """``requested``, ``slack``, ``pending``, ``fragmentation`` or ``returnable``."""
    label: str
    bytes: int
    percent: float
    """Of reserved memory."""

    @property
    def text(self) -> str:
        """Label and size."""
        return f"{self.label} {format_bytes(self.bytes)}"


def reserved_parts(device: DeviceFindings) -> tuple[Part, ...]:
    """Split reserved memory at the peak; nothing where no allocator reserved any.

    Blocks awaiting their free are a part of their own where there are any: requested and slack
    are then those of the allocated blocks, which the call sites hold.
    """
    peak = device.peak
    if not peak.reserved or peak.inactive is None or peak.fragmentation is None:
        return ()
    requested = sum(site.requested for site in device.sites)
    pending = peak.active - peak.allocated
    live = ", live" if pending else ""
    sizes = [
        ("requested", f"requested{live}", requested),
        ("slack", f"slack{live}", peak.allocated - requested),
        *([("pending", "awaiting free", pending)] if pending else []),
        ("fragmentation", "inactive, fragmented", peak.fragmentation),
        ("returnable", "inactive, returnable", peak.inactive - peak.fragmentation),
    ]
    return tuple(
        Part(kind, label, size, 100 * max(size, 0) / peak.reserved) for kind, label, size in sizes
    )
