"""Lines of source, if the files that a recording names are on this machine."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_LONGEST = 2 * 2**20
"""Larger files are not read, in bytes: no hand-written source is longer."""
_MOST_FILES = 64


class Sources:
    """Reads lines of Python files on this machine."""

    def __init__(self, recorded: Mapping[str, str]) -> None:
        """``recorded`` maps the short paths that are shown to the full ones that were recorded."""
        self._recorded = recorded
        self._lines = lru_cache(_MOST_FILES)(self._read)

    def line(self, filename: str, line: int) -> str:
        """Return a line of a file as it is now; ``""`` if it cannot be read."""
        lines = self._lines(filename) if line > 0 else ()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def _read(self, filename: str) -> tuple[str, ...]:
        for path in self._candidates(filename):
            try:
                with path.open("rb") as source:
                    # A stranger chose the file name: it may be a device, or endless.
                    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                        continue
                    text = source.read(_LONGEST + 1)
            except (OSError, ValueError):
                continue
            if len(text) <= _LONGEST:
                return tuple(text.decode("utf-8", "replace").splitlines())
        return ()

    def _candidates(self, filename: str) -> list[Path]:
        recorded = self._recorded.get(filename, filename)
        # Opening //server/file would contact that server, and a pipe may never end.
        if not recorded.endswith(".py") or recorded[:2] in ("//", "\\\\"):
            return []
        found = [Path(recorded).expanduser() if recorded.startswith("~/") else Path(recorded)]
        if not Path(recorded).is_absolute():
            places = [Path.cwd(), Path.cwd().parent, *map(Path, sys.path)]
            found = [place / recorded for place in places]
        return [path for path in found if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
