"""``snapreport summary``: what held the memory, what went wrong, and whether to trust it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import click
import orjson

import snapreport
from snapreport.api.saved_report import is_report, read_report_summary
from snapreport.commands.options.card_options import allow_option, card_option
from snapreport.commands.options.name_options import answer_options, paths_kept
from snapreport.commands.options.shared_options import (
    device_option,
    ignore_option,
    source_argument,
)
from snapreport.commands.output.answer_printing import new_page, print_page
from snapreport.commands.output.console import print_bytes, progress_bar
from snapreport.ground.safe_text import plain_json


@click.command(short_help="Print what held the memory, what went wrong, and what to do.")
@source_argument("SNAPSHOT|BUNDLE|REPORT")
@device_option("Only this device")
@click.option(
    "--findings", is_flag=True, help="The findings alone: their evidence, and what would help."
)
@click.option(
    "--recording", is_flag=True, help="Whether the recording can be trusted alone, by every check."
)
@card_option
@allow_option
@ignore_option
@answer_options
def summary(
    source: Path,
    device: str | None,
    findings: bool,
    recording: bool,
    card: str | None,
    allow: str | None,
    ignore: tuple[str, ...],
    as_json: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Print what held the memory of a SNAPSHOT or BUNDLE, what went wrong, and what to do.

    Of a REPORT, a page that `snapreport render` made, the summary is printed that it carries.

    The peak and who held it, stages, findings in a line each, and whether the recording can be
    trusted. --findings and --recording print these parts in full. The status is 0 whatever is
    found; `snapreport check` fails instead.

    \b
    Example:
      snapreport summary snap.zip
      snapreport summary snap.zip --findings
      snapreport summary report.html
      snapreport summary snap.zip --card a100-40
    """
    if is_report(source):
        if device or findings or recording or card or allow or ignore:
            raise click.UsageError(
                f"{source} is a report, which carries one summary; of the options only --json and"
                " --full apply to it."
            )
        _say_saved(source, as_json, full)
        return
    with progress_bar(quiet) as progress:
        snapshot = snapreport.load(source, keep_paths=paths_kept(), progress=progress)
        found = snapshot.findings(device=device, ignore=ignore, card=card, allow=allow)
    if as_json:
        from snapreport.reporters.json.json_report import JsonReporter

        text = BytesIO()
        JsonReporter().render(found, text)
        print_bytes(text.getvalue())
        return
    page = new_page(full)
    if findings:
        from snapreport.reporters.terminal.diagnosis_text import write_diagnoses

        write_diagnoses(page, found, full)
    if recording:
        from snapreport.reporters.terminal.trust_text import write_trust

        write_trust(page, found)
    if not findings and not recording:
        from snapreport.reporters.terminal.summary_text import write_summary

        write_summary(page, found, full)
    print_page(page)


def _say_saved(report: Path, as_json: bool, full: bool) -> None:
    summary = read_report_summary(report)
    if as_json:
        print_bytes(plain_json(orjson.dumps(summary, option=orjson.OPT_INDENT_2)) + b"\n")
        return
    from snapreport.reporters.terminal.saved_text import write_saved

    page = new_page(full)
    write_saved(page, summary)
    print_page(page)
