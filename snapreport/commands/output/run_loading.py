"""Load a run for a command: its progress, what was left out, and files without figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

import snapreport
from snapreport.commands.options.name_options import paths_kept
from snapreport.commands.output.several_files import (
    progress_bars,
    say_errors,
    say_skipped,
    workers_options,
)

F = TypeVar("F", bound=Callable[..., Any])

_WORKERS = "snapreport.workers"


def _note(context: click.Context, option: click.Parameter, value: object) -> None:
    context.meta.setdefault(_WORKERS, {})[option.name] = value


def loading_options(command: F) -> F:
    """``--jobs`` and ``--engine`` of a command that loads runs by ``load_a_run()``."""
    return workers_options(expose_value=False, callback=_note)(command)


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
    options |= click.get_current_context().meta.get(_WORKERS, {})
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
