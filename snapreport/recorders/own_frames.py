"""Removes the frames of ``snapreport record`` itself from the outer end of call stacks."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = str(Path(__file__).resolve().parent.parent / "commands" / "record.py")
_RUNNERS = frozenset(["<frozen runpy>", runpy.__file__])


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


def stacks_of(snapshot: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield every call stack of a snapshot: a list of frames, never empty."""
    holders = [event for trace in snapshot.get("device_traces", ()) for event in trace]
    for segment in snapshot.get("segments", ()):
        holders += [segment, *segment.get("blocks", ())]
    for holder in holders:
        frames = holder.get("frames")
        if isinstance(frames, list) and frames:
            yield frames
