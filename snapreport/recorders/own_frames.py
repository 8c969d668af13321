"""Removes the frames of ``snapreport record`` itself from the outer end of call stacks."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

COMMAND = str(Path(__file__).resolve().parent.parent / "commands" / "record.py")
_RUNNERS = frozenset(["<frozen runpy>", runpy.__file__])
_FILE = re.compile(r'File "([^"\n]+)"')


def cut_own_frames(snapshot: dict[str, Any]) -> None:
    """Make every call stack end at the program's first frame, in place.

    Does nothing in a program that ``snapreport record`` did not start.

    Args:
        snapshot: in PyTorch's shape; frames innermost first.
    """
    if "snapreport.commands.record" not in sys.modules:
        return
    # Stacks of one thread share these frames' dicts: their number, and the innermost one's id.
    known: set[tuple[int, int]] = set()
    for frames in stacks_of(snapshot):
        count = next(
            (n for n, frame in known if len(frames) >= n and id(frames[-n]) == frame), None
        )
        if count is None:
            count = _count_own(frames)
            if count:
                known.add((count, id(frames[-count])))
        if count:
            del frames[-count:]
    without_own = lru_cache(10_000)(_without_own)  # for one snapshot: it holds their texts
    for row in rows_of(snapshot):
        if row.get("forward_frames"):
            row["forward_frames"] = without_own(tuple(row["forward_frames"]))


def _without_own(lines: tuple[str, ...]) -> list[str]:
    """Return the lines of a forward call stack, outermost first, from the program's first on."""
    files = [_FILE.search(line) for line in reversed(lines)]
    return list(lines[_count_own([{"filename": file[1] if file else ""} for file in files]) :])


def _count_own(frames: list[dict[str, Any]]) -> int:
    """Count the frames at the outer end that are not the program's."""
    first = next((i for i, frame in enumerate(frames) if frame.get("filename") == COMMAND), None)
    if first is None:
        return 0
    while first and _is_runner(frames[first - 1]):
        first -= 1
    return len(frames) - first


def _is_runner(frame: dict[str, Any]) -> bool:
    """Say whether a frame is runpy's, or the interpreter's between Python frames."""
    filename = str(frame.get("filename"))
    return filename in _RUNNERS or not (filename.endswith(".py") or filename.startswith("<"))


def rows_of(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every event, segment and block of a snapshot: what can have a call stack."""
    for key in ("device_traces", "host_traces"):
        for trace in snapshot.get(key, ()):
            yield from trace if isinstance(trace, list) else [trace]  # pinned memory's may be flat
    for key in ("segments", "host_segments"):
        for segment in snapshot.get(key, ()):
            yield segment
            yield from segment.get("blocks", ())


def stacks_of(snapshot: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield every call stack of a snapshot: a list of frames, never empty."""
    for row in rows_of(snapshot):
        frames = row.get("frames")
        if isinstance(frames, list) and frames:
            yield frames
