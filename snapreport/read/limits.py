"""Limits on what a file may contain, which bound the time and memory of reading it.

No real snapshot comes near any of them. ``docs/safety.md`` has a table of them.
"""

from __future__ import annotations

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.units import format_bytes

UNPACKED_ALWAYS = 1 << 26
"""Bytes that any packed snapshot may unpack to, however small it is."""

MOST_INTEGER = 9
"""Bytes of an integer in a pickle: 64 bits and a sign; integers of 65 bits are refused too.

Longer integers can be chosen so that their hashes collide, and hashing them takes long each time.
"""

MOST_TEXT = 1 << 18
"""Bytes of a text in a pickle: texts that are keys are compared again and again."""

MOST_DEVICES = 256
"""Devices of a file, those without events included."""

MOST_POOLS = 10_000
"""Different memory pools of a file."""

MOST_RULES = 1 << 18
"""Bytes of a file of rules or budgets."""


class Allowance:
    """How many more rows or fields a file may have: at most one for each of its bytes.

    In a pickle many places can refer to one list, so a small file can stand for any number of
    events. PyTorch's own files share only call stacks, each of which is read once.
    """

    def __init__(self, length: int) -> None:
        """Allow as many as a file of this many bytes can have without sharing."""
        self._left = self._length = length

    def take(self, count: int, what: str) -> None:
        """Use up some of the allowance.

        Args:
            count: how many rows or fields are read now.
            what: what they are, for messages.

        Raises:
            NotASnapshotError: there are more than the file has bytes.
        """
        self._left -= count
        if self._left < 0:
            raise NotASnapshotError(
                f"is damaged: it has more {what} than fit in its {format_bytes(self._length)}:"
                " it repeats the same ones many times."
            )
