"""Make strangers' texts safe for every encoder, processing each distinct text once."""

from __future__ import annotations

import sys


class CleanTexts:
    """Texts of one file without lone surrogates, which become replacement characters.

    A pickle can use one text a million times: however often it is asked for, it is copied once.
    """

    def __init__(self) -> None:
        """Begin without texts."""
        self._known: dict[tuple[str, int], str] = {}

    def cut(self, text: str, longest: int = sys.maxsize) -> str:
        """Return a text, or as many of its characters; the same object each time it is asked for.

        Args:
            text: as it is in the file.
            longest: how many characters of it are wanted at most.
        """
        text = str.__str__(text)  # it may be of a class of the recorded program
        if text.isascii() and len(text) <= longest:
            return text
        known = self._known.get((text, longest))
        if known is None:
            known = text[:longest].encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            known = text if known == text else known[:longest]
            self._known[text, longest] = known
        return known

    def clean(self, value: object) -> str:
        """Return a value of any kind as a text that every encoder takes."""
        return self.cut(value) if isinstance(value, str) else _named(value)


def shortened(value: object, longest: int = 60) -> str:
    """Return the beginning of a text for a message, or a text for a value of any other kind."""
    return CleanTexts().cut(value if isinstance(value, str) else _named(value), longest)


def _named(value: object) -> str:
    # Not str() of a list: shared parts could make it larger than any memory.
    if value is None or isinstance(value, (int, float)):
        return str(value)
    return f"<{type(value).__name__}>"
