"""Working on several files: one progress display, and a line for each file that fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from snapreport.commands.options.path_type import ANY_PATH
from snapreport.commands.output.console import MOST_WARNINGS, print_path, say, warn
from snapreport.ground.safe_text import visible
from snapreport.ground.units import format_bytes, format_share, plural

if TYPE_CHECKING:
    from snapreport.runs import Batch, Doing, ManyProgress, Skipped

F = TypeVar("F", bound=Callable[..., Any])

_NAME = 40
"""Columns of a file's name beside its bar."""


def workers_options(**how: Any) -> Callable[[F], F]:
    """``--jobs`` and ``--engine``, with what else ``click.option()`` takes."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Files to work on at once; by default as many as processors and free memory allow.",
        **how,
    )
    engine = click.option(
        "--engine",
        metavar="ENGINE",
        default="local",
        help="Where several files are worked on: local (processes), dask, ray; dask=ADDRESS and"
        " ray=ADDRESS for a cluster that is there.  [default: local]",
        **how,
    )
    return lambda command: jobs(engine(command))


def sources_argument(metavar: str) -> Callable[[F], F]:
    """The input files and folders. Whether they exist is for the reader to say."""
    return click.argument("sources", metavar=metavar, nargs=-1, required=True, type=ANY_PATH)


def convert_several(
    sources: Sequence[Path],
    output: Path | None,
    jobs: int | None,
    engine: str,
    quiet: bool,
    watch: bool,
    **options: Any,
) -> None:
    """Convert several snapshots, and say what came of them; exits with 1 where one failed."""
    if watch:
        _convert_as_they_arrive(sources, output, jobs, engine, quiet, **options)
        return
    with progress_bars(quiet) as progress:
        from snapreport.runs import convert_many

        batch = convert_many(
            sources, output, jobs=jobs, engine=engine, progress=progress, **options
        )
    if not quiet:
        say_skipped(batch.skipped)
        _say_sizes(batch)
        _say_warnings(batch)
    _finish(batch)


def _convert_as_they_arrive(
    sources: Sequence[Path],
    output: Path | None,
    jobs: int | None,
    engine: str,
    quiet: bool,
    **options: Any,
) -> None:
    """Convert what arrives in folders until Ctrl-C, and exit with 1 where one file failed."""
    from snapreport.runs.arriving import convert_arriving

    failed = False
    if not quiet:
        say("Waiting for snapshots; Ctrl-C ends it.")
    for batch in convert_arriving(sources, output, jobs=jobs, engine=engine, **options):
        if not quiet:
            _say_sizes(batch)
            _say_warnings(batch)
        _tell(batch)
        sys.stdout.flush()
        failed = failed or bool(batch.errors)
    if failed:
        raise click.exceptions.Exit(1)


def say_skipped(skipped: Sequence[Skipped]) -> None:
    """Say which files were left out, and why."""
    from snapreport.runs import skipped_words

    for line in skipped_words(skipped):
        say(f"Skipped: {line}")


def _say_sizes(batch: Batch) -> None:
    there = sum(outcome.already for outcome in batch.outcomes)
    if there:
        files = "the same file" if there == 1 else "the same files"
        say(f"{plural(there, 'bundle')} already there, made of {files}.")
    made = [each for each in batch.outcomes if each.path is not None and not each.already]
    if not made:
        return
    before = sum(each.source.stat().st_size for each in made)
    after = sum(each.path.stat().st_size for each in made if each.path is not None)
    say(
        f"{plural(len(made), 'bundle')}: {format_bytes(after)},"
        f" {format_share(after, before)} of the {format_bytes(before)} of their snapshots."
    )


def _say_warnings(batch: Batch) -> None:
    """Write the first few warnings, each with its bundle."""
    said = [(each.path, text) for each in batch.outcomes for text in each.warnings]
    for path, text in said[:MOST_WARNINGS]:
        warn(f"{path.name if path else ''}: {text}")
    if len(said) > MOST_WARNINGS:
        warn(f"{len(said) - MOST_WARNINGS} more; the reports list all of them.")


def _finish(batch: Batch) -> None:
    """Write the errors, then the paths; exit with 1 if there is an error."""
    _tell(batch)
    if batch.errors:
        raise click.exceptions.Exit(1)


def _tell(batch: Batch) -> None:
    say_errors(batch.errors)
    for path in batch.paths:
        print_path(path)


def say_errors(errors: Sequence[str]) -> None:
    """Write a line for each."""
    for error in errors:
        click.echo(f"Error: {visible(error)}", err=True)


@contextmanager
def progress_bars(quiet: bool) -> Iterator[ManyProgress | None]:
    """Show a bar for all files on stderr and one for each that is being worked on.

    Nothing is shown, nor rich imported, when stderr is no terminal or ``quiet`` is on.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        running: dict[Path, TaskID] = {}
        whole = bar.add_task("", total=None, name="In all")

        def show(doing: Doing) -> None:
            done = f"{doing.ended} of {doing.total} files"
            bar.update(whole, description=done, total=doing.total, completed=doing.ended)
            source = doing.source
            if doing.what is None:
                if source in running:
                    bar.remove_task(running.pop(source))
                return
            if source not in running:
                running[source] = bar.add_task("", total=None, name=_short(source))
            total = None if doing.fraction is None else 1.0
            bar.update(
                running[source],
                description=doing.what,
                total=total,
                completed=doing.fraction or 0.0,
            )

        yield show


def _short(source: Path) -> str:
    text = visible(str(source))
    return text if len(text) <= _NAME else f"…{text[1 - _NAME :]}"
