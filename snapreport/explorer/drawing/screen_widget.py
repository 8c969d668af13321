"""The widget that fills the terminal: draws what the panes say, and hands them keys and clicks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from snapreport.explorer.drawing.strips_of_text import strip_of
from snapreport.explorer.parts.inking import EMPTY, Line


class Content(Protocol):
    """What the widget shows: plain lines, and what keys and the mouse do."""

    def draw(self, width: int, height: int) -> list[Line]:
        """Return so many lines of so many columns."""

    def press(self, name: str) -> bool:
        """Take a key; False where it does nothing."""

    def paste(self, text: str) -> None:
        """Take pasted text."""

    def click(self, column: int, row: int, *, twice: bool = False) -> None:
        """Take a click."""

    def scroll(self, by: int, column: int, row: int) -> None:
        """Take a turn of the wheel."""


class ScreenWidget(Widget, can_focus=True):
    """Draws whole lines; there is no markup on the way."""

    DEFAULT_CSS = "ScreenWidget { width: 100%; height: 100%; }"

    def __init__(self, content: Content, theme: Callable[[], str]) -> None:
        """Show a content in the colours of a theme, one of ``palette.THEMES``."""
        super().__init__()
        self.content = content
        self._theme = theme
        self._lines: list[Line] | None = None

    def changed(self) -> None:
        """Draw anew."""
        self._lines = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the terminal."""
        width, height = self.size
        if self._lines is None or len(self._lines) != height:
            self._lines = self.content.draw(width, height)
        line = self._lines[y] if y < len(self._lines) else EMPTY
        return strip_of(line, width, self._theme())

    def on_resize(self) -> None:
        """Lay out for another size."""
        self.changed()

    def on_key(self, event: events.Key) -> None:
        """Take a key: a letter as it was typed, or the name of another key."""
        event.stop()
        event.prevent_default()
        letter = event.character if event.is_printable else None
        name = "space" if letter == " " else letter or event.key
        if self.content.press(name):
            self.changed()

    def on_paste(self, event: events.Paste) -> None:
        """Take pasted text."""
        event.stop()
        self.content.paste(event.text)
        self.changed()

    def on_click(self, event: events.Click) -> None:
        """Take a click."""
        self.content.click(event.x, event.y, twice=event.chain > 1)
        self.changed()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Take a turn of the wheel."""
        self._scroll(-3, event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Take a turn of the wheel."""
        self._scroll(3, event)

    def _scroll(self, by: int, event: events.MouseEvent) -> None:
        event.stop()
        self.content.scroll(by, event.x, event.y)
        self.changed()
