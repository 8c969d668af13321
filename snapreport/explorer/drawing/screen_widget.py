"""The widget that fills the terminal: draws the panes' lines, and hands them keys and clicks."""

from __future__ import annotations

from textual import events
from textual.strip import Strip
from textual.widget import Widget

from snapreport.explorer.drawing.palette import THEMES
from snapreport.explorer.drawing.strips_of_text import strip_of
from snapreport.explorer.parts.inking import EMPTY, Line
from snapreport.explorer.parts.opening_lines import OpeningLines
from snapreport.explorer.screens.panes import Panes


class ScreenWidget(Widget, can_focus=True):
    """Draws complete lines, without markup."""

    DEFAULT_CSS = "ScreenWidget { width: 100%; height: 100%; }"

    def __init__(self, opening: OpeningLines, look: str) -> None:
        """Show the progress of opening; ``look``: one of ``THEMES``."""
        super().__init__()
        self.opening, self.look = opening, look
        self.panes: Panes | None = None
        """None until the files are open."""
        self._lines: list[Line] | None = None

    @property
    def shown(self) -> Panes | OpeningLines:
        """The panes, or the progress of opening."""
        return self.panes or self.opening

    def changed(self) -> None:
        """Draw again."""
        self._lines = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the terminal."""
        width, height = self.size
        if self._lines is None or len(self._lines) != height:
            self._lines = self.shown.draw(width, height)
        line = self._lines[y] if y < len(self._lines) else EMPTY
        return strip_of(line, width, self.look)

    def on_resize(self) -> None:
        """Lay out for another size."""
        self.changed()

    def on_key(self, event: events.Key) -> None:
        """Handle a key: a letter as typed, or the name of another key."""
        event.stop()
        event.prevent_default()
        letter = event.character if event.is_printable else None
        name = "space" if letter == " " else letter or event.key
        if self._press(name):
            self.changed()

    def _press(self, name: str) -> bool:
        if name == "ctrl+z":
            self.app.action_suspend_process()
            return True
        if name == "T" and not (self.panes and self.panes.desk.prompt):
            self.look = THEMES[(THEMES.index(self.look) + 1) % len(THEMES)]
            self.app.ansi_color = self.look == "terminal"
            return True
        return self.shown.press(name)

    def on_paste(self, event: events.Paste) -> None:
        """Handle pasted text."""
        event.stop()
        if self.panes is not None:
            self.panes.desk.paste(event.text)
            self.changed()

    def on_click(self, event: events.Click) -> None:
        """Handle a click."""
        if self.panes is not None:
            self.panes.click(event.x, event.y, twice=event.chain > 1)
            self.changed()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Handle the mouse wheel."""
        self._scroll(-3, event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Handle the mouse wheel."""
        self._scroll(3, event)

    def _scroll(self, by: int, event: events.MouseEvent) -> None:
        event.stop()
        if self.panes is not None:
            self.panes.scroll(by, event.x, event.y)
            self.changed()
