"""What reserved memory consisted of: parts that sum to it, to the byte."""

from __future__ import annotations

from dataclasses import dataclass

from snapreport.ground.units import format_bytes
from snapreport.model.findings import DeviceFindings
from snapreport.model.trust import ReservedParts
from snapreport.reporters.words.trust_words import PARTS

_KINDS = {"awaiting_free": "pending", "fragmented": "fragmentation"}
"""CSS classes of parts, where they differ from the names in ``PARTS``."""


@dataclass(frozen=True)
class Part:
    """One part of reserved memory."""

    kind: str
    """``requested``, ``slack``, ``pending``, ``fragmentation`` or ``returnable``."""
    label: str
    bytes: int
    percent: float
    """Its percentage of reserved memory."""

    @property
    def text(self) -> str:
        """The label and the size."""
        return f"{self.label} {format_bytes(self.bytes)}"


def reserved_parts(device: DeviceFindings) -> tuple[Part, ...]:
    """Split reserved memory at the peak; empty if no allocator reserved any.

    Blocks awaiting free, if any, are a part of their own; requested and slack then count only the
    allocated blocks, which the call sites hold.
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
    return tuple(Part(*each, 100 * max(each[-1], 0) / peak.reserved) for each in sizes)


def parts_of(found: ReservedParts) -> tuple[Part, ...]:
    """Return the parts at a moment when memory was reserved."""
    sizes = [(_KINDS.get(name, name), title, getattr(found, name)) for name, title in PARTS]
    return tuple(Part(*each, 100 * max(each[-1], 0) / found.reserved) for each in sizes)
