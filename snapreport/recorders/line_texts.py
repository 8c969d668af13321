"""Adds the program's own source lines to a recording, and hides what is private in its texts.

Months later, on another machine, nobody has the files as they were. Lines of libraries are left
out, as they can be looked up.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from snapreport.frames.frame_kinds import is_own_file
from snapreport.model.stacks import SOURCE, TRACE, short_line
from snapreport.names.personal_data import Known, hide_private
from snapreport.recorders.own_frames import rows_of, stacks_of

MOST_LINES = 2000
MOST_LETTERS = 1 << 18
"""Characters of all lines together."""
_LARGEST_FILE = 1 << 22
_MOST_ALIKE = 64
_MOST_KEPT = 10_000
_PLACE = re.compile(r'\s*File "[^"]+", line \d')
_PYC_HEADER = struct.Struct("<4s3I")
"""Magic number, flags, and the source's modification time and size: Python, PEP 552."""


def note_line_texts(frames: Iterable[dict[str, Any]], known: Known, began: float) -> None:
    """Add the text of their line to frames of the program's own files, in place.

    Frames whose line is not the one that ran, or whose file may have changed, get none.

    Args:
        frames: from ``distinct_frames()``.
        known: the names that are private.
        began: when the recording began, in seconds since 1970.
    """
    texts: dict[tuple[str, int], str] = {}
    files: dict[str, bool] = {}
    letters = 0
    for frame in frames:
        filename, line = frame.get("filename"), frame.get("line")
        if not isinstance(filename, str) or type(line) is not int or line <= 0:
            continue
        if filename not in files:
            files[filename] = _is_readable(filename, began)
        if "line_is" in frame or not files[filename]:
            continue
        place = (filename, line)
        if place not in texts:
            if len(texts) >= MOST_LINES or letters >= MOST_LETTERS:
                continue
            text = short_line(hide_private(linecache.getline(filename, line), known))
            texts[place] = text
            letters += len(text)
        if texts[place]:
            frame[SOURCE] = texts[place]


def hide_in_texts(snapshot: dict[str, Any], frames: Iterable[dict[str, Any]], known: Known) -> None:
    """Put stand-ins for the private parts of all texts, in place.

    Those are the names of stages and marks, what the program noted of its allocations, and lines of
    code that PyTorch noted. Names of files stay: their folders tell packages from the project, and
    whoever reads the snapshot shortens them.

    Args:
        snapshot: in PyTorch's shape.
        frames: from ``distinct_frames()`` of it.
        known: the names that are private.
    """

    @lru_cache(_MOST_KEPT)
    def hidden(text: str) -> str:
        return hide_private(text, known)

    @lru_cache(_MOST_KEPT)
    def traceback(text: str) -> str:
        return "\n".join(line if _PLACE.match(line) else hidden(line) for line in text.split("\n"))

    @lru_cache(_MOST_KEPT)
    def tracebacks(texts: tuple[str, ...]) -> list[str]:
        return [traceback(text) for text in texts]

    for stage in snapshot.get("external_annotations", ()):
        stage["name"] = hidden(stage["name"])
    for row in rows_of(snapshot):
        for key in ("user_metadata", "compile_context"):
            if row.get(key):
                row[key] = hidden(str(row[key]))
        if row.get("forward_frames"):
            row["forward_frames"] = tracebacks(tuple(row["forward_frames"]))
    for frame in frames:
        if frame.get(TRACE):
            frame[TRACE] = traceback(frame[TRACE])


def _is_readable(filename: str, began: float) -> bool:
    """Say whether a file is the user's own, and unchanged since it was loaded."""
    if not is_own_file(filename):
        return False
    try:
        linecache.checkcache(filename)
        if filename in linecache.cache and not Path(filename).exists():
            return True  # a notebook cell, for example, which has no file
        about = Path(filename).stat()
        unchanged = about.st_mtime <= began and _matches_compiled(filename, about)
        return stat.S_ISREG(about.st_mode) and about.st_size <= _LARGEST_FILE and unchanged
    except (OSError, ValueError):
        return False


def _matches_compiled(filename: str, about: os.stat_result) -> bool:
    """Say whether Python's compiled copy of a file, if there is one, is of its present text."""
    try:
        compiled = Path(importlib.util.cache_from_source(filename)).read_bytes()[: _PYC_HEADER.size]
        _, flags, changed, size = _PYC_HEADER.unpack(compiled)
    except (NotImplementedError, OSError, ValueError, struct.error):
        return True
    return bool(flags) or (changed, size) == (
        int(about.st_mtime) & 0xFFFFFFFF,
        about.st_size & 0xFFFFFFFF,
    )


def distinct_frames(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every frame of a snapshot in PyTorch's shape once."""
    # A million lists may hold a few hundred different stacks. Lists with the same ends are
    # compared whole, which is quick because their frames are the same objects.
    known: dict[tuple[int, int, int, int], list[list[Any]]] = {}
    frames: set[int] = set()
    for stack in stacks_of(snapshot):
        n = len(stack)
        alike = known.setdefault((n, id(stack[0]), id(stack[n // 2]), id(stack[-1])), [])
        if stack in alike:
            continue
        if len(alike) < _MOST_ALIKE:
            alike.append(stack)
        for frame in stack:
            if id(frame) not in frames and isinstance(frame, dict):
                frames.add(id(frame))
                yield frame
