"""The recording: whether it can be trusted, its file, and the allocator's settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from snapreport.explorer.parts.inking import Line, fit, ink, wrap
from snapreport.explorer.parts.key_bindings import Key
from snapreport.explorer.parts.page_lines import page_lines
from snapreport.explorer.parts.sending import Table
from snapreport.explorer.screens.screen_base import ListScreen
from snapreport.ground.units import format_bytes
from snapreport.reporters.terminal.trust_text import device_trust
from snapreport.reporters.words.plain_text import one_line
from snapreport.reporters.words.recording_words import recording_rows


class RecordingScreen(ListScreen):
    """The page's Recording tab as a list of lines."""

    name = "recording"
    title = "Recording"
    short = "Trust"
    KEYS: ClassVar[tuple[Key, ...]] = (*ListScreen.MOVES, *ListScreen.SEARCH)

    items: Sequence[Line] = ()

    def depends_on(self) -> object:
        """The device and the width."""
        return self.view.device.name, self.width

    def gather(self) -> None:
        """Write the lines."""
        device = self.view.device
        lines = page_lines(self.width, lambda page: device_trust(page, device.name, device.trust))
        history = self.view.opened.snapshot.history
        source = history.source
        lines += [ink(), ink(("File", "title"))]
        lines += [ink(text) for text in wrap(str(self.view.opened.path), self.width, "  ")]
        lines.append(ink(f"  {source.name}, {format_bytes(source.size)}, SHA-256 {source.sha256}"))
        noted = recording_rows(history, [device.figures])
        settings = [(name, str(value)) for name, value in history.settings.items()]
        for title, rows in (("Recording", noted), ("Allocator settings", settings)):
            lines += [ink(), ink((title, "title"))] if rows else []
            for name, value in rows:
                texts = wrap(one_line(value), self.width - 30, "") or [""]
                for k, text in enumerate(texts):
                    label = fit(f"  {one_line(name)}" if k == 0 else "", 29)
                    lines.append(ink((label, "dim"), f" {text}"))
        self.items = lines

    def row(self, place: int) -> Line:
        """Return a line."""
        return self.items[place]

    def as_table(self) -> Table:
        """Return the checks."""
        trust = self.view.device.trust
        return ("check", "result", "text"), [
            (check.title, check.mark, check.text) for check in trust.checks
        ]
