"""Exact categories: what is live at the end and belongs to a module's or an optimizer's tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from snapreport.model.history import DeviceHistory
from snapreport.model.recorder_notes import RecorderInfo


def state_categories(
    devices: Sequence[DeviceHistory], strings: list[str], noted: RecorderInfo | None
) -> tuple[tuple[DeviceHistory, ...], list[str]]:
    """Give allocations the categories of the storages that lie in them at the end.

    Args:
        devices: the devices of a file.
        strings: its texts, which categories point into; left as they are.
        noted: what the recorder noted, with the storages.

    Returns:
        the devices and texts, both new where a storage was found. What the trace states itself
        stays, and a storage that begins inside an allocation names nothing: the rest is not its.
    """
    if noted is None or not noted.storages:
        return tuple(devices), strings
    texts = list(strings)
    known = {text: i for i, text in reversed(list(enumerate(texts)))}
    changed = []
    for device in devices:
        kinds = {
            each.address: each.kind for each in noted.storages if each.device == str(device.device)
        }
        rows = device.allocations
        category = rows.category.copy()
        # Only one allocation can be live at an address; older ones there were something else.
        live = (rows.free_requested_event == device.events) & (category < 0)
        for row in np.flatnonzero(live).tolist():
            kind = kinds.get(int(rows.addr[row]))
            if kind is not None:
                if kind not in known:
                    known[kind] = len(texts)
                    texts.append(kind)
                category[row] = known[kind]
        changed.append(replace(device, allocations=replace(rows, category=category)))
    return tuple(changed), texts
