"""``snapreport convert``: a snapshot becomes a portable bundle."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import snapreport
from snapreport.commands.console import print_path, progress_bar, say, say_warnings
from snapreport.commands.options import (
    cut_options,
    force_option,
    names_options,
    output_option,
    quiet_option,
    source_argument,
    workers_options,
)
from snapreport.commands.output import progress_bars, say_errors, say_skipped
from snapreport.ground.files import is_folder
from snapreport.ground.units import format_bytes, format_share, plural
from snapreport.model.asked import (
    Cut,
    NamesWanted,
)

if TYPE_CHECKING:
    from snapreport.api.runs import Batch


@click.command()
@source_argument("SNAPSHOT...", "sources", several=True, folders=True)
@output_option("BUNDLE.zip")
@cut_options
@workers_options
@click.option("--watch", is_flag=True, help="Keep converting files as they arrive, until Ctrl-C.")
@force_option
@names_options
@quiet_option
def convert(
    sources: tuple[Path, ...],
    output: Path | None,
    cut: Cut | None,
    jobs: int | None,
    engine: str,
    watch: bool,
    force: bool,
    quiet: bool,
    names: NamesWanted,
) -> None:
    """Turn SNAPSHOT into a bundle that any machine can read without PyTorch.

    SNAPSHOT is what torch.cuda.memory._dump_snapshot() writes, or JSON of the same shape; either
    may be compressed with gzip or zstd. The bundle is a zip with the entire history as SQLite
    (elements.db) and the timeline as JSON (allocations.json). Its path is printed.

    Several snapshots, or folders of them, such as the ranks of one run, are converted in several
    processes, and -o names a folder, created if need be. Folders are searched, subfolders too, for
    files that end in .pickle, .pkl or .json (also .gz, .zst) and begin like a snapshot. A bundle
    already made from the same file is kept. With --watch, files are converted as they arrive in the
    folders, once they stop growing.

    --from, --to and --min-size limit what allocations.json, and pages made from the bundle, draw;
    elements.db has everything, and render with --min-size 0 shows it.

    \b
    Example:
      snapreport convert snap.pickle -o snap.zip
    """
    options: dict[str, Any] = {"force": force, **(cut.arguments if cut else {}), **vars(names)}
    if watch and not all(is_folder(source) for source in sources):
        raise click.UsageError("--watch takes folders.")
    if len(sources) > 1 or is_folder(sources[0]):
        _convert_several(sources, output, quiet, watch, jobs=jobs, engine=engine, **options)
        return
    source = sources[0]
    warnings: list[str] = []
    with progress_bar(quiet) as progress:
        path = snapreport.convert(source, output, progress=progress, see=warnings.extend, **options)
    if path.is_file() and not quiet:  # it is not a file if it was written to a pipe
        _say_size(source, path)
        say_warnings(warnings)
        if warnings:
            say(f"snapreport summary --findings {path.name} explains, and says what to do.")
    print_path(path)


def _say_size(source: Path, bundle: Path) -> None:
    try:
        before, after = source.stat().st_size, bundle.stat().st_size
    except OSError:  # one of them has been removed meanwhile
        return
    share = f"{format_share(after, before)} of the snapshot's {format_bytes(before)}"
    say(f"{bundle.name}: {format_bytes(after)}, {share}.")


def _convert_several(
    sources: Sequence[Path], output: Path | None, quiet: bool, watch: bool, **options: Any
) -> None:
    """Convert several snapshots and print the outcome; exits with 1 if one failed."""
    failed = False
    for batch in _batches(sources, output, quiet, watch, **options):
        if not quiet:
            say_skipped(batch.skipped)
            _say_sizes(batch)
            warned = [(each.path, text) for each in batch.outcomes for text in each.warnings]
            texts = [f"{path.name if path else ''}: {text}" for path, text in warned]
            say_warnings(texts, "reports list")
        say_errors(batch.errors)
        for path in batch.paths:
            print_path(path)
        sys.stdout.flush()
        failed = failed or bool(batch.errors)
    if failed:
        raise click.exceptions.Exit(1)


def _batches(
    sources: Sequence[Path], output: Path | None, quiet: bool, watch: bool, **options: Any
) -> Iterator[Batch]:
    if not watch:
        with progress_bars(quiet) as progress:
            batch = snapreport.convert_many(sources, output, progress=progress, **options)
        yield batch
        return
    from snapreport.api.runs.many_files import convert_arriving

    if not quiet:
        say("Waiting for snapshots; Ctrl-C ends it.")
    yield from convert_arriving(sources, output, **options)


def _say_sizes(batch: Batch) -> None:
    there = sum(outcome.already for outcome in batch.outcomes)
    if there:
        files = "the same file" if there == 1 else "the same files"
        say(f"{plural(there, 'bundle')} already there, made from {files}.")
    made = [
        (each.source, each.path)
        for each in batch.outcomes
        if each.path is not None and not each.already
    ]
    if made:
        before, after = (
            sum(path.stat().st_size for path in paths) for paths in zip(*made, strict=True)
        )
        say(
            f"{plural(len(made), 'bundle')}: {format_bytes(after)},"
            f" {format_share(after, before)} of the {format_bytes(before)} of their snapshots."
        )
