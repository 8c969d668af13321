"""Limits how many characters a snapshot's texts have, each written out wherever it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.units import format_bytes
from snapreport.model.bounds import most_written
from snapreport.model.snapshot import RawSnapshot


def check_written(snapshot: RawSnapshot) -> None:
    """Check that a snapshot's bundle or report would not be far too large for its file.

    In a pickle a million places can refer to one text. In memory it is stored once; a bundle, a
    page and an export repeat it wherever it is used.

    Raises:
        NotASnapshotError: it would be.
    """
    written = snapshot.stacks.characters() + _characters(
        (
            snapshot.stacks.frames.extra,
            snapshot.strings,
            snapshot.settings,
            snapshot.recorder,
            [annotation.name for annotation in snapshot.annotations],
        )
    )
    for trace in snapshot.traces:
        length = np.array([len(name) for name in trace.actions], np.int64)
        written += int(length[trace.action].sum())
    most = most_written(snapshot.length)
    if written > most:
        raise NotASnapshotError(
            f"is damaged: its texts, each written out wherever it is used, have {written:,}"
            f" characters; a file of {format_bytes(snapshot.length)} may have at most {most:,}."
        )


def _characters(value: Any) -> int:
    """Return the total length of all texts in nested dicts, lists and records."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value)) + sum(map(_characters, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_characters, value))
    return _characters(vars(value)) if hasattr(value, "__dict__") else 0
