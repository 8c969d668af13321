"""Everything on the screen: one recording, or two in panes, and the list of keys over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapreport.explorer.parts.front_desk import Work
from snapreport.explorer.parts.inking import Line, Run, clipped, ink
from snapreport.explorer.parts.key_bindings import Key, key, press_key
from snapreport.explorer.parts.key_help import KeyHelp
from snapreport.explorer.parts.viewpoint import Viewpoint
from snapreport.explorer.screens.desk import KEYS, Desk

ALWAYS = (
    key("?", "this list", "open_help"),
    key("T", "dark, light, or the terminal's own colours", "keep"),
    key("ctrl+z", "suspend; fg brings it back", "keep"),
    key("Q ctrl+c ctrl+q", "quit at once", "quit"),
)
WITH_TWO = (
    key("{ }", "the other pane", "turn_pane"),
    key("s", "panes side by side, or one above the other", "turn_split"),
)


class Panes:
    """One desk or two; keys go to the one in front."""

    def __init__(
        self,
        views: Sequence[Viewpoint],
        run: Callable[[Work], None],
        quit_: Callable[[], None],
        copy: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``run``: does work in a thread; ``copy``: puts text on the clipboard."""
        if len(views) > 1:
            for view in views:
                view.pair = views[0], views[1]
        self.desks = [Desk(view, run, quit_, copy) for view in views]
        self.active = 0
        self.side_by_side = True
        self.help: KeyHelp | None = None
        self.quit = quit_
        self._size = (80, 24)

    @property
    def desk(self) -> Desk:
        """The one that keys go to."""
        return self.desks[self.active]

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys that work on every screen."""
        return ALWAYS + (WITH_TWO if len(self.desks) > 1 else ())

    def press(self, name: str) -> bool:
        """Handle a key; False if it does nothing."""
        if name in ("ctrl+c", "ctrl+q"):
            self.quit()
            return True
        if self.help is not None:
            if not self.help.press(name):
                self.help = None
            return True
        if self.desk.prompt is None and press_key(self, self.keys, name):
            return True
        return self.desk.press(name)

    def keep(self) -> None:
        """Do nothing: the app handles this key before."""

    def open_help(self) -> None:
        """Show the keys of this screen."""
        shown = self.desk.shown
        groups = [(f"In {shown.title.lower()}", shown.KEYS), ("Everywhere", (*KEYS, *ALWAYS))]
        if len(self.desks) > 1:
            groups.append(("With two files", WITH_TWO))
        self.help = KeyHelp(groups)

    def turn_pane(self) -> None:
        """Move the focus to the other pane."""
        self.active = (self.active + 1) % len(self.desks)

    def turn_split(self) -> None:
        """Put the panes side by side, or one above the other."""
        self.side_by_side = not self.side_by_side

    # The mouse.

    def _pane_at(self, column: int, row: int) -> tuple[int, int, int]:
        """Return the pane at a position, and the position within it."""
        if len(self.desks) == 1:
            return 0, column, row
        width, height = self._size
        if self.side_by_side:
            half = (width - 1) // 2
            return (0, column, row) if column <= half else (1, column - half - 1, row)
        half = (height - 1) // 2
        return (0, column, row) if row <= half else (1, column, row - half - 1)

    def click(self, column: int, row: int, *, twice: bool = False) -> None:
        """Handle a click."""
        if self.help is not None:
            self.help = None
            return
        self.active, column, row = self._pane_at(column, row)
        self.desk.click(column, row, twice=twice)

    def scroll(self, by: int, column: int, row: int) -> None:
        """Handle the mouse wheel."""
        if self.help is not None:
            self.help.press("down" if by > 0 else "up")
            return
        self.desks[self._pane_at(column, row)[0]].scroll(by)

    # Drawing.

    def draw(self, width: int, height: int) -> list[Line]:
        """Return ``height`` lines of ``width`` columns."""
        self._size = width, height
        if self.help is not None:
            return self.help.draw(width, height)
        if len(self.desks) == 1:
            return self.desk.draw(width, height)
        first, second = self.desks
        if self.side_by_side:
            half = (width - 1) // 2
            left = first.draw(half, height)
            right = second.draw(width - half - 1, height)
            mark = "◀" if self.active == 0 else "▶"
            middle = height // 2
            return [
                Line(
                    (
                        *self._dimmed(one, 0, half).runs,
                        Run(mark if row == middle else "│", "axis"),
                        *self._dimmed(other, 1, width - half - 1).runs,
                    )
                )
                for row, (one, other) in enumerate(zip(left, right, strict=True))
            ]
        half = (height - 1) // 2
        above = [self._dimmed(line, 0, width) for line in first.draw(width, half)]
        below = [self._dimmed(line, 1, width) for line in second.draw(width, height - half - 1)]
        mark = "▲" if self.active == 0 else "▼"
        rule = ink(("─" * (width // 2) + mark + "─" * (width - width // 2 - 1), "axis"))
        return [*above, clipped(rule, width), *below]

    def _dimmed(self, line: Line, pane: int, width: int) -> Line:
        """Return a line of a pane, with its mark applied, or pale in the pane behind."""
        line = clipped(line, width)
        active = pane == self.active
        runs = (
            Run(text, f"{role}|{line.mark}" if active and line.mark else role if active else "pale")
            for text, role in line.runs
        )
        return Line(tuple(runs))
