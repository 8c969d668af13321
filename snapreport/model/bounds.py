"""Limits on the numbers of a recording, for snapshots and bundles.

No real file comes near. Within these bounds sums stay within 64 bits, and every time is a date.
``docs/safety.md`` has those of sizes in its table.
"""

from __future__ import annotations

MOST_BYTES = 1 << 48
"""Bytes of one size: more than any memory has."""

MOST_TOTAL = 1 << 62
"""Bytes of all sizes of a column together: sums of two columns stay within 64 bits."""

MOST_ADDRESS = 1 << 62

LATEST_US = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the last that a date can represent."""

MOVES = frozenset(
    [
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
    ]
)
"""Events whose address and size say of memory.

Those of others may be anything: a program can ask for any number of bytes in vain.
"""

MOST_WRITTEN = 32
"""Characters that texts come to for each byte of a snapshot, written out wherever they are used.

Of real ones up to 3.2: a reference to a frame takes two to five bytes, and its line in a call
stack has a hundred characters; but most allocations share their call stacks.
"""

_ALWAYS_WRITTEN = 1 << 23
"""Ten times what the texts of real files come to that are so small that this is more."""

MOST_EXPORTED = 256
"""Bytes of an export for each byte of its source, unpacked. JSON, which repeats the call stack of
every event, has up to 55 in real files, and CSV 12."""

_ALWAYS_EXPORTED = 1 << 26


def most_written(length: int) -> int:
    """Return how many characters a snapshot's texts may have, for its length in bytes."""
    return max(length * MOST_WRITTEN, _ALWAYS_WRITTEN)


def most_exported(length: int) -> int:
    """Return how many bytes an export may have, for the unpacked length of its source."""
    return max(length * MOST_EXPORTED, _ALWAYS_EXPORTED)
