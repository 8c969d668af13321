"""Limits on unpacking that users can raise: a few packed kilobytes could fill any memory."""

from __future__ import annotations

import os

from snapreport.ground.errors import InputError
from snapreport.ground.units import parse_size

MAX_UNPACKED = "SNAPREPORT_MAX_UNPACKED"
"""Set this in the environment to unpack larger files: a size, ``50GiB``."""

NO_MEMORY_CHECK = "SNAPREPORT_NO_MEMORY_CHECK"
"""Set this in the environment to read what seems to need more memory than is free."""

RATIO = 200
"""Bytes that a packed file may unpack to per byte of its own. Real files have up to 56."""


def most_unpacked(packed: int, always: int) -> int:
    """Return how many bytes a packed file may unpack to.

    Args:
        packed: the file's size in bytes.
        always: bytes that it may unpack to in any case, however small it is.

    Raises:
        InputError: the environment variable is not a size.
    """
    said = os.environ.get(MAX_UNPACKED)
    if not said:
        return max(always, packed * RATIO)
    try:
        return parse_size(said)
    except ValueError as error:
        raise InputError(f"cannot be read: {MAX_UNPACKED}: {error}.") from None
