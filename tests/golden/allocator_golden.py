"""What segments and events are, for the page's own code to agree with: plain loops over the model.

The golden files get these beside the subjects of ``page_golden``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.model.findings import DeviceFindings
from snapreport.model.snapshot import Trace

WITHOUT_ADDRESS = ("oom", "snapshot")
"""Events whose address is none: a failed request keeps the device's free bytes there."""
OTHERS = ("oom", "segment_alloc", "segment_map")

Amounts = list[int]
"""Segments, reserved, allocated, pending, slack, inactive, fragmentation, largest free, blocks."""


def allocator(
    device: DeviceFindings,
    trace: Trace,
    pools: list[tuple[int, int]],
    events: list[int],
    weighted: Callable[[list[int]], int],
) -> dict[str, Any]:
    """The five subjects; ``weighted`` makes one number of many."""
    return {
        "segments": segments(device, pools, events, weighted),
        "fragmentation": weighted(device.allocator.fragmentation.tolist()),
        "events": {name: weighted(column) for name, column in event_columns(trace).items()},
        "replays": replays(device, events),
        "searches": [[text, len(found), weighted(found)] for text, found in searches(trace)],
    }


def replays(device: DeviceFindings, events: list[int]) -> list[list[Any]]:
    """What other settings would have reserved: at most, and after some events."""
    found: list[list[Any]] = []
    for curve in device.settings.curves if device.settings else ():
        changes = dict(zip(curve.events.tolist(), curve.bytes.tolist(), strict=True))
        held = [changes[max(at for at in changes if at <= event)] for event in events]
        found.append([curve.settings, max(changes.values()), held])
    return found


def segments(
    device: DeviceFindings,
    pools: list[tuple[int, int]],
    events: list[int],
    weighted: Callable[[list[int]], int],
) -> list[dict[str, Any]]:
    """All segments at some events: added up, by pool, stream and kind, and one after the other."""
    lives = device.allocator.segments
    found = []
    for event in events:
        rows = np.flatnonzero((lives.start_event <= event) & (event < lives.end_event)).tolist()
        rows.sort(key=lambda row: int(lives.address[row]))
        groups: dict[tuple[int, int, int], Amounts] = {}
        for row in rows:
            key = (int(lives.pool[row]), int(lives.stream[row]), int(lives.kind[row]))
            groups[key] = add(groups.get(key, [0] * 9), segment(device, row, event))
        total = [0] * 9
        for amounts in groups.values():
            total = add(total, amounts)
        private = {place for place, pool in enumerate(pools) if pool != (0, 0)}
        small = [
            each
            for row in rows
            if int(lives.pool[row]) not in private
            for each in kept_parts(device, row, event)
        ]
        bounds = [[int(lives.address[row]), int(lives.size[row])] for row in rows]
        found.append(
            {
                "event": event,
                "total": total,
                "groups": [[*key, *amounts] for key, amounts in sorted(groups.items())],
                "first": bounds[:8],
                "kept": [
                    len(small),
                    sum(free for free, _ in small),
                    weighted([free for free, _ in small]),
                    weighted([blocks for _, blocks in small]),
                ],
            }
        )
    return found


def add(one: Amounts, other: Amounts) -> Amounts:
    """The sum of two, the larger of their largest free stretches."""
    both = [a + b for a, b in zip(one, other, strict=True)]
    both[7] = max(one[7], other[7])
    return both


def segment(device: DeviceFindings, row: int, event: int) -> Amounts:
    """The amounts of one segment after an event, block by block."""
    lives, table = device.allocator.segments, device.history.allocations
    low, high = int(lives.address[row]), int(lives.address[row] + lives.size[row])
    allocated = pending = slack = count = largest = 0
    inside = [
        block
        for block in range(len(table))
        if table.alloc_event[block] <= event < table.free_event[block]
        and low <= table.addr[block] < high
    ]
    end = low
    for block in sorted(inside, key=lambda block: int(table.addr[block])):
        size = int(table.block_size[block])
        if table.free_requested_event[block] <= event:
            pending += size
        else:
            allocated += size
        slack += size - int(table.size[block])
        count += 1
        largest = max(largest, int(table.addr[block]) - end)
        end = int(table.addr[block]) + size
    largest = max(largest, high - end)
    inactive = high - low - allocated - pending
    wasted = inactive if count else 0
    return [1, high - low, allocated, pending, slack, inactive, wasted, largest, count]


def kept_parts(device: DeviceFindings, row: int, event: int) -> list[tuple[int, int]]:
    """Free bytes and blocks of a segment, or of its pages, that one or two small blocks keep."""
    lives, table = device.allocator.segments, device.history.allocations
    low, high = int(lives.address[row]), int(lives.address[row] + lives.size[row])
    page = high - low
    if lives.expandable[row]:
        page = 2 << 20 if lives.kind[row] == 0 else 20 << 20
    found = []
    for start in range(low, high, page):
        end = min(start + page, high)
        inside = [
            block
            for block in range(len(table))
            if table.alloc_event[block] <= event < table.free_event[block]
            and table.addr[block] < end
            and table.addr[block] + table.block_size[block] > start
        ]
        whole = [int(table.block_size[block]) for block in inside]
        used = [
            min(int(table.addr[block] + table.block_size[block]), end)
            - max(int(table.addr[block]), start)
            for block in inside
        ]
        if 0 < len(used) < 3 and 8 * sum(whole) <= end - start:
            found.append((end - start - sum(used), len(used)))
    return found


def event_columns(trace: Trace) -> dict[str, list[int]]:
    """Every event as the file has it: length of the action's name, size, address and stream."""
    names = [trace.actions[code] for code in trace.action.tolist()]
    addresses = zip(names, trace.addr.tolist(), strict=True)
    return {
        "action": [len(name) for name in names],
        "size": trace.size.tolist(),
        "address": [-1 if name in WITHOUT_ADDRESS else address for name, address in addresses],
        "stream": trace.stream.tolist(),
    }


def searches(trace: Trace) -> list[tuple[str, list[int]]]:
    """Some searches and the events that they find."""
    actions = np.array(trace.actions, dtype=object)[trace.action] if len(trace) else np.array([])
    size, addr = trace.size, trace.addr
    somewhere = int(addr[len(addr) // 2]) + 100 if len(addr) else 0
    holds = (addr <= somewhere) & (somewhere < addr + np.maximum(size, 1))
    among = [name for name in OTHERS if name in trace.actions]
    found: list[tuple[str, NDArray[np.bool_]]] = [
        ("alloc", actions == "alloc"),
        (">=1MiB free_completed", (actions == "free_completed") & (size >= 2**20)),
        ("<4k", size < 4096),
        ("64KiB..20m", (size >= 65536) & (size <= 20 * 2**20)),
        (" ".join(among), np.isin(actions, among) if among else size >= 0),
        (hex(somewhere), holds & ~np.isin(actions, WITHOUT_ADDRESS)),
    ]
    return [(search, np.flatnonzero(wanted).tolist()) for search, wanted in found]
