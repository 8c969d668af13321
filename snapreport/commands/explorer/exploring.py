"""Explore recordings in the terminal: what ``snapreport explore`` runs."""

from __future__ import annotations

import gc
import importlib.util
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snapreport.ground.errors import InputError, OutputError
from snapreport.ground.progress import Progress

if TYPE_CHECKING:
    from snapreport.commands.explorer.opening import OpenedFile
    from snapreport.ground.cards import CardWanted


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
        SnapreportError: as ``load()``; OutputError where there is no terminal, or no Textual.
    """
    check_ready(paths)
    from snapreport.commands.explorer.app import ExplorerApp
    from snapreport.commands.explorer.opening import open_file

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


def check_ready(paths: Sequence[Path]) -> None:
    """Check that the files, a terminal and Textual are there.

    Raises:
        InputError: a file is missing.
        OutputError: there is no terminal, or Textual is not installed.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist.")
    if importlib.util.find_spec("textual") is None:
        raise OutputError("The explorer needs Textual: pip install textual platformdirs")
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise OutputError(
            "The explorer needs a terminal for its input and output;"
            " `snapreport summary` and `snapreport live` print to a pipe or file."
        )
