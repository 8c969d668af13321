"""The finding about devices of one program of which one holds far more than the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Figure, Finding, Suggestion
from snapreport.model.findings import DeviceFigures

_UNEVEN = 1.5
"""The fullest device holds at least so many times the mean."""
_MATTERS = 1 << 30
"""Bytes between the fullest device and the mean: less is not worth another split."""


def find_uneven_split(figures: Sequence[DeviceFigures]) -> Iterator[Finding]:
    """Say that the memory of a program lies unevenly on its devices.

    Args:
        figures: of the devices that are looked at; those that are no GPU, or hold nothing, are
            left out.
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
