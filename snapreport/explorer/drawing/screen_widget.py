"""The widget that fills the terminal: draws the panes' lines, and hands them keys and clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from snapreport.explorer.drawing.strips_of_text import strip_of
from snapreport.explorer.parts.inking import EMPTY, Line

if TYPE_CHECKING:
    from snapreport.explorer.drawing.explorer_app import ExplorerApp


class ScreenWidget(Widget, can_focus=True):
    """Draws complete lines, without markup."""

    DEFAULT_CSS = "ScreenWidget { width: 100%; height: 100%; }"

    def __init__(self, program: ExplorerApp) -> None:
        """Show the app's panes."""
        super().__init__()
        self.program = program
        self._lines: list[Line] | None = None

    def changed(self) -> None:
        """Draw again."""
        self._lines = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the terminal."""
        width, height = self.size
        if self._lines is None or len(self._lines) != height:
            self._lines = self.program.shown.draw(width, height)
        line = self._lines[y] if y < len(self._lines) else EMPTY
        return strip_of(line, width, self.program.look)

    def on_resize(self) -> None:
        """Lay out for another size."""
        self.changed()

    def on_key(self, event: events.Key) -> None:
        """Handle a key: a letter as typed, or the name of another key."""
        event.stop()
        event.prevent_default()
        letter = event.character if event.is_printable else None
        name = "space" if letter == " " else letter or event.key
        if self.program.press(name):
            self.changed()

    def on_paste(self, event: events.Paste) -> None:
        """Handle pasted text."""
        event.stop()
        if self.program.panes is not None:
            self.program.panes.desk.paste(event.text)
            self.changed()

    def on_click(self, event: events.Click) -> None:
        """Handle a click."""
        if self.program.panes is not None:
            self.program.panes.click(event.x, event.y, twice=event.chain > 1)
            self.changed()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Handle the mouse wheel."""
        self._scroll(-3, event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Handle the mouse wheel."""
        self._scroll(3, event)

    def _scroll(self, by: int, event: events.MouseEvent) -> None:
        event.stop()
        if self.program.panes is not None:
            self.program.panes.scroll(by, event.x, event.y)
            self.changed()
