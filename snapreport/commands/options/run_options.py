"""Options of commands that take an entire run, and checks for whether they were given one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from snapreport.commands.options.shared_options import together
from snapreport.ground.files import is_folder

F = TypeVar("F", bound=Callable[..., Any])

pages_option = click.option(
    "--pages",
    type=click.Choice(["all", "odd", "none"]),
    help="Ranks that get a page of their own beside the run's page: odd means ranks that differ"
    " from the others, one rank of each group, and the first that failed.  [default: odd]",
)


@dataclass(frozen=True)
class RunWanted:
    """How to read the files of a run: arguments of ``load_run()``."""

    name: str | None
    layout: str | None
    jobs: int | None
    engine: str


_jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Work on N files at once. Default: as many as processors and free memory allow.",
)
_engine = click.option(
    "--engine",
    metavar="ENGINE",
    default="local",
    help="Where to work on several files: local (processes), dask or ray; dask=ADDRESS or"
    " ray=ADDRESS for a running cluster.  [default: local]",
)


def workers_options(command: F) -> F:
    """``--jobs`` and ``--engine``."""
    return _jobs(_engine(command))


run_options = together(
    "run",
    RunWanted,
    click.option(
        "--name",
        metavar="PATTERN",
        help="How the files of a run are named, such as '{host}/it_{step}/rank{rank}.pickle'; by"
        " default the names that common trainers give are recognized.",
    ),
    click.option(
        "--layout",
        metavar="DIM=N,...",
        help="Parallel dimensions of a run in the order of ranks, the first changing fastest:"
        " tp=8,pp=4,dp=2.",
    ),
    workers_options,
)


def is_run(sources: Sequence[Path]) -> bool:
    """Say whether a run was given: several files, a folder of them, or the zip of a run."""
    if len(sources) > 1 or is_folder(sources[0]):
        return True
    from snapreport.api.run_files import is_run_bundle

    return is_run_bundle(sources[0])


def refuse_for_run(**given: object) -> None:
    """Refuse options that mean nothing for a run.

    Raises:
        UsageError: one was given.
    """
    _refuse(given, "a single file, and this is a run")


def refuse_for_file(run: RunWanted, **given: object) -> None:
    """Refuse options that mean nothing for a single file.

    Raises:
        UsageError: one was given.
    """
    _refuse(
        {**given, "name": run.name, "layout": run.layout},
        "a run: several files, or a folder of them",
    )


def _refuse(given: Mapping[str, object], purpose: str) -> None:
    for option, value in given.items():
        if value:
            name = option.replace("_", "-")
            raise click.UsageError(f"--{name} is for {purpose}.")
