"""Convert snapshots as they arrive in folders: ``convert_arriving()``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from snapreport.ground.errors import InputError
from snapreport.ground.remote.remote_paths import as_path
from snapreport.runs.inputs import find_inputs
from snapreport.runs.many_files import Batch, PathLike, convert_found

_State = tuple[int, int]
"""Bytes of a file, and when it was written last."""

_EVERY = 2.0
"""Seconds between two looks."""


def convert_arriving(
    folders: Sequence[PathLike],
    output: PathLike | None = None,
    *,
    wait: Callable[[float], None] = time.sleep,
    **options: Any,
) -> Iterator[Batch]:
    """Convert what is in folders, and then what arrives, until Ctrl-C.

    A file is converted once two looks find the same size and time, and again after it is written
    anew.

    Args:
        folders: to look into.
        output: as in ``convert_many()``, and so are the options.
        wait: called between two looks with the seconds to wait; a ``KeyboardInterrupt`` ends it.
    """
    before: dict[Path, _State] = {}
    done: dict[Path, _State] = {}
    while True:
        found = _look(folders)
        ready = {
            path for path, state in found.items() if before.get(path) == state != done.get(path)
        }
        if ready:
            done |= {path: found[path] for path in ready}
            yield convert_found(tuple(found), output, only=ready, **options)
        before = found
        try:
            wait(_EVERY)
        except KeyboardInterrupt:
            return


def _look(folders: Sequence[PathLike]) -> dict[Path, _State]:
    """Return the size and time of each snapshot in the folders now."""
    found: dict[Path, _State] = {}
    for folder in folders:
        try:
            files = find_inputs([as_path(folder)], bundles=False).files
        except InputError:  # it is still empty
            continue
        for path in files:
            try:
                status = path.stat()
            except OSError:  # removed meanwhile
                continue
            if status.st_size:
                found[path] = status.st_size, status.st_mtime_ns
    return found
