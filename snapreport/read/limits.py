"""How much a file may ask for: what the time and memory of reading it are bounded by.

No real snapshot comes near any of these. ``docs/safety.md`` has them in a table.
"""

from __future__ import annotations

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.units import format_bytes

UNPACKED_ALWAYS = 1 << 26
"""Bytes that any packed snapshot may unpack to, however small it is."""

MOST_INTEGER = 9
"""Bytes of an integer in a pickle: 64 bits and a sign, and of 65 bits none.

Python's hashes of longer ones can be made to collide, and take time each time they are asked for.
"""

MOST_TEXT = 1 << 18
"""Bytes of a text in a pickle: those that are keys are compared again and again."""

MOST_DEVICES = 256
"""Devices of a file, those without events included."""

MOST_POOLS = 10_000
"""Different memory pools of a file."""

MOST_RULES = 1 << 18
"""Bytes of a file of rules or budgets."""


class Allowance:
    """How many rows and fields a file may still have: one for each of its bytes.

    In a pickle many places can refer to one list, so that a small file stands for any number of
    events. What PyTorch writes shares call stacks alone, which are read once each.
    """

    def __init__(self, length: int) -> None:
        """Allow as much as a file of so many bytes can have without sharing."""
        self._left = self._length = length

    def again(self) -> Allowance:
        """Return as much as there was in the beginning."""
        return Allowance(self._length)

    def take(self, count: int, what: str) -> None:
        """Use up some of it.

        Args:
            count: how many rows or fields are looked at now.
            what: they are, for messages.

        Raises:
            NotASnapshotError: there are more than the file has bytes.
        """
        self._left -= count
        if self._left < 0:
            raise NotASnapshotError(
                f"is damaged: it has more {what} than its {format_bytes(self._length)} can hold,"
                " each many times over."
            )
