"""``snapreport convert``: a snapshot becomes a portable bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import snapreport
from snapreport.commands.console import print_path, progress_bar, say, say_warnings
from snapreport.commands.options import (
    cut_options,
    force_option,
    names_options,
    output_option,
    quiet_option,
    sources_argument,
    workers_options,
)
from snapreport.commands.output import convert_several
from snapreport.ground.files import is_folder
from snapreport.ground.units import format_bytes, format_share
from snapreport.model.history import Cut, NamesWanted


@click.command()
@sources_argument("SNAPSHOT...", folders=True)
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
        convert_several(sources, output, quiet, watch, jobs=jobs, engine=engine, **options)
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
