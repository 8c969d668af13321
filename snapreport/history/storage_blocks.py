"""What the program said of its allocations: annotations, and the tensors that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.model.history import ANNOTATE, Allocations, DeviceHistory
from snapreport.model.recorder_notes import RecorderInfo
from snapreport.model.snapshot import NO_ID, RawSnapshot, Trace
from snapreport.native.sorting import distinct, stable_order


def join_annotations(
    devices: Sequence[DeviceHistory], snapshot: RawSnapshot, oddities: dict[str, int]
) -> tuple[tuple[DeviceHistory, ...], list[str]]:
    """Add each annotation to the metadata of the allocation that was live at its address.

    Metadata that was set when memory was allocated stays the first line. Each annotation is a line
    of its own, in the order of the events.

    Args:
        devices: the devices of the file.
        snapshot: the file.
        oddities: annotations that fit no allocation are counted here.

    Returns:
        the devices and all texts, both new where there is an annotation.
    """
    if not any(ANNOTATE in trace.actions for trace in snapshot.traces):
        return tuple(devices), snapshot.strings
    texts = list(snapshot.strings)
    known = {text: i for i, text in enumerate(texts)}
    left = snapshot.length  # a file can repeat one long text for each of its allocations
    changed = []
    for device, trace in zip(devices, snapshot.traces, strict=True):
        events, rows = _annotated(device.allocations, trace)
        metadata = device.allocations.metadata.copy()
        for event, row in zip(events.tolist(), rows.tolist(), strict=True):
            what = trace.metadata[event]
            if what == NO_ID:
                continue
            if row == NO_ID:
                name = "annotation of memory that is not allocated"
                oddities[name] = oddities.get(name, 0) + 1
                continue
            if metadata[row] != NO_ID:
                left -= len(texts[metadata[row]]) + len(texts[what])
                if left < 0:
                    name = "annotation that is too long to keep"
                    oddities[name] = oddities.get(name, 0) + 1
                    continue
                text = f"{texts[metadata[row]]}\n{texts[what]}"
                what = known.setdefault(text, len(texts))
                if what == len(texts):
                    texts.append(text)
            metadata[row] = what
        allocations = replace(device.allocations, metadata=metadata)
        changed.append(replace(device, allocations=allocations))
    return tuple(changed), texts


def _annotated(rows: Allocations, trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the events that annotate, and the allocation that each names; NO_ID for none."""
    names = np.array([name == ANNOTATE for name in trace.actions], np.bool_)
    events = np.flatnonzero(names[trace.action]) if len(trace) else np.empty(0, np.int64)
    addresses, place = distinct(rows.addr)
    turns = len(trace) + 2
    key = place * turns + rows.alloc_event + 1
    order = stable_order(key)
    at = np.searchsorted(addresses, trace.addr[events])
    before = np.searchsorted(key[order], at * turns + events + 1) - 1
    found = np.full(len(events), NO_ID, np.int64)
    named = np.flatnonzero(before >= 0)
    row = order[before[named]]
    live = (rows.addr[row] == trace.addr[events[named]]) & (events[named] < rows.free_event[row])
    found[named[live]] = row[live]
    return events, found


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
