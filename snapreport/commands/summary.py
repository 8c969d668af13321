"""``snapreport summary``: what held the memory, what went wrong, and whether to trust it."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

import snapreport
from snapreport.api.saved_report import is_report, read_report_summary
from snapreport.commands.console import print_bytes, progress_bar, say_error
from snapreport.commands.options import (
    RunWanted,
    allow_option,
    card_option,
    device_option,
    ignore_option,
    is_run,
    refuse_for_file,
    refuse_for_run,
    run_options,
    source_argument,
)
from snapreport.commands.output import (
    Answer,
    answer_options,
    end_with_errors,
    print_json,
    say_skipped,
)
from snapreport.ground.errors import SnapreportError
from snapreport.ground.safe_text import plain_json

if TYPE_CHECKING:
    from snapreport.model.findings import Findings


@click.command()
@source_argument("SNAPSHOT|BUNDLE|REPORT|RUN...", "sources", several=True)
@device_option("Show only this device")
@click.option(
    "--findings",
    is_flag=True,
    help="Print only the findings, with their evidence and what would help.",
)
@click.option(
    "--recording",
    is_flag=True,
    help="Print only whether the recording can be trusted, by every check.",
)
@card_option
@allow_option
@ignore_option
@run_options
@answer_options()
def summary(
    sources: tuple[Path, ...],
    device: str | None,
    findings: bool,
    recording: bool,
    card: str | None,
    allow: str | None,
    ignore: tuple[str, ...],
    run: RunWanted,
    answer: Answer,
) -> None:
    """Print what held the memory of a SNAPSHOT or BUNDLE, what went wrong, and what to do.

    It covers the peak and what held it, stages, one line per finding, and whether the recording
    can be trusted. --findings and --recording print those parts in full. The exit status is 0
    whatever is found; use `snapreport check` to fail.

    For a REPORT, a page that `snapreport render` made, it prints the summary in the page.

    For a RUN, a folder with the files of its ranks or the zip that `snapreport render` made of
    them, it says which ranks differ from the others, and why. Several files are a table with a row
    for each, or with --findings the findings of one after the other; with --name or --layout they
    are a run.

    \b
    Example:
      snapreport summary snap.zip
      snapreport summary snap.zip --findings
      snapreport summary report.html
      snapreport summary run/
      snapreport summary before.pickle after.pickle
      snapreport summary snap.zip --card a100-40
    """
    if is_run(sources):
        refuse_for_run(recording=recording, card=card, allow=allow)
        as_files = len(sources) > 1 and not (run.name or run.layout)
        if as_files and findings and not answer.as_json:
            _say_findings(sources, answer, device=device, ignore=ignore)
            return
        may_be_empty = as_files and answer.as_json
        loaded = answer.run(sources, run, may_be_empty=may_be_empty, device=device, ignore=ignore)
        if as_files:
            _say_files(loaded, sources, answer)
        else:
            _say_run(loaded, findings, answer)
        end_with_errors(loaded)
        return
    from snapreport.reporters import summary as reports

    (source,) = sources
    refuse_for_file(run)
    if is_report(source):
        if device or findings or recording or card or allow or ignore:
            raise click.UsageError(
                f"{source} is a report, whose summary is fixed; only the options --json, --md"
                " and --full apply to it."
            )
        saved = read_report_summary(source)
        if answer.as_json:
            print_bytes(plain_json(orjson.dumps(saved, option=orjson.OPT_INDENT_2)) + b"\n")
        else:
            answer.print(reports.saved_document(saved))
        return
    found = _findings_of(source, answer, device=device, ignore=ignore, card=card, allow=allow)
    if answer.as_json:
        from snapreport.reporters.json_report import write_summary_json

        text = BytesIO()
        write_summary_json(found, text)
        print_bytes(text.getvalue())
        return
    if findings or recording:
        answer.print(
            *([reports.diagnosis_document(found, answer.full)] if findings else []),
            *([reports.trust_document(found)] if recording else []),
        )
    elif answer.as_markdown:
        rooms = (reports.FULL_REPORT,) if answer.full else reports.REPORT_ROOMS
        answer.print_fitting(partial(reports.summary_document, found), *rooms)
    else:
        room = reports.FULL if answer.full else reports.TERMINAL
        answer.print(reports.summary_document(found, room))


def _say_run(loaded: snapreport.LoadedRun, findings: bool, answer: Answer) -> None:
    from snapreport.reporters import run as reports

    if answer.as_json:
        print_json("run", reports.run_as_json(loaded.run, loaded.findings))
    elif findings:
        answer.print(reports.run_findings_document(loaded.run, answer.full))
    else:
        rooms = reports.ROOMS if answer.as_markdown else (reports.SCREEN,)
        answer.print_fitting(
            partial(reports.run_document, loaded.run, loaded.findings),
            *((reports.EVERYTHING,) if answer.full else rooms),
            titled=bool(loaded.run.title),
        )


def _say_files(loaded: snapreport.LoadedRun, given: tuple[Path, ...], answer: Answer) -> None:
    from snapreport.reporters.run import files_as_json, files_document

    place = {path: at for at, path in enumerate(given)}
    order = {
        name: min(place[each] for each in (path, *path.parents) if each in place)
        for name, path in loaded.files.items()
    }
    files = sorted(loaded.run.ranks, key=lambda each: order[each.source])
    if answer.as_json:
        print_json("files", {"files": files_as_json(files)})
    else:
        answer.print(files_document(files))


def _findings_of(source: Path, answer: Answer, **options: Any) -> Findings:
    """Load a file and draw conclusions from it."""
    with progress_bar(answer.quiet) as progress:
        snapshot = snapreport.load(source, keep_paths=answer.keep_paths, progress=progress)
        return snapshot.findings(**options)


def _say_findings(given: tuple[Path, ...], answer: Answer, **options: Any) -> None:
    """Write the findings of one file after the other; exits with 1 if one cannot be read."""
    from snapreport.api.runs.inputs import find_inputs
    from snapreport.reporters.summary import diagnosis_document

    inputs = find_inputs(given, bundles=True)
    if not answer.quiet:
        say_skipped(inputs.skipped)
    said = failed = False
    for path in inputs.files:
        try:
            found = _findings_of(path, answer, **options)
        except SnapreportError as error:
            say_error(str(error))
            failed = True
            continue
        print_bytes(b"\n" * said)
        said = True
        of_file = diagnosis_document(found, answer.full, named=True)
        answer.print(replace(of_file, title=str(path)), titled=True)
        sys.stdout.flush()
    if failed:
        raise click.exceptions.Exit(1)
