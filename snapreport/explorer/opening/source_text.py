"""Lines of source, where the files that a recording names are here to read."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_LONGEST = 2 * 2**20
"""Bytes of a file that is read: no source that people write is longer."""
_MOST_FILES = 64


class Sources:
    """Reads lines of Python files; a file that is not here has none."""

    def __init__(self, recorded: Mapping[str, str]) -> None:
        """Take the whole paths, as they were recorded, by the short ones that are shown."""
        self._recorded = recorded
        self._lines = lru_cache(_MOST_FILES)(self._read)

    def line(self, filename: str, line: int) -> str:
        """Return a line of a file as it is now; ``""`` where it cannot be read."""
        lines = self._lines(filename) if line > 0 else ()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def _read(self, filename: str) -> tuple[str, ...]:
        for path in self._candidates(filename):
            try:
                with path.open("rb") as source:
                    # A stranger names the file: it may be a device, or without an end.
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
        # A name such as //server/file would be asked of that server, and a pipe has no end.
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
