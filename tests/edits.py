"""Snapshots of the same program after an edit, or installed elsewhere."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from snapreport.model.snapshot import TRACE

Frame = dict[str, Any]
Edit = Callable[[Frame], Frame]


def edited(snapshot: dict[str, Any], edit: Edit) -> dict[str, Any]:
    """Return a copy of a snapshot in which every frame was edited."""
    result = copy.deepcopy(snapshot)
    for trace in result["device_traces"]:
        for event in trace:
            _edit(event, edit)
    for segment in result["segments"]:
        _edit(segment, edit)
        for block in segment["blocks"]:
            _edit(block, edit)
    return result


def _edit(holder: dict[str, Any], edit: Edit) -> None:
    if "frames" in holder:
        holder["frames"] = [
            edit(frame) | ({TRACE: _moved(frame[TRACE], edit)} if TRACE in frame else {})
            for frame in holder["frames"]
        ]
    if "forward_frames" in holder:
        holder["forward_frames"] = [_moved(text, edit) for text in holder["forward_frames"]]


def _moved(traceback: str, edit: Edit) -> str:
    def place(found: re.Match[str]) -> str:
        after = edit({"filename": found[1], "line": int(found[2])})
        return f'File "{after["filename"]}", line {after["line"]}'

    return re.sub(r'File "(.+)", line (\d+)', place, traceback)


def with_lines_moved(by: int) -> Edit:
    """Move every Python line, as lines inserted at the top of each file do."""

    def edit(frame: Frame) -> Frame:
        known = frame["filename"].endswith(".py") and 0 < frame["line"] < 2**32
        return frame | {"line": frame["line"] + by} if known else frame

    return edit


def installed_in(project: str, packages: str) -> Edit:
    """Put the user's Python files below one folder, and PyTorch below another."""

    def edit(frame: Frame) -> Frame:
        name = frame["filename"]
        if not name.endswith(".py") or name.startswith(("/", "C:")):
            return frame
        return frame | {"filename": f"{packages if name.startswith('torch/') else project}/{name}"}

    return edit
