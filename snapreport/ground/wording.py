"""Counts and lists as a sentence has them."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import format_count


def plural(number: int, noun: str, several: str = "") -> str:
    """Write a count with its noun: ``1 event``, ``22,332 events``.

    Args:
        number: how many there are.
        noun: what one of them is called.
        several: likewise more of them; ``""`` where an s is all there is to add.
    """
    return f"{format_count(number)} {noun if number == 1 else several or f'{noun}s'}"


def list_of(words: Sequence[str], joint: str = " and ") -> str:
    """Join words as a sentence does: ``5``, ``5 and 6``, ``0, 8 and 16``.

    Args:
        words: in order.
        joint: what stands before the last of them; clauses want a comma in it.
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}{joint}{words[-1]}"
