"""``snapreport render``: a snapshot or bundle becomes a report."""

from __future__ import annotations

from pathlib import Path

import click

import snapreport
from snapreport.commands.console import print_path, progress_bar
from snapreport.commands.options import (
    device_option,
    force_option,
    ignore_option,
    output_option,
    quiet_option,
    rules_option,
    source_argument,
)
from snapreport.errors import InputError, OutputError
from snapreport.files import output_path, report_format


@click.command(short_help="Make a report of a snapshot or bundle.")
@source_argument("SNAPSHOT|BUNDLE")
@output_option("REPORT")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "md"]),
    help="A page, or Markdown for an issue comment. By default told by REPORT's ending, else html.",
)
@device_option("Report on this device alone")
@click.option("--title", metavar="TEXT", help="Title of the report; by default the input's name.")
@click.option(
    "--notes",
    metavar="FILE.md",
    type=click.Path(path_type=Path),
    help="Put this Markdown on top of the report.",
)
@rules_option
@click.option(
    "--colour",
    type=click.Choice(["site", "category", "stage", "context"]),
    help="What the page's timeline is coloured by at first; site by default.",
)
@ignore_option
@force_option
@quiet_option
def render(
    source: Path,
    output: Path | None,
    format_: str | None,
    device: str | None,
    title: str | None,
    notes: Path | None,
    rules: str | None,
    colour: str | None,
    ignore: tuple[str, ...],
    force: bool,
    quiet: bool,
) -> None:
    """Make a report of a SNAPSHOT, or of the BUNDLE made from one.

    The page is one file that opens offline, with everything in it; the Markdown fits into an
    issue comment. The report's path is printed.

    \b
    Example:
      snapreport render snap.zip -o report.html
    """
    format_ = format_ or _format_by_ending(output)
    target = output_path(source, output, f".{format_}")
    if notes is not None and target.is_file() and notes.is_file() and target.samefile(notes):
        raise OutputError(f"{target} is the file with the notes; name another file with -o.")
    chosen = None if rules is None else snapreport.load_rules(rules)
    with progress_bar(quiet) as progress:
        path = snapreport.render(
            source,
            target,
            format=format_,
            device=device,
            title=title,
            notes=None if notes is None else _read_notes(notes),
            rules=chosen,
            colour=colour or ("site" if chosen is None else "category"),
            ignore=ignore,
            force=force,
            progress=progress,
        )
    print_path(path)


def _format_by_ending(output: Path | None) -> str:
    try:
        return report_format(output)
    except OutputError as error:
        raise click.UsageError(f"{error} Use --format.") from None


def _read_notes(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; --notes takes a Markdown file."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text (byte {error.start}); --notes takes a Markdown file."
        ) from error
