"""Load a run for a command: its progress, what was left out, and files without figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import snapreport
from snapreport.commands.options.name_options import paths_kept
from snapreport.commands.output.several_files import progress_bars, say_errors, say_skipped


def load_a_run(paths: Path | Iterable[Path], quiet: bool, **options: Any) -> snapreport.LoadedRun:
    """Load a run; what was left out, and files without figures, go to stderr.

    Args:
        paths: as in ``load_run()``.
        quiet: say errors alone.
        options: as ``load_run()`` takes them.

    Raises:
        Exit: no file gave any figures.
    """
    if "keep_paths" not in options:
        options["keep_paths"] = paths_kept()
    with progress_bars(quiet) as progress:
        loaded = snapreport.load_run(paths, progress=progress, **options)
    if not quiet:
        say_skipped(loaded.skipped)
    say_errors(loaded.errors)
    if not loaded.findings.rows:
        raise click.exceptions.Exit(1)
    return loaded


def end_with_errors(loaded: snapreport.LoadedRun) -> None:
    """End with status 1 where a file gave no figures.

    Raises:
        Exit: one did not.
    """
    if loaded.errors:
        raise click.exceptions.Exit(1)
