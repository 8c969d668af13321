"""What the screen shows while a file is being opened."""

from __future__ import annotations

from collections.abc import Callable

from snapreport.explorer.parts.inking import EMPTY, Line, clipped, ink

_WIDE = 40


class OpeningLines:
    """What is being done, and how far it is."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """``cancel``: ends it."""
        self._cancel = cancel
        self.what = "Opening"
        self.fraction: float | None = None

    def tell(self, what: str, fraction: float | None) -> None:
        """Take a report of progress."""
        self.what, self.fraction = what, fraction

    def press(self, name: str) -> bool:
        """Take a key: some of them cancel."""
        if name in ("escape", "q", "Q", "ctrl+c", "ctrl+q"):
            self._cancel()
            return True
        return False

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines."""
        wide = min(_WIDE, max(width - 4, 1))
        done = 0 if self.fraction is None else round(self.fraction * wide)
        bar = ink("  ", ("█" * done, "bar"), ("░" * (wide - done), "axis"))
        lines = [ink((" snapreport ", "brand"))] + [EMPTY] * max(height // 2 - 3, 0)
        lines += [ink(f"  {self.what}"), EMPTY if self.fraction is None else bar, EMPTY]
        lines += [ink(("  Esc", "key"), (" cancels", "dim"))]
        lines += [EMPTY] * (height - len(lines))
        return [clipped(line, width) for line in lines[:height]]
