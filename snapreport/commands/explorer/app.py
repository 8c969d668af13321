"""Runs the explorer as a Textual app: colours of roles, lines as strips, and the one widget.

Every line goes to the terminal this way, and no other module imports Textual.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.strip import Strip
from textual.widget import Widget

from snapreport.commands.explorer.desk import Panes
from snapreport.commands.explorer.lines import EMPTY, Line, width_of
from snapreport.commands.explorer.opening import Cancelled, OpenedFile, OpeningLines, open_file
from snapreport.commands.explorer.screen import Viewpoint, Work
from snapreport.ground.cards import CardWanted
from snapreport.ground.processes import start_tracker
from snapreport.ground.progress import Progress
from snapreport.ground.safe_text import visible

THEMES = ("dark", "light", "terminal")
"""``terminal``: its own 16 colours, for terminals with no more, and for readers who set them."""

_ROLES: dict[str, tuple[str, str, str]] = {
    # role: on a dark background, on a light one, with the terminal's own colours
    "": ("#d5dae3 on #14171c", "#20252d on #fbfbf9", "default"),
    "dim": ("#8b93a1", "#6a7180", "bright_black"),
    "pale": ("#5f6672", "#9aa1ac", "bright_black"),
    "title": ("bold #ffffff", "bold #000000", "bold"),
    "brand": ("bold #14171c on #7cc4ff", "bold #ffffff on #1f6fb2", "bold reverse"),
    "key": ("bold #8ec7ff", "bold #1a5f9e", "bold cyan"),
    "caret": ("#14171c on #d5dae3", "#fbfbf9 on #20252d", "reverse"),
    "tab": ("#aab2bf", "#4b5360", "default"),
    "tab.on": ("bold #14171c on #8ec7ff", "bold #ffffff on #1a5f9e", "bold reverse"),
    "critical": ("bold #ff7a70", "bold #b3261e", "bold red"),
    "warning": ("bold #ffc857", "bold #8a5a00", "bold yellow"),
    "note": ("bold #8ec7ff", "bold #1a5f9e", "bold blue"),
    "good": ("bold #7fd99a", "bold #1b7a3d", "bold green"),
    "heat0": ("#8aa9ff", "#2f55c4", "blue"),
    "heat1": ("#67d5e0", "#0b7285", "cyan"),
    "heat2": ("#8fd977", "#2b7a1f", "green"),
    "heat3": ("#ffd166", "#8a5a00", "yellow"),
    "heat4": ("bold #ff8a73", "bold #b3261e", "bold red"),
    "found": ("bold underline #fff2a8", "bold underline #6b4e00", "bold underline"),
    "axis": ("#4d5562", "#b6bcc6", "bright_black"),
    "peak": ("bold #ffb86b", "bold #a04c00", "bold yellow"),
    "bar": ("#5b9bd5", "#3a7ab8", "blue"),
    "bar.both": ("#5b9bd5 on #35577a", "#3a7ab8 on #a9c8e6", "blue on cyan"),
    "bar.cursor": ("#fff2a8", "#c06000", "bold yellow"),
    "slack": ("#35577a", "#a9c8e6", "cyan"),
    "pending": ("#b68cd8", "#7a4aa8", "magenta"),
    "reserved": ("#ff9f6e", "#b85a1e", "red"),
    "stage0": ("#d5dae3 on #2c3e57", "#20252d on #d3e2f2", "reverse"),
    "stage1": ("#d5dae3 on #3f3457", "#20252d on #e3daf2", "bold reverse"),
    "stage2": ("#d5dae3 on #2c4a42", "#20252d on #d3eee4", "reverse dim"),
    "inactive": ("#4d5562", "#b6bcc6", "bright_black"),
    "more": ("#ff8a73", "#b3261e", "red"),
    "less": ("#8fd977", "#2b7a1f", "green"),
}
_MARKS: dict[str, tuple[str, str, str]] = {
    "cursor": ("on #33445c", "on #cfe0f3", "reverse"),
    "match": ("on #3d3a22", "on #fff3c2", "underline"),
    "bar": ("on #20252d", "on #e8eaed", ""),
}


@cache
def style_of(role: str, theme: str) -> Style:
    """Return the style of a role, or of a role and the mark of its row, ``dim|cursor``."""
    role, _, mark = role.partition("|")
    place = THEMES.index(theme)
    style = Style.parse(_ROLES[""][place]) + Style.parse(_ROLES[role][place])
    if mark and not (role in _GROUND and mark == "bar"):
        style += Style.parse(_MARKS[mark][place])
    return style


_GROUND = frozenset({"brand", "tab.on", "caret"})
"""Roles that keep their own background."""

ROLES = frozenset(_ROLES)


def fitting_theme(environ: Mapping[str, str] = os.environ) -> str:
    """Return the theme for a terminal: its own colours if it has few, or if NO_COLOR is set."""
    if environ.get("NO_COLOR"):
        return "terminal"
    many = "256" in environ.get("TERM", "") or environ.get("COLORTERM", "") in (
        "truecolor",
        "24bit",
    )
    return "dark" if many or "WT_SESSION" in environ else "terminal"


def strip_of(line: Line, width: int, theme: str) -> Strip:
    """Return a line of exactly ``width`` columns, without control characters or markup."""
    segments, wide = [], 0
    for text, role in line.marked:
        shown = visible(text)
        segments.append(Segment(shown, style_of(role, theme)))
        wide += width_of(shown)
    rest = f"|{line.mark}" if line.mark else ""
    if wide < width:
        segments.append(Segment(" " * (width - wide), style_of(rest, theme)))
    return Strip(segments, max(wide, width)).crop(0, width)


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


_PATIENCE = 5.0
"""Seconds that cleaning up may take."""

Open = Callable[[Progress, threading.Event], Sequence[OpenedFile]]
"""Opens the files to explore; called in another thread."""


class ExplorerApp(App[None], inherit_bindings=False):
    """Shows the panes, and the progress until the files are open."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { overflow: hidden; }"

    def __init__(
        self,
        open_files: Open,
        *,
        device: str | None = None,
        look: str | None = None,
        card: CardWanted | None = None,
    ) -> None:
        """``look``: one of ``THEMES``; None for the one that suits the terminal."""
        start_tracker()
        look = look or fitting_theme()
        super().__init__(ansi_color=look == "terminal")
        self._open, self._device, self._card = open_files, device, card
        self._cancelled = threading.Event()
        self._loading: threading.Thread | None = None
        self.widget = ScreenWidget(OpeningLines(self._cancel), look)
        self.failure: BaseException | None = None
        """The error that ended it, None if the reader quit."""

    def compose(self) -> ComposeResult:
        """Fill the terminal with one widget."""
        yield self.widget

    def on_mount(self) -> None:
        """Begin to open the files."""
        self.widget.focus()
        self._loading = self._beside(self._load)

    def _beside(self, work: Callable[[], None]) -> threading.Thread:
        # A daemon: when the reader quits, nobody waits for unfinished work.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def end_opening(self) -> None:
        """Stop opening files, and wait until that has cleaned up."""
        self._cancelled.set()
        if self._loading is not None:
            self._loading.join(_PATIENCE)

    def _load(self) -> None:
        def progress(what: str, fraction: float | None) -> None:
            self.widget.opening.tell(what, fraction)
            self._later(self.widget.changed)

        try:
            files = self._open(progress, self._cancelled)
            self.widget.opening.picture(files[0].snapshot.history)
            self._later(self.widget.changed)
            views = [Viewpoint(each, self._device, self._card) for each in files]
        except Cancelled:
            self._later(self.exit)
        except BaseException as error:
            self.failure = error
            self._later(self.exit)
        else:
            self._later(lambda: self._show(views))

    def _show(self, views: Sequence[Viewpoint]) -> None:
        gc.freeze()  # the loaded data stays, so collections need not scan it
        self.widget.panes = Panes(views, self._run, self.exit, self.copy_to_clipboard)
        self.widget.changed()

    def _run(self, work: Work) -> None:
        def task() -> None:
            try:
                finish = work()
            except BaseException as error:
                self.failure = error
                self._later(self.exit)
                return

            def done() -> None:
                finish()
                self.widget.changed()

            self._later(done)

        self._beside(task)

    def _later(self, call: Callable[[], object]) -> None:
        """Call a function in the app's thread, unless the app has ended meanwhile."""
        with suppress(RuntimeError):
            self.call_from_thread(call)

    def _cancel(self) -> None:
        self._cancelled.set()
        self.exit()


def explore(
    paths: Sequence[Path],
    *,
    device: str | None = None,
    keep: bool = True,
    theme: str | None = None,
    card: CardWanted | None = None,
) -> None:
    """Show one recording, or two beside each other, until the reader leaves.

    Args:
        paths: one snapshot or bundle, or two.
        device: the one to show first; None for the one that a report opens with.
        keep: whether bundles of snapshots are kept in the user's cache.
        theme: ``dark``, ``light`` or ``terminal``; None for the one that suits the terminal.
        card: the card for which the overview says whether a recording fits; None for none.

    Raises:
        SnapreportError: as ``load()``.
    """

    def open_files(progress: Progress, cancelled: threading.Event) -> list[OpenedFile]:
        return [
            open_file(path, keep=keep, progress=progress, cancelled=cancelled) for path in paths
        ]

    app = ExplorerApp(open_files, device=device, look=theme, card=card)
    gc.enable()  # commands run without a collector, and this one runs for hours
    try:
        app.run()
    finally:
        app.end_opening()
    if app.failure is not None:
        raise app.failure
    if app.return_code:  # the error has been reported
        sys.exit(app.return_code)
