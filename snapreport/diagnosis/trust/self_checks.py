"""Check a recording against itself: failed requests, the final state, and every warning.

A bundle's manifest has these warnings. They take a few milliseconds, all findings several times
that, so they can be computed alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from snapreport.diagnosis.trust.recording_warnings import device_warnings, file_warnings
from snapreport.figures.curves import (
    Curves,
    event_times,
    find_curves,
    find_peaks,
    reserved_from,
    time_at,
)
from snapreport.model.diagnoses import Finding, by_severity
from snapreport.model.history import DeviceHistory, History
from snapreport.model.recording_facts import Closing, OomEvent
from snapreport.model.snapshot import ACTIVE, INACTIVE
from snapreport.roles.lifetimes import find_roles


def find_warnings(history: History) -> list[Finding]:
    """Return every warning of ``find()``, those about the file before those about a device.

    If several devices have events, a warning about one begins with its name.
    """
    found = list(file_warnings(history))
    several = sum(1 for device in history.devices if device.events) > 1
    for device in history.devices:
        curves = find_curves(device, history.layout != "profiler")
        peaks = find_peaks(device, curves, event_times(device))
        closing = find_closing(device, curves, history.layout != "no-segments")
        ooms = find_ooms(device, curves)
        roles = partial(find_roles, device, history)
        for warning in device_warnings(
            device, history, curves, ooms, closing, peaks["allocated"], roles
        ):
            if warning.code == "nothing-allocated" and len(history.devices) > 1:
                continue
            title = f"{device.device}: {warning.title}" if several else warning.title
            found.append(replace(warning, title=title))
    return [*by_severity(found)]


def find_closing(history: DeviceHistory, curves: Curves, stated: bool = True) -> Closing | None:
    """Compare the end of the curves with the final segments; no segments count as 0 bytes.

    Args:
        curves: the device's.
        stated: whether the file has a final state.

    Returns:
        The differences; None without a final state, or if the device did nothing.
    """
    segments = history.segments
    if not stated or not (len(segments) or history.events):
        return None
    in_use = segments.block_state != INACTIVE
    held = segments.block_state == ACTIVE
    return Closing(
        requested=int(curves["requested"][-1]) - int(segments.block_requested[in_use].sum()),
        allocated=int(curves["allocated"][-1]) - int(segments.block_size[held].sum()),
        active=int(curves["active"][-1]) - int(segments.block_size[in_use].sum()),
    )


def find_ooms(history: DeviceHistory, curves: Curves) -> tuple[OomEvent, ...]:
    """Return the requests that failed, in order."""
    other = history.other
    known = reserved_from(curves)
    found = []
    for i, action in enumerate(other.action):
        if action != "oom":
            continue
        event = int(other.event[i])
        found.append(
            OomEvent(
                event=event,
                time_us=time_at(other.time_us, i),
                size=int(other.size[i]),
                device_free=int(other.addr[i]),
                allocated=int(curves["allocated"][event + 1]),
                reserved=int(curves["reserved"][event + 1])
                if known is not None and event >= known
                else None,
                stack=int(other.stack[i]),
            )
        )
    return tuple(found)
