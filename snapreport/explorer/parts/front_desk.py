"""What a screen asks for: another screen, a message, a typed line, or slow work in a thread."""

from __future__ import annotations

from collections.abc import Callable

from snapreport.explorer.parts.prompt_line import PromptLine
from snapreport.explorer.parts.viewpoint import Viewpoint

Work = Callable[[], Callable[[], None]]
"""Slow work; what it returns is then called in the program's own thread."""


class FrontDesk:
    """Where the screens of one recording ask, and what they share."""

    def __init__(self, view: Viewpoint, run: Callable[[Work], None]) -> None:
        """``run``: does work in a thread."""
        self.view = view
        self.in_background = run
        self.message = ""
        self.prompt: PromptLine | None = None
        self._typed: dict[str, list[str]] = {}

    def show(self, name: str, *, search: str = "") -> None:
        """Show a screen, and look for something in it."""
        raise NotImplementedError

    def zoom_to(self, first: int, end: int) -> None:
        """Show some events on the timeline."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Show a message until the next key."""
        self.message = text

    def ask(
        self,
        label: str,
        done: Callable[[str], None],
        *,
        text: str = "",
        changed: Callable[[str], None] | None = None,
        cancelled: Callable[[], object] | None = None,
    ) -> None:
        """Let the reader type a line."""
        typed = self._typed.setdefault(label, [])

        def finish(line: str) -> None:
            if line.strip() and line not in typed[-1:]:
                typed.append(line)
            done(line)

        self.prompt = PromptLine(
            label, text, done=finish, changed=changed, cancelled=cancelled, before=typed
        )
