"""Rules that sort allocations into categories by the frames of their call stacks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from snapreport.ground.safe_text import matched


@dataclass(frozen=True)
class Rule:
    """Matches a call stack if one of its frames matches every expression."""

    category: str
    function: re.Pattern[str] | None = None
    """To be found in the frame's function name; None fits every frame."""
    file: re.Pattern[str] | None = None
    """To be found in the frame's file name; None fits every frame."""
    anywhere: re.Pattern[str] | None = None
    """To be found in the one or the other; None fits every frame."""

    def fits(self, function: str, filename: str) -> bool:
        """Say whether a frame matches every expression; only both ends of long names count."""
        function, filename = matched(function), matched(filename)
        if self.function is not None and not self.function.search(function):
            return False
        if self.file is not None and not self.file.search(filename):
            return False
        return self.anywhere is None or bool(
            self.anywhere.search(function) or self.anywhere.search(filename)
        )

    @property
    def text(self) -> str:
        """The rule as readers see it."""
        parts = []
        if self.function is not None:
            parts.append(f"function ~ {self.function.pattern}")
        if self.file is not None:
            parts.append(f"file ~ {self.file.pattern}")
        if self.anywhere is not None:
            parts.append(f"function or file ~ {self.anywhere.pattern}")
        return " and ".join(parts) or "everything"


@dataclass(frozen=True)
class Category:
    """One category of a classification."""

    name: str
    rule: str
    """What put allocations here: a rule's text, ``stated by the file``, or why it is unknown."""
