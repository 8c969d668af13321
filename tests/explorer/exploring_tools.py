"""What tests of the explorer share: recordings opened without a terminal, and keys pressed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from snapreport.api.loading import Snapshot, load
from snapreport.commands.explorer.desk import Panes
from snapreport.commands.explorer.lines import Line
from snapreport.commands.explorer.opening import OpenedFile, Sources
from snapreport.commands.explorer.screen import Viewpoint
from snapreport.model.history import History

SMALL, LARGE = (80, 24), (200, 50)
"""Columns and rows of terminals."""


class Explored:
    """Panes without a terminal; what is done beside the screen is done at once."""

    def __init__(self, *recordings: Path | History, size: tuple[int, int] = SMALL) -> None:
        self.size = size
        self.left = False
        opened = [open_here(each) for each in recordings]
        self.copied: list[str] = []
        views = [Viewpoint(each) for each in opened]
        self.panes = Panes(views, self._run, self._leave, self.copied.append)

    def _run(self, work: Callable[[], Callable[[], None]]) -> None:
        work()()

    def _leave(self) -> None:
        self.left = True

    @property
    def view(self) -> Viewpoint:
        return self.panes.desk.view

    def press(self, *keys: str) -> Explored:
        """Press keys, and draw after each, as the program does."""
        for key in keys:
            self.panes.press(key)
            self.lines()
        return self

    def type(self, text: str) -> Explored:
        return self.press(*("space" if letter == " " else letter for letter in text))

    def lines(self) -> list[Line]:
        return self.panes.draw(*self.size)

    def text(self) -> str:
        """What the screen says."""
        return "\n".join(line.text.rstrip() for line in self.lines())


def open_here(recording: Path | History) -> OpenedFile:
    """Open a recording without a cache or another process."""
    path = recording if isinstance(recording, Path) else Path(recording.source.name)
    snapshot = load(recording) if isinstance(recording, Path) else Snapshot(recording)
    return OpenedFile(path, path, snapshot, Sources({}))
