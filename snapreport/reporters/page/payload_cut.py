"""The columns of a page that does not draw every allocation one by one."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from snapreport.model.cut import Drawn
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.model.history import Allocations


def drawn_devices(findings: Findings) -> list[DeviceFindings]:
    """Return the devices with only the allocations that are drawn, and with the drawn times."""
    if findings.picture is None:
        return list(findings.devices)
    return [_drawn(*each) for each in zip(findings.devices, findings.picture.devices, strict=True)]


def _drawn(device: DeviceFindings, drawn: Drawn) -> DeviceFindings:
    rows = drawn.rows
    allocations = device.history.allocations
    kept = {field.name: getattr(allocations, field.name)[rows] for field in fields(Allocations)}
    return replace(
        device,
        history=replace(device.history, allocations=Allocations(**kept)),
        missing=device.missing[rows],
        category=device.category[rows],
        roles=replace(
            device.roles, role=device.roles.role[rows], evidence=device.roles.evidence[rows]
        ),
        labels=tuple((by, (number[rows], names)) for by, (number, names) in device.labels),
        times=device.times if drawn.times is None else drawn.times,
    )


def cut_columns(device: DeviceFindings, drawn: Drawn) -> dict[str, NDArray[np.int64]]:
    """Return the columns that only such a page has; all but ``version`` are stored as differences.

    ``row``: each drawn allocation's row among all of the device; ``version``: how many allocations
    came before it at its address, unknown to the page; ``rest_*``: as in ``model.cut.Rest``.
    """
    rest = drawn.rest
    return {
        "row": drawn.rows,
        "version": device.history.allocations.version.astype(np.int64),
        "rest_event": rest.event,
        "rest_requested": rest.requested,
        "rest_allocated": rest.allocated,
        "rest_active": rest.active,
        "rest_count_allocated": rest.count_allocated,
        "rest_count_requested": rest.count_requested,
    }
