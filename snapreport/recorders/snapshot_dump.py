"""Writes a snapshot's dicts to a pickle on disk, piece by piece."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, BinaryIO, cast

from snapreport.ground.files import write_atomically

PROTOCOL = 4
"""What PyTorch wrote until 2026, and the newest that older viewers read."""


def dump(snapshot: dict[str, Any], path: Path, compress: bool = False) -> None:
    """Write a snapshot as a pickle, completely or not at all; an existing file is replaced.

    The pickle is written as it is made, and is never in memory as a whole.

    Raises:
        OutputError: it cannot be written.
    """
    with write_atomically(path, force=True) as out:
        if not compress:
            pickle.Pickler(out, PROTOCOL).dump(snapshot)
            return
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed:
            pickle.Pickler(cast("BinaryIO", packed), PROTOCOL).dump(snapshot)
