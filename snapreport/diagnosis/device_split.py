"""The finding that one device of a program holds far more than the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Figure, Finding, Suggestion
from snapreport.model.findings import DeviceFigures

_UNEVEN = 1.5
"""The fullest device must hold at least this many times the mean."""
_MATTERS = 1 << 30
"""The fullest device must exceed the mean by this many bytes: less is not worth another split."""


def find_uneven_split(figures: Sequence[DeviceFigures]) -> Iterator[Finding]:
    """Yield the finding that a program's memory is spread unevenly over its devices.

    Args:
        figures: of the devices to compare; CPUs and devices that hold nothing are left out.
    """
    used = [
        each
        for each in figures
        if each.recorded and each.history.device.kind != "cpu" and each.peak.allocated
    ]
    if len(used) < 2:
        return
    fullest = max(used, key=lambda each: each.peak.allocated)
    top = fullest.peak.allocated
    mean = sum(each.peak.allocated for each in used) // len(used)
    if top < _UNEVEN * mean or top - mean < _MATTERS:
        return
    name = str(fullest.device)
    yield Finding(
        "uneven-split",
        "warning" if fullest.ooms else "note",
        f"{name} peaked at {format_bytes(top)}, {top / mean:.1f} times the mean of the"
        f" {len(used)} devices",
        "The devices of one program fill up unevenly, and the fullest sets the limit for all."
        + (" A request for memory failed on it." if fullest.ooms else ""),
        evidence=(
            Figure("mean of the peaks", mean),
            *(Figure(f"peak of {each.device}", each.peak.allocated) for each in used),
        ),
        suggestions=(
            Suggestion(
                "split-evenly",
                f"Move layers, experts or samples from {name} to the others. If all of it could be"
                f" split evenly, each device would hold {format_bytes(mean)}.",
                unless="Not possible where the devices have different tasks on purpose.",
            ),
        ),
        bytes=top - mean,
    )
