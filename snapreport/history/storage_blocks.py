"""Exact categories and names for allocations that hold modules' and optimizers' tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from snapreport.model.history import DeviceHistory
from snapreport.model.recorder_notes import RecorderInfo


def state_categories(
    devices: Sequence[DeviceHistory], strings: list[str], noted: RecorderInfo | None
) -> tuple[tuple[DeviceHistory, ...], list[str]]:
    """Give allocations the categories and names of the storages in them at the end.

    A name is that of a parameter or buffer in its module, such as ``blocks.3.mlp.weight``; it is
    the allocation's metadata where PyTorch recorded none.

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

    def place(text: str) -> int:
        if text not in known:
            known[text] = len(texts)
            texts.append(text)
        return known[text]

    changed = []
    for device in devices:
        storages = {
            each.address: each for each in noted.storages if each.device == str(device.device)
        }
        rows = device.allocations
        category, metadata = rows.category.copy(), rows.metadata.copy()
        # Only one allocation can be live at an address; older ones there were something else.
        live = rows.free_requested_event == device.events
        for row in np.flatnonzero(live).tolist():
            storage = storages.get(int(rows.addr[row]))
            if storage is None:
                continue
            if category[row] < 0:
                category[row] = place(storage.kind)
            if metadata[row] < 0 and storage.name:
                metadata[row] = place(storage.name)
        named = replace(rows, category=category, metadata=metadata)
        changed.append(replace(device, allocations=named))
    return tuple(changed), texts
