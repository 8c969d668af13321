"""The input line at the bottom of the screen: a search, a file name, SQL."""

from __future__ import annotations

from collections.abc import Callable

from snapreport.explorer.parts.inking import Line, ink, width_of
from snapreport.ground.safe_text import visible

LONGEST = 10_000
"""Most letters that are accepted, in case of an accidental paste."""


class PromptLine:
    """Text being typed, its cursor, and its callbacks."""

    def __init__(
        self,
        label: str,
        text: str = "",
        *,
        done: Callable[[str], None],
        changed: Callable[[str], None] | None = None,
        cancelled: Callable[[], object] | None = None,
        before: list[str] | None = None,
    ) -> None:
        """``before``: earlier inputs, for the up and down keys."""
        self.label = label
        self.text = text
        self.at = len(text)
        self._done, self._changed, self._cancelled = done, changed, cancelled
        self._before = before or []
        self._place = len(self._before)
        self.open = True

    def press(self, name: str) -> None:
        """Handle a key."""
        moves = {
            "left": max(self.at - 1, 0),
            "right": min(self.at + 1, len(self.text)),
            "home": 0,
            "ctrl+a": 0,
            "end": len(self.text),
            "ctrl+e": len(self.text),
        }
        if name in moves:
            self.at = moves[name]
        elif name == "enter":
            self.open = False
            self._done(self.text)
        elif name == "escape":
            self.open = False
            if self._cancelled is not None:
                self._cancelled()
        elif name in ("backspace", "ctrl+h"):
            self._replace(max(self.at - 1, 0), self.at, "")
        elif name in ("delete", "ctrl+d"):
            self._replace(self.at, self.at + 1, "")
        elif name == "ctrl+u":
            self._replace(0, self.at, "")
        elif name == "ctrl+w":
            kept = self.text[: self.at].rstrip()
            self._replace(kept.rfind(" ") + 1, self.at, "")
        elif name in ("up", "down"):
            self._recall(-1 if name == "up" else 1)
        elif len(name) == 1 or name == "space":
            self.insert(" " if name == "space" else name)

    def insert(self, text: str) -> None:
        """Insert typed or pasted text; several lines become one."""
        room = LONGEST - len(self.text)
        self._replace(self.at, self.at, " ".join(text.splitlines())[: max(room, 0)])

    def _recall(self, by: int) -> None:
        place = self._place + by
        if 0 <= place < len(self._before):
            self._place = place
            self._replace(0, len(self.text), self._before[place])

    def _replace(self, begin: int, end: int, new: str) -> None:
        self.text = self.text[:begin] + new + self.text[end:]
        self.at = begin + len(new)
        if self._changed is not None:
            self._changed(self.text)

    def draw(self, width: int) -> Line:
        """Return the line, scrolled so that the cursor is visible."""
        room = max(width - width_of(self.label) - 1, 4)
        left, right = visible(self.text[: self.at]), visible(self.text[self.at :])
        while width_of(left) > room - 1:
            left = left[max(len(left) - room, 1) :]
        under = right[:1] or " "
        return ink((self.label, "key"), left, (under, "caret"), right[1:])
