"""What a file may ask for, as far as the user can raise it: a few kilobytes can fill any memory."""

from __future__ import annotations

import os
import re

from snapreport.errors import InputError

MAX_UNPACKED = "SNAPREPORT_MAX_UNPACKED"
"""Set this in the environment to unpack larger files: bytes, or a number and a unit, ``50GiB``."""

NO_MEMORY_CHECK = "SNAPREPORT_NO_MEMORY_CHECK"
"""Set this in the environment to read what seems to need more memory than is free."""

RATIO = 200
"""Bytes that a packed file may unpack to for each of its own. Real ones: up to 56."""

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"\s*(\d{1,15})\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)


def most_unpacked(packed: int, always: int) -> int:
    """Return how many bytes a packed file may unpack to.

    Args:
        packed: its own bytes.
        always: what it may unpack to, however small it is.

    Raises:
        InputError: what the environment has there is no size.
    """
    said = os.environ.get(MAX_UNPACKED)
    if not said:
        return max(always, packed * RATIO)
    most = parse_size(said)
    if most is None:
        raise InputError(f"cannot be read: {MAX_UNPACKED} is {said!r}, and no size like 50GiB.")
    return most


def parse_size(text: str) -> int | None:
    """Read bytes, or a number and a unit, ``50GiB``; None for anything else."""
    parts = _SIZE.fullmatch(text)
    return None if parts is None else int(parts[1]) * _UNITS[parts[2].upper()]
