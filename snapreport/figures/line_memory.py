"""Memory by source line, as a line-by-line memory tracer prints it, at any moment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import find_site_frames
from snapreport.frames.frame_kinds import compiled_frames
from snapreport.frames.missing_stacks import HAS_FRAMES, missing_reason
from snapreport.frames.site_names import function_of, site_names
from snapreport.ground.patterns import compile_filter
from snapreport.model.answer_tables import LineUse
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.history import DeviceHistory
from snapreport.model.stacks import FrameTable, StackTable
from snapreport.model.tree_paths import lowest_on_path
from snapreport.native.sorting import distinct, medians, sum_groups

NO_MATCH = "no matching frame"
"""The location of allocations that have frames, none of which matches."""

_NONE = -1


def find_lines(
    history: DeviceHistory,
    stacks: StackTable,
    event: int,
    curve: str = "allocated",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[LineUse, ...]:
    """Return every source line that holds memory after an event, most bytes first.

    The bytes sum to the curve at that event: allocations without frames, or without a matching
    frame, are on a separate line named after the reason.

    Args:
        history: the device.
        stacks: the tables of the file.
        event: -1 for the start.
        curve: ``requested``, ``allocated`` or ``active``; decides who is live and what counts.
        include: patterns for files (``compile_pattern``); the innermost frame of a matching file
            is the allocation's line. Without any pattern it is the call site.
        exclude: patterns for files that never match, even if included.

    Raises:
        PatternError: a pattern is not valid.
    """
    rows = history.allocations
    weight = rows.weights(curve)
    key = _keys(history, stacks, _line_frames(stacks, include, exclude))
    keys, group = distinct(key)
    live = rows.live_at(event, curve)
    count = np.bincount(group[live], minlength=len(keys))
    held = sum_groups(group[live], weight[live], len(keys))
    total = sum_groups(group, weight, len(keys))
    middle = medians(weight[live], group[live], len(keys))
    smallest = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(smallest, group[live], weight[live])
    shown = np.flatnonzero(count)
    shown = shown[np.lexsort((keys[shown], -held[shown]))]
    below = np.cumsum(held[shown])
    return tuple(
        _line(
            stacks,
            int(keys[i]),
            (int(held[i]), int(running), int(middle[i]), int(smallest[i]), int(count[i])),
            int(total[i]),
            bool(include or exclude),
        )
        for i, running in zip(shown, below, strict=True)
    )


def _keys(
    history: DeviceHistory, stacks: StackTable, line_frame: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return each allocation's line: a frame id, or n_frames plus the reason for having none."""
    rows, n_frames = history.allocations, len(stacks.frames)
    reason = missing_reason(history, stacks)
    key = n_frames + reason.astype(np.int64)
    framed = reason == HAS_FRAMES  # their key until now, n_frames, means "no matching frame"
    found = line_frame[rows.stack[framed]].astype(np.int64)
    key[framed] = np.where(found == _NONE, n_frames, _first_of_line(stacks.frames)[found])
    return key


def _first_of_line(frames: FrameTable) -> NDArray[np.int64]:
    """Return the first frame with each frame's file and line; int64, (n_frames,).

    If the line is not known, the first with the same file and function. A line's own frame comes
    before that of its gradients.
    """
    first: dict[tuple[str, int | None, str], int] = {}
    keys = []
    for i, filename in enumerate(frames.filenames):
        line = frames.line(i)
        keys.append((filename, line, frames.names[i] if line is None else ""))
    for i in np.argsort(frames.of_forward(), kind="stable").tolist():
        first.setdefault(keys[i], i)
    return np.array([first[key] for key in keys], np.int64)


def _line_frames(
    stacks: StackTable, include: Sequence[str], exclude: Sequence[str]
) -> NDArray[np.int32]:
    """The frame of each stack's source line, -1 where none matches; int32, (n_stacks,)."""
    if not include and not exclude:
        return find_site_frames(stacks)
    matches = compile_filter(include, exclude)
    by_file = {name: matches(name) for name in set(stacks.frames.filenames)}
    fits = np.array([by_file[name] for name in stacks.frames.filenames], np.bool_)
    rank = np.where(fits, 0, 1)[stacks.node_frame]
    best = lowest_on_path(stacks.node_parent, rank)  # the innermost that fits
    line = np.where(rank[best] == 0, stacks.node_frame[best], _NONE)
    return stacks.of_stacks(line.astype(np.int32), _NONE)


def source_lines(stacks: StackTable) -> list[str]:
    """Return ``file:line`` of every frame; its file or function where no line is known.

    Compiled code has the name of its call site.
    """
    frames, names = stacks.frames, site_names(stacks)
    compiled = compiled_frames(frames).tolist()
    return [names[i] if compiled[i] else _location(frames, i) for i in range(len(frames))]


def _location(frames: FrameTable, frame: int) -> str:
    line, filename = frames.line(frame), frames.filenames[frame]
    if line is not None:
        return f"{filename}:{line}"
    return filename if filename.endswith(".py") else function_of(frames, frame)


def _line(
    stacks: StackTable, key: int, live: tuple[int, int, int, int, int], total: int, chosen: bool
) -> LineUse:
    """Put a line in a record; ``chosen`` lines, of files asked for, are named even if generated."""
    frames = stacks.frames
    if key >= len(frames):
        reason = MISSING_REASONS[key - len(frames)] or NO_MATCH
        return LineUse(reason, "", "", None, *live, total)
    if compiled_frames(frames)[key] and not chosen:
        return LineUse(site_names(stacks)[key], "", "", None, *live, total)
    name, location = function_of(frames, key), _location(frames, key)
    place, source = (location, name, frames.filenames[key], frames.line(key)), frames.code(key)
    return LineUse(*place, *live, total, source)
