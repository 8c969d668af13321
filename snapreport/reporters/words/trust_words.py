"""Words that the text and the page share to say how far a recording can be trusted."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_share
from snapreport.model.recording_facts import CurvePeak
from snapreport.model.trust import ReservedParts, Trust

PARTS = (
    ("requested", "requested"),
    ("slack", "slack"),
    ("awaiting_free", "awaiting free"),
    ("fragmented", "inactive, fragmented"),
    ("returnable", "inactive, returnable"),
)
"""The parts of reserved memory: their names in ``ReservedParts``, and in words."""


def part_rows(parts: ReservedParts) -> list[tuple[str, str]]:
    """Return bytes and share of each of ``PARTS``, as texts."""
    sizes = [getattr(parts, name) for name, _ in PARTS]
    return [(format_bytes(size), format_share(size, parts.reserved)) for size in sizes]


def reserved_moments(trust: Trust) -> list[tuple[str, ReservedParts]]:
    """Return the moments at which the parts of reserved memory are known, and those parts."""
    moments = (("at the peak", trust.facts.at_peak), ("at the end", trust.facts.at_end))
    return [(name, parts) for name, parts in moments if parts and parts.reserved]


def difference_text(parts: ReservedParts) -> str:
    """Say by how much the sum of the parts differs from reserved; ``""`` where it is equal."""
    return f"{parts.difference:+,} bytes off" if parts.difference else ""


def exactness(peak: CurvePeak) -> str:
    """Say whether a peak is exact, or by how much it may be higher."""
    if peak.bound:
        return f"at {peak.bound} this much"
    return f"up to {format_bytes(peak.width)} higher" if peak.width else "exact"
