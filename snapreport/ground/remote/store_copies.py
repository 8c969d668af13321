"""Files of a store as files of this machine: copied to be read, and put there when whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from snapreport.ground.errors import InputError
from snapreport.ground.remote.remote_paths import RemotePath
from snapreport.ground.units import format_bytes

_SPARE = 64 << 20
"""Bytes that are left free where a file is copied to."""


@contextmanager
def local_copy(path: Path) -> Iterator[Path]:
    """Give a file of this machine: the path itself, or a copy of a store's file while it lasts.

    Raises:
        InputError: there is too little room for the copy.
        OSError: there is nothing, or no access to it.
    """
    if not isinstance(path, RemotePath):
        yield path
        return
    import shutil
    import tempfile  # either takes longer to import than a small file to convert

    size = path.stat().st_size
    folder = tempfile.mkdtemp(prefix="snapreport-")
    try:
        free = shutil.disk_usage(folder).free
        if size + _SPARE > free:
            raise InputError(
                f"has {format_bytes(size)}, and {Path(folder).parent}, where it would be copied to,"
                f" has {format_bytes(free)} free; set TMPDIR to another folder."
            )
        copy = Path(folder) / (path.name or "copy")
        path.download(copy)
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def upload_when_whole(path: RemotePath) -> Iterator[BinaryIO]:
    """Open a file of this machine that is put into a store when it is complete.

    Raises:
        OSError: no access, no such bucket.
    """
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="snapreport-")
    try:
        whole = Path(folder) / "whole"
        with whole.open("wb") as out:
            yield out
        path.upload(whole)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
