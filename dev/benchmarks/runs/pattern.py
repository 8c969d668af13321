"""What one rank does, step after step, taken from a recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import snapreport
from snapreport.figures.ranks import site_keys
from snapreport.model.history import START
from snapreport.model.snapshot import UNKNOWN_LINE, StackTable

Frames = list[dict[str, Any]]

_LONGEST_PAUSE_US = 5000


@dataclass(frozen=True, eq=False)
class Pattern:
    """A recording played several times as the steps of a training.

    What a recording leaves allocated is freed in the next step, when it is allocated there again.
    Arrays of allocations have the shape (n,), those of turns, each an allocation or a free, (m,).
    """

    sites: tuple[str, ...]
    stacks: tuple[Frames, ...]
    """One for each site; without frames where the recording has none."""
    size: NDArray[np.int64]
    site: NDArray[np.int64]
    step: NDArray[np.int64]
    """In which the allocation was made; -1 before the recording."""
    kept: NDArray[np.bool_]
    """Whether it outlives its step: parameters, gradients, states."""
    turn_of: NDArray[np.int64]
    """The allocation of each turn."""
    turn_sign: NDArray[np.int64]
    """1 where it is made, -1 where it is freed."""
    turn_step: NDArray[np.int64]
    turn_gap_us: NDArray[np.int64]
    """Time since the turn before."""
    steps: int


def read_pattern(path: Path, steps: int, most: int | None = None) -> Pattern:
    """Take a recording's device with most events as a pattern.

    Args:
        path: the snapshot.
        steps: how many times it is played.
        most: events of it that are used; None for all.
    """
    snapshot = snapreport.load(path)
    history = snapshot.history
    device = max(history.devices, key=lambda each: each.events)
    rows = device.allocations
    number, keys = site_keys(device, history.stacks)
    end = device.events if most is None else min(device.events, most)
    used = np.flatnonzero(rows.alloc_event < end)
    made = rows.alloc_event[used]
    freed = np.where(rows.free_requested_event[used] < end, rows.free_requested_event[used], end)
    lasting = (made == START) & (freed == end)
    played = np.flatnonzero(~lasting)

    turns = [(int(made[k]), 1, int(k)) for k in played if made[k] != START]
    turns += [(int(freed[k]), -1, int(k)) for k in played if freed[k] < end]
    turns.sort()
    times = np.array(
        [
            rows.alloc_time_us[used[k]] if sign > 0 else rows.free_requested_time_us[used[k]]
            for _, sign, k in turns
        ],
        np.int64,
    )
    gaps = np.clip(np.diff(times, prepend=times[:1]), 0, _LONGEST_PAUSE_US)

    stacks: list[Frames] = [[] for _ in keys]
    for row, site in zip(used.tolist(), number[used].tolist(), strict=True):
        if not stacks[site] and rows.stack[row] >= 0:
            stacks[site] = _frames(history.stacks, int(rows.stack[row]))
    return _repeat(
        tuple(keys),
        tuple(stacks),
        rows.size[used],
        number[used],
        [int(k) for k in np.flatnonzero(made == START)],
        turns,
        gaps,
        steps,
        freed == end,
    )


def _repeat(
    sites: tuple[str, ...],
    stacks: tuple[Frames, ...],
    size: NDArray[np.int64],
    site: NDArray[np.int64],
    baseline: list[int],
    turns: list[tuple[int, int, int]],
    gaps: NDArray[np.int64],
    steps: int,
    left: NDArray[np.bool_],
) -> Pattern:
    of: list[int] = []
    step_of: list[int] = []
    live: dict[int, int] = {}
    played: list[tuple[int, int, int, int]] = []
    for k in baseline:
        live[k] = len(of)
        of.append(k)
        step_of.append(-1)
    for step in range(steps):
        for (_, sign, k), gap in zip(turns, gaps.tolist(), strict=True):
            if k in live:
                played.append((live.pop(k), -1, step, gap))
            if sign > 0:
                live[k] = len(of)
                of.append(k)
                step_of.append(step)
                played.append((live[k], 1, step, gap))
    columns = np.array(played, np.int64)
    original = np.array(of, np.int64)
    made = np.array(step_of, np.int64)
    return Pattern(
        sites,
        stacks,
        size[original],
        site[original],
        made,
        left[original] | (made < 0),
        columns[:, 0],
        columns[:, 1],
        columns[:, 2],
        columns[:, 3],
        steps,
    )


def _frames(stacks: StackTable, stack: int) -> Frames:
    table = stacks.frames
    found = []
    for frame in stacks.path(stack):
        line = int(table.lines[frame])
        found.append(
            {
                "name": table.names[frame],
                "filename": table.filenames[frame],
                "line": 2**64 - 1 if line == UNKNOWN_LINE else line,
            }
        )
    return found
