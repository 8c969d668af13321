"""``snapreport summary``: the figures of a snapshot or bundle, on the terminal or as JSON."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import click

import snapreport
from snapreport.commands.console import in_colour, print_bytes, print_clean, progress_bar
from snapreport.commands.naming import keep_paths_option, paths_kept
from snapreport.commands.options import device_option, quiet_option, source_argument


@click.command(short_help="Print what held the memory at the peak.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Only this device")
@click.option("--json", "as_json", is_flag=True, help="Every figure as JSON, sizes in bytes.")
@keep_paths_option
@quiet_option
def summary(source: Path, device: str | None, as_json: bool, quiet: bool) -> None:
    """Print what held the memory at the peak of a SNAPSHOT or BUNDLE.

    \b
    Example:
      snapreport summary snap.pickle --json
    """
    with progress_bar(quiet) as progress:
        findings = snapreport.load(source, keep_paths=paths_kept(), progress=progress).findings(
            device=device
        )
    text = BytesIO()
    if as_json:
        from snapreport.reporters.json.json_report import JsonReporter

        JsonReporter().render(findings, text)
        print_bytes(text.getvalue())
    else:
        from snapreport.reporters.terminal.summary_text import TextReporter

        TextReporter(colour=in_colour(sys.stdout)).render(findings, text)
        print_clean(text.getvalue())
