"""``snapreport export``: write a snapshot or bundle in another tool's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import snapreport
from snapreport.commands.console import print_path, progress_bar, say
from snapreport.commands.options import (
    RunWanted,
    device_option,
    force_option,
    is_run,
    moment_options,
    names_options,
    output_option,
    quiet_option,
    refuse_for_file,
    run_options,
    source_argument,
)
from snapreport.commands.output import Answer, end_with_errors
from snapreport.ground.files import check_output, output_path, write_atomically
from snapreport.model.asked import (
    MomentWanted,
    NamesWanted,
)
from snapreport.reporters.exports import EXPORTS


@click.command()
@click.argument("format_", metavar="FORMAT", type=click.Choice(list(EXPORTS)))
@source_argument("SNAPSHOT|BUNDLE|RUN")
@output_option("OUT")
@device_option("Export this device")
@moment_options
@run_options
@force_option
@names_options
@quiet_option
def export(
    format_: str,
    source: Path,
    output: Path | None,
    device: str | None,
    wanted: MomentWanted,
    run: RunWanted,
    force: bool,
    quiet: bool,
    names: NamesWanted,
) -> None:
    """Write a SNAPSHOT or BUNDLE in the FORMAT of another tool, and print the file's path.

    \b
    speedscope  call stacks at a moment, for speedscope.app
    collapsed   the same for flamegraph.pl and inferno: a line per stack
    pprof       the same for go tool pprof: in use then, and allocated in total
    perfetto    curves and allocations over time, for ui.perfetto.dev
    csv         a row per allocation; with a moment, per allocation live then
    parquet     the same for pandas, Polars and DuckDB; needs pyarrow
    json        the raw snapshot, for Mosaic and scripts
    pickle      the raw snapshot at protocol 4, for viewers that refuse 5
    snapviewer  a folder with allocations.json and elements.db, for SnapViewer

    \b
    Sizes are block sizes, or requested sizes with --curve requested. The moment is the
    peak of the curve unless you name one. From a BUNDLE, or with --redact, json and
    pickle are rebuilt: every figure is in them, keys that snapreport does not know are
    not. For a RUN, a folder of ranks or its zip, parquet has a row per device and rank.

    \b
    Example:
      snapreport export speedscope snap.zip -o snap.speedscope.json
    """
    if is_run([source]):
        if format_ != "parquet" or wanted.names:
            raise click.UsageError("a run can be exported as parquet only, at its peaks.")
        _export_run(source, output, force, run, quiet, device=device, **vars(names))
        return
    refuse_for_file(run)
    with progress_bar(quiet) as progress:
        path = snapreport.export(
            source,
            format_,
            output,
            device=device,
            force=force,
            progress=progress,
            **vars(names),
            **vars(wanted),
        )
    if format_ in ("json", "pickle") and not quiet:
        if names.redacted:
            say("Rebuilt, because it is redacted: without keys that snapreport does not know.")
        else:
            with source.open("rb") as file:
                if file.read(2) == b"PK":
                    say("Rebuilt from a bundle: without keys that snapreport does not know.")
    print_path(path)


def _export_run(
    source: Path, output: Path | None, force: bool, wanted: RunWanted, quiet: bool, **options: Any
) -> None:
    from snapreport.reporters.exports.tables import write_run_table

    run = source.resolve() if source.is_dir() else source
    target = output_path(run, output, ".parquet")
    check_output(target, force)
    loaded = Answer(quiet=quiet).run(source, wanted, **options)
    with write_atomically(target, force, list(loaded.files.values()) or [source]) as out:
        write_run_table(loaded.run, out)
    print_path(target)
    end_with_errors(loaded)
