"""What is done to a snapshot in PyTorch's shape before it is written, always in place.

What is not of this recording is cut: events from before it, and the frames of ``snapreport record``
itself. The program's own source lines are added: months later, on another machine, nobody has the
files as they were. What is private in texts is hidden.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import re
import runpy
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from snapreport.model.snapshot import SOURCE, TRACE, short_line
from snapreport.names.personal_data import Known, hide_private
from snapreport.roles.frames import is_own_file


def cut_before(snapshot: dict[str, Any], start_us: int) -> None:
    """Drop the events and stages that ended before a time.

    No bytes are lost: the trace is like that of a smaller ring, and the final state shows what was
    live. All that is live at the end keeps its stacks.

    Args:
        snapshot: in PyTorch's shape.
        start_us: microseconds since 1970.
    """
    for key in ("device_traces", "host_traces"):
        for trace in snapshot.get(key, ()):
            if isinstance(trace, list):  # the form of host_traces is not documented
                kept = (i for i, event in enumerate(trace) if _is_since(event, start_us))
                del trace[: next(kept, len(trace))]
    markers = snapshot.get("external_annotations")
    if markers is not None:  # PyTorch before 2.5 has none
        snapshot["external_annotations"] = _open_since(markers, start_us)


def _is_since(event: dict[str, Any], start_us: int) -> bool:
    """Say whether an event is at or after a time, or has none."""
    time: int | None = event.get("time_us")
    return time is None or time >= start_us


def _open_since(markers: list[dict[str, Any]], start_us: int) -> list[dict[str, Any]]:
    """Return the markers of spans that end after a time, each START with its END."""
    open_spans: dict[tuple[Any, Any], list[int]] = {}
    gone: set[int] = set()
    for i, marker in enumerate(markers):
        spans = open_spans.setdefault((marker.get("device"), marker.get("name")), [])
        if marker.get("stage") == "START":
            spans.append(i)
            continue
        start = spans.pop() if spans else None
        if not _is_since(marker, start_us):
            gone.add(i)
            if start is not None:
                gone.add(start)
    return [marker for i, marker in enumerate(markers) if i not in gone]


COMMAND = str(Path(__file__).resolve().parent.parent / "commands" / "record.py")
_FILE = re.compile(r'File "([^"\n]+)"')


def cut_own_frames(snapshot: dict[str, Any]) -> None:
    """Make every call stack end at the program's first frame.

    Does nothing in a program that ``snapreport record`` did not start.

    Args:
        snapshot: in PyTorch's shape; frames innermost first.
    """
    if "snapreport.commands.record" not in sys.modules:
        return
    # Stacks of one thread share these frames' dicts: their number, and the innermost one's id.
    known: set[tuple[int, int]] = set()
    for frames in _stacks_of(snapshot):
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
    for row in _rows_of(snapshot):
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


_RUNNERS = frozenset(["<frozen runpy>", runpy.__file__])


def _is_runner(frame: dict[str, Any]) -> bool:
    """Say whether a frame is runpy's, or the interpreter's between Python frames."""
    filename = str(frame.get("filename"))
    return filename in _RUNNERS or not (filename.endswith(".py") or filename.startswith("<"))


def _rows_of(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every event, segment and block of a snapshot: what can have a call stack."""
    for key in ("device_traces", "host_traces"):
        for trace in snapshot.get(key, ()):
            yield from trace if isinstance(trace, list) else [trace]  # pinned memory's may be flat
    for key in ("segments", "host_segments"):
        for segment in snapshot.get(key, ()):
            yield segment
            yield from segment.get("blocks", ())


def _stacks_of(snapshot: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield every call stack of a snapshot: a list of frames, never empty."""
    for row in _rows_of(snapshot):
        frames = row.get("frames")
        if isinstance(frames, list) and frames:
            yield frames


_MOST_LINES = 2000
_MOST_LETTERS = 1 << 18
"""Characters of all lines together."""
_MOST_KEPT = 10_000
_PLACE = re.compile(r'\s*File "[^"]+", line \d')


def note_line_texts(frames: Iterable[dict[str, Any]], known: Known, began: float) -> None:
    """Add the text of their line to frames of the program's own files.

    Lines of libraries can be looked up. Frames whose line is not the one that ran, or whose file
    may have changed, get none.

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
            if len(texts) >= _MOST_LINES or letters >= _MOST_LETTERS:
                continue
            text = short_line(hide_private(linecache.getline(filename, line), known))
            texts[place] = text
            letters += len(text)
        if texts[place]:
            frame[SOURCE] = texts[place]


def hide_in_texts(snapshot: dict[str, Any], frames: Iterable[dict[str, Any]], known: Known) -> None:
    """Put stand-ins for the private parts of all texts.

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
    for row in _rows_of(snapshot):
        for key in ("user_metadata", "compile_context"):
            if row.get(key):
                row[key] = hidden(str(row[key]))
        if row.get("forward_frames"):
            row["forward_frames"] = tracebacks(tuple(row["forward_frames"]))
    for frame in frames:
        if frame.get(TRACE):
            frame[TRACE] = traceback(frame[TRACE])


_LARGEST_FILE = 1 << 22


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


_PYC_HEADER = struct.Struct("<4s3I")
"""Magic number, flags, and the source's modification time and size: Python, PEP 552."""


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


_MOST_ALIKE = 64


def distinct_frames(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every frame of a snapshot in PyTorch's shape once."""
    # A million lists may hold a few hundred different stacks. Lists with the same ends are
    # compared whole, which is quick because their frames are the same objects.
    known: dict[tuple[int, int, int, int], list[list[Any]]] = {}
    frames: set[int] = set()
    for stack in _stacks_of(snapshot):
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
