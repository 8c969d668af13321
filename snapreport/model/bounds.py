"""What numbers of a recording can be: of snapshots as they are read, and of bundles alike.

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
"""The last microsecond of the year 9999, which is the last that a date can be made of."""

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
