"""``snapreport diff``: what grew and shrank between two snapshots, by where it was allocated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import snapreport
from snapreport.commands.console import print_path, progress_bar
from snapreport.commands.options import (
    RunWanted,
    curve_option,
    device_option,
    force_option,
    is_run,
    output_option,
    refuse_for_file,
    refuse_for_run,
    rules_option,
    run_options,
    source_argument,
)
from snapreport.commands.output import (
    Answer,
    answer_options,
    end_with_errors,
    print_json,
)
from snapreport.diagnosis.compare.diff_types import DIFF_GROUPINGS
from snapreport.ground.files import check_output, output_path, report_format

if TYPE_CHECKING:
    from snapreport.reporters.document import Document


@click.command()
@source_argument("BASE", "base")
@source_argument("NEW", "new")
@device_option("Compare this device of both")
@click.option("--new-device", metavar="N", help="The device of NEW, if it differs.")
@curve_option()
@click.option(
    "--at",
    type=click.Choice(["peak", "start", "end"]),
    default="peak",
    show_default=True,
    help="Compare at each one's peak of the curve, at the start or at the end.",
)
@click.option("--stage", metavar="NAME", help="Compare at the peak within a stage, or NAME[2].")
@click.option(
    "--base-event",
    type=int,
    metavar="N",
    help="Compare BASE after its event N; -1 is the start.",
)
@click.option("--new-event", type=int, metavar="N", help="Compare NEW after its event N.")
@click.option(
    "--by",
    type=click.Choice(DIFF_GROUPINGS),
    default="site",
    show_default=True,
    help="What to group the changes by.",
)
@rules_option
@run_options
@output_option(
    "REPORT", "Write a page (.html) or Markdown for an issue comment (.md) instead of text."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "md"]),
    help="REPORT's format; by default from its extension.",
)
@force_option
@answer_options(10)
def diff(
    base: Path,
    new: Path,
    run: RunWanted,
    output: Path | None,
    format_: str | None,
    force: bool,
    answer: Answer,
    **wanted: Any,
) -> None:
    """Compare two snapshots or bundles: what grew and what shrank from BASE to NEW?

    The changes of the call sites add up to the change of the peak, to the byte. Call sites still
    match if lines moved or the code is installed elsewhere; those in only one file are marked.

    Given two runs, folders of ranks or their zips, it compares each rank with itself at its peak:
    which ranks changed, by how much, and at which call site.

    \b
    Example:
      snapreport diff base.zip new.pickle -o diff.html
    """
    if is_run([base]) or is_run([new]):
        of_files = ("new_device", "stage", "base_event", "new_event", "rules")
        refuse_for_run(**{name: wanted[name] for name in of_files}, output=output, format=format_)
        if [wanted[name] for name in ("curve", "at", "by")] != ["allocated", "peak", "site"]:
            raise click.UsageError("runs are compared by call site, at the allocated peak.")
        before, after = (answer.run(path, run, device=wanted["device"]) for path in (base, new))
        _diff_runs(before, after, answer)
        end_with_errors(before, after)
        return
    refuse_for_file(run)
    if (answer.as_json or answer.as_markdown) and output is not None:
        form = "--json" if answer.as_json else "--md"
        raise click.UsageError(f"{form} writes to stdout; leave out -o, and redirect it.")
    if format_ is not None and output is None:
        raise click.UsageError("--format is the format of a report; name its file with -o.")
    events = (wanted["base_event"], wanted["new_event"])
    if wanted["stage"] is not None and (wanted["at"] != "peak" or events != (None, None)):
        raise click.UsageError("--stage, --at and events each name a moment; give one of them.")
    target = None
    if output is not None:  # if it cannot be written, fail before any work is done
        kind = format_ or report_format(output)
        target = output_path(new, output, f".diff.{kind}")
        output_path(base, target, f".{kind}")  # it must not replace BASE either
        check_output(target, force)
    wanted["keep_paths"] = answer.keep_paths
    with progress_bar(answer.quiet) as progress:
        found = snapreport.diff(base, new, progress=progress, **wanted)
        if target is not None:
            snapreport.render_diff(found, target, format=format_, force=force)
    if target is not None:
        print_path(target)
    elif answer.as_json:
        from snapreport.reporters.json_report import diff_as_json

        print_json("diff", diff_as_json(found))
    else:
        from snapreport.reporters.comparison import diff_document

        _print(partial(diff_document, found, more="--full shows all"), answer)


def _diff_runs(base: snapreport.LoadedRun, new: snapreport.LoadedRun, answer: Answer) -> None:
    from snapreport.diagnosis.ranks.two_runs import compare_runs

    found = compare_runs(base.run, new.run)
    if answer.as_json:
        print_json("run-diff", asdict(found))
        return
    from snapreport.reporters.run import run_diff_document

    _print(partial(run_diff_document, found), answer)


def _print(build: Callable[[int | None], Document], answer: Answer) -> None:
    """Print the rows asked for, or as Markdown as many of them as fit."""
    from snapreport.reporters.comparison import DIFF_ROWS

    fewer = [rows for rows in DIFF_ROWS if answer.top is not None and rows < answer.top]
    answer.print_fitting(build, answer.top, *fewer)
