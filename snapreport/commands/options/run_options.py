"""Options of commands that take a whole run, and what tells that they were given one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

name_option = click.option(
    "--name",
    "name_",
    metavar="PATTERN",
    help="How the files of a run are named, such as '{host}/it_{step}/rank{rank}.pickle'; by"
    " default told from names as trainers give them.",
)
layout_option = click.option(
    "--layout",
    metavar="DIM=N,...",
    help="Parallel dimensions of a run in the order of ranks, the first changing fastest:"
    " tp=8,pp=4,dp=2.",
)
pages_option = click.option(
    "--pages",
    type=click.Choice(["all", "odd", "none"]),
    help="Ranks whose pages to write beside the page of a run: odd are the odd ones, one of each"
    " group, and the first that failed.  [default: odd]",
)


def run_options(function: F) -> F:
    """``--name`` and ``--layout``."""
    return name_option(layout_option(function))


def is_run(sources: Sequence[Path]) -> bool:
    """Say whether a run was given: several files, a folder of them, or the zip of a run."""
    if len(sources) > 1 or sources[0].is_dir():
        return True
    from snapreport.api.run_files import is_run_bundle

    return is_run_bundle(sources[0])


def refuse_for_run(**given: object) -> None:
    """Refuse options that mean nothing for a run, by their names.

    Raises:
        UsageError: one was given.
    """
    for option, value in given.items():
        if value:
            name = option.rstrip("_").replace("_", "-")
            raise click.UsageError(f"--{name} is for a single file, and this is a run.")


def refuse_for_file(**given: object) -> None:
    """Refuse options that mean nothing for a single file, likewise."""
    for option, value in given.items():
        if value:
            name = option.rstrip("_").replace("_", "-")
            raise click.UsageError(f"--{name} is for a run: several files, or a folder of them.")
