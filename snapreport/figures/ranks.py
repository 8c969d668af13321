"""What is compared between ranks: curves in a few hundred cells, and what held the peak."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites
from snapreport.ground.later import expression
from snapreport.ground.native.columns import distinct, sum_groups
from snapreport.model.findings import DeviceFigures, StageUse
from snapreport.model.history import DeviceHistory
from snapreport.model.roles import ROLES
from snapreport.model.run import MOST_CELLS, Cells, Holder, HolderKind, smallest_shift
from snapreport.model.snapshot import NO_TIME, StackTable


def event_cells(
    allocated: NDArray[np.int64], reserved: NDArray[np.int64] | None, most: int = MOST_CELLS
) -> Cells:
    """Return two curves in the fewest cells of events that are needed; the first has the start.

    Args:
        allocated: int64, shape (n_events + 1,), in bytes after each event; index 0 is the start.
        reserved: as ``allocated``; None if no allocator reserves memory.
        most: how many cells there may be.
    """
    events = max(len(allocated) - 1, 1)
    shift = smallest_shift(0, events - 1, most)
    edges = np.arange(0, events, 1 << shift, dtype=np.int64)
    low = edges + 1
    low[0] = 0
    high = np.minimum(edges + (1 << shift), len(allocated) - 1) + 1
    return _cells(0, shift, allocated, reserved, low, high)


def time_cells(
    allocated: NDArray[np.int64],
    reserved: NDArray[np.int64] | None,
    times: NDArray[np.int64],
    most: int = MOST_CELLS,
) -> Cells | None:
    """Return two curves in the fewest cells of time that are needed; None without times.

    A cell has every value that is attained in it, and what the curve had when it began, unless
    there was an event at that very microsecond. The first has the start. An event without a time,
    or with one from before that of the event before it, counts at the time of the latest.

    Args:
        allocated, reserved, most: as for ``event_cells``.
        times: int64, shape (n_events,), in microseconds; NO_TIME where unknown.
    """
    known = times[times != NO_TIME]
    if not len(known):
        return None
    at = np.maximum.accumulate(np.maximum(times, known[0]))
    shift = smallest_shift(int(at[0]), int(at[-1]), most)
    first = int(at[0]) >> shift
    edges = np.arange(first, (int(at[-1]) >> shift) + 2, dtype=np.int64) << shift
    begin = np.searchsorted(at, edges)
    low, high = begin[:-1], begin[1:] + 1
    # Index s + 1 holds event s, so index s is what the curve had before the cell's first event.
    low = low + (at[np.minimum(low, len(at) - 1)] == edges[:-1])
    low[0] = 0
    return _cells(first, shift, allocated, reserved, low, high)


def _cells(
    first: int,
    shift: int,
    allocated: NDArray[np.int64],
    reserved: NDArray[np.int64] | None,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> Cells:
    """Take the most of each span ``low <= place < high`` of the curves; the last one ends them."""
    # Spans may share a place, so every second part of reduceat is none of ours.
    edges = np.stack([low, high], axis=1).ravel()[:-1]
    return Cells(
        first,
        shift,
        np.maximum.reduceat(allocated, edges)[::2],
        None if reserved is None else np.maximum.reduceat(reserved, edges)[::2],
    )


MOST_HOLDERS = 64
"""How many holders of each kind are kept; the others are added up in one."""

_NUMBERED = expression(r"#\d{1,18}$")


def find_holders(
    device: DeviceFigures, stacks: StackTable, most: int = MOST_HOLDERS
) -> tuple[Holder, ...]:
    """Return sites and roles at the allocated peak, and stages, each kind largest first.

    Sites, and roles, add up to what was allocated then. If there are more than ``most`` of a kind,
    the others are added up in the last holder, with the key ``""``.
    """
    history, event = device.history, device.peak.event
    live = np.flatnonzero(history.allocations.live_at(event))
    size = history.allocations.block_size[live]
    sites, names = site_keys(history, stacks)
    held = _held("site", sites[live], names, size, most)
    held += _held("role", device.roles.role[live].astype(np.int64), ROLES, size, most)
    return (*held, *_stages(device.stages, most))


def site_key(name: str) -> str:
    """Return the call site ``function  folder/file:line`` as every rank has it.

    Hosts differ in their folders, so ``function file:line`` stands for the site.
    """
    function, _, place = name.partition("  ")
    file = re.split(r"[/\\]", place)[-1]
    return f"{function} {file}" if file else function


def site_keys(
    history: DeviceHistory, stacks: StackTable
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Give every allocation the number of its site's key; int64, shape (n,), and the keys."""
    number, names = label_sites(history, stacks)
    keys = [site_key(name) for name in names]
    known = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    place = np.array([known[key] for key in keys], np.int64)
    return place[number], list(known)


def _held(
    kind: HolderKind,
    group: NDArray[np.int64],
    keys: Sequence[str],
    size: NDArray[np.int64],
    most: int,
) -> list[Holder]:
    held, count = sum_groups(group, size, len(keys)), np.bincount(group, minlength=len(keys))
    ordered = sorted(np.flatnonzero(count).tolist(), key=lambda k: (-held[k], keys[k]))
    # Those left out count as one group.
    number = np.full(len(keys), len(ordered[:most]), np.int64)
    number[ordered[:most]] = np.arange(len(ordered[:most]))
    names = [keys[k] for k in ordered[:most]]
    return _with_sizes(kind, number[group], [*names, ""], size)


def _with_sizes(
    kind: HolderKind, group: NDArray[np.int64], keys: Sequence[str], size: NDArray[np.int64]
) -> list[Holder]:
    """Return the groups in their order, each with the size that makes up most of it."""
    sizes, place = distinct(size)
    both, pair = distinct(group * len(sizes) + place)
    of_pair = np.bincount(pair, minlength=len(both))
    owner, which = np.divmod(both, max(len(sizes), 1))
    found = []
    bounds = np.searchsorted(owner, np.arange(len(keys) + 1))
    for k, key in enumerate(keys):
        mine = slice(int(bounds[k]), int(bounds[k + 1]))
        number, of_size = of_pair[mine], sizes[which[mine]]
        if not len(number):
            continue
        weight = number * of_size
        top = len(weight) - 1 - int(weight[::-1].argmax())  # of equal ones the largest size
        found.append(
            Holder(
                kind,
                key,
                int(weight.sum()),
                int(number.sum()),
                int(of_size[top]),
                int(number[top]),
            )
        )
    return found


def _stages(stages: Iterable[StageUse], most: int) -> list[Holder]:
    """Return stages by name, the most that was allocated in any of a name."""
    peak: dict[str, int] = {}
    count: dict[str, int] = {}
    for stage in stages:
        if stage.peak_bytes is not None:
            key = _NUMBERED.sub("#N", stage.name)
            peak[key] = max(peak.get(key, 0), stage.peak_bytes)
            count[key] = count.get(key, 0) + 1
    ordered = sorted(peak, key=lambda key: (-peak[key], key))
    found = [Holder("stage", key, peak[key], count[key], 0, 0) for key in ordered[:most]]
    if rest := ordered[most:]:
        times = sum(count[key] for key in rest)
        found.append(Holder("stage", "", peak[rest[0]], times, 0, 0))
    return found
