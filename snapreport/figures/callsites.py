"""The call site of a stack: the one frame that a reader would look up.

It is the innermost Python frame that is not library-internal (``frame_kinds``): in user code or
a model library. Where there is none (C++ threads of the autograd engine, say), it is compiled
code, else the innermost Python frame, else the autograd node at work, else the innermost C++ frame
that is not machinery.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.frame_kinds import most_telling_nodes
from snapreport.frames.missing_stacks import HAS_FRAMES, NOT_RECORDED, missing_reason
from snapreport.frames.site_names import site_frames, stand_ins
from snapreport.ground.memoize import once_for_both, once_for_each, shared
from snapreport.model.findings import MISSING_REASONS, CallSite
from snapreport.model.history import DeviceHistory
from snapreport.model.stacks import StackTable
from snapreport.native.sorting import distinct, sum_groups


@once_for_each
def find_site_frames(stacks: StackTable) -> NDArray[np.int32]:
    """Return the call site of each stack as a frame id, -1 for an empty stack; (n_stacks,).

    It is a frame of the stack, or of compiled code that which stands for it (``stand_ins``).
    """
    sites = stand_ins(stacks)[stacks.node_frame[most_telling_nodes(stacks)]].astype(np.int32)
    return shared(stacks.of_stacks(sites))


@once_for_both
def _number_sites(
    history: DeviceHistory, stacks: StackTable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct keys of call sites, ascending, and each allocation's place in them.

    A key is a frame id; keys above all frame ids are the reasons for missing frames.
    """
    reason = missing_reason(history, stacks)
    # One entry more than sites, for NO_STACK: index -1 picks the last.
    of_stack = np.append(find_site_frames(stacks), -1).astype(np.int64)
    key = np.where(
        reason == HAS_FRAMES,
        of_stack[history.allocations.stack],
        len(stacks.frames) + reason.astype(np.int64),
    )
    keys, number = distinct(key)
    return shared(keys), shared(number)


def find_sites(
    history: DeviceHistory,
    stacks: StackTable,
    event: int,
    among: NDArray[np.bool_] | None = None,
) -> tuple[CallSite, ...]:
    """Return every call site with memory in the allocated curve after an event, largest first.

    Args:
        history: the device.
        stacks: the tables of the file.
        event: -1 for the start.
        among: shape (n_allocations,), which allocations count; None for all.
    """
    rows = history.allocations
    live = rows.live_at(event)
    if among is not None:
        live = live & among
    known, number = _number_sites(history, stacks)
    numbers, group, counts = np.unique(number[live], return_inverse=True, return_counts=True)
    keys = known[numbers]
    block_bytes, requested = (
        sum_groups(group, of[live], len(keys)) for of in (rows.block_size, rows.size)
    )
    order = np.lexsort((keys, -block_bytes))
    return tuple(
        _site(stacks, int(keys[i]), int(block_bytes[i]), int(requested[i]), int(counts[i]))
        for i in order
    )


def _site(stacks: StackTable, key: int, block_bytes: int, requested: int, count: int) -> CallSite:
    frames = site_frames(stacks)
    if key >= len(frames):
        return CallSite(
            None, MISSING_REASONS[key - len(frames)], "", None, block_bytes, requested, count
        )
    return CallSite(
        frame=key,
        name=frames.names[key],
        filename=frames.filenames[key],
        line=frames.line(key),
        bytes=block_bytes,
        requested=requested,
        count=count,
        source=frames.code(key),
    )


def label_sites(history: DeviceHistory, stacks: StackTable) -> tuple[NDArray[np.int64], list[str]]:
    """Number every allocation of a device by its call site.

    Returns:
        int64, shape (n_allocations,), and the sites' names: ``function  file:line``, or the reason
        why there are no frames. Two frames of one name (C++ overloads) are two sites.
    """
    keys, number = _number_sites(history, stacks)
    return number, [site_text(stacks, each) for each in keys.tolist()]


def name_sites(history: DeviceHistory, stacks: StackTable, rows: NDArray[np.int64]) -> list[str]:
    """Return ``function  file:line`` of the call site of some allocations, or the reason for none.

    Args:
        history: the device.
        stacks: the tables of the file.
        rows: int64, shape (n,), rows of its allocations.
    """
    number, names = label_sites(history, stacks)
    return [names[each] for each in number[rows].tolist()]


def short_site(text: str) -> str:
    """Return a call site's name for a sentence: ``function (file:line)``, without the folder."""
    name, _, place = text.partition("  ")
    file = re.split(r"[/\\]", place)[-1]
    return f"{name} ({file})" if file else name


def site_text(stacks: StackTable, key: int) -> str:
    """Return a call site's name; numbers after the frame ids are reasons for missing stacks."""
    frames = site_frames(stacks)
    if key >= len(frames):
        return MISSING_REASONS[key - len(frames)]
    name, filename, line = frames.names[key], frames.filenames[key], frames.line(key)
    known = "" if line is None else f":{line}"
    return name if filename in ("", "??", "none") else f"{name}  {filename}{known}"


def name_stacks(stacks: StackTable, chosen: Sequence[int]) -> list[str]:
    """Return ``function  file:line`` of the call site of some stacks.

    Args:
        stacks: the tables of the file.
        chosen: stack ids; NO_STACK for none.
    """
    sites = find_site_frames(stacks)
    frames = [int(sites[stack]) if stack >= 0 else -1 for stack in chosen]
    none = MISSING_REASONS[NOT_RECORDED]
    return [site_text(stacks, frame) if frame >= 0 else none for frame in frames]
