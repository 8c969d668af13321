"""The Textual app: opens files in a thread, then shows them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from textual.app import App, ComposeResult

from snapreport.explorer.drawing.palette import fitting_theme
from snapreport.explorer.drawing.screen_widget import ScreenWidget
from snapreport.explorer.opening.converting import Cancelled
from snapreport.explorer.opening.opened_file import OpenedFile
from snapreport.explorer.parts.front_desk import Work
from snapreport.explorer.parts.opening_lines import OpeningLines
from snapreport.explorer.parts.viewpoint import Viewpoint
from snapreport.explorer.screens.panes import Panes
from snapreport.ground.cards.card_lookup import CardWanted
from snapreport.ground.processes.child_process import start_tracker
from snapreport.ground.progress import Progress

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
