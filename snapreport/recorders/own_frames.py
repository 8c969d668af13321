"""Cuts off of call stacks what ran the program for the user: ``snapreport record`` itself."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = str(Path(__file__).resolve().parent.parent / "commands" / "record.py")
_RUNNERS = frozenset(["<frozen runpy>", runpy.__file__])


def cut_own_frames(snapshot: dict[str, Any]) -> None:
    """Let every call stack end at the program's first frame, in place.

    Nothing is done in a program that runs by itself.

    Args:
        snapshot: in PyTorch's shape; frames innermost first.
    """
    if "snapreport.commands.record" not in sys.modules:
        return
    # Stacks of one thread begin with the very same dicts: how many, and the innermost one's id.
    known: set[tuple[int, int]] = set()
    for frames in stacks_of(snapshot):
        count = next(
            (n for n, frame in known if len(frames) >= n and id(frames[-n]) == frame), None
        )
        if count is None:
            count = _own(frames)
            if count:
                known.add((count, id(frames[-count])))
        if count:
            del frames[-count:]


def _own(frames: list[dict[str, Any]]) -> int:
    """Count the frames at the outer end that are not the program's."""
    first = next((i for i, frame in enumerate(frames) if frame.get("filename") == COMMAND), None)
    if first is None:
        return 0
    while first and _runs_others(frames[first - 1]):
        first -= 1
    return len(frames) - first


def _runs_others(frame: dict[str, Any]) -> bool:
    """Whether it is of runpy, or of the interpreter between Python's frames."""
    filename = str(frame.get("filename"))
    return filename in _RUNNERS or not (filename.endswith(".py") or filename.startswith("<"))


def stacks_of(snapshot: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield every call stack of a snapshot, a list of frames that is not empty."""
    holders = [event for trace in snapshot.get("device_traces", ()) for event in trace]
    for segment in snapshot.get("segments", ()):
        holders += [segment, *segment.get("blocks", ())]
    for holder in holders:
        frames = holder.get("frames")
        if isinstance(frames, list) and frames:
            yield frames
