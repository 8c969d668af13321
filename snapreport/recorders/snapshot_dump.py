"""A snapshot's dicts to a pickle on disk, piece by piece."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, BinaryIO, cast

from snapreport.ground.files import write_atomically

PROTOCOL = 4
"""What PyTorch wrote until 2026, and the last that older viewers take."""


def dump(snapshot: dict[str, Any], path: Path, compress: bool = False) -> None:
    """Write a snapshot as a pickle, as a whole or not at all; an existing file is replaced.

    It goes to the file as it is made: the pickle is never in memory as a whole.

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
