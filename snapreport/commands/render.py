"""``snapreport render``: make a report of a snapshot or bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import snapreport
from snapreport.commands.console import print_path, progress_bar, say
from snapreport.commands.options import (
    ANY_PATH,
    RunWanted,
    allow_option,
    card_option,
    cut_options,
    device_option,
    force_option,
    ignore_option,
    is_run,
    names_options,
    output_option,
    quiet_option,
    reads,
    refuse_for_file,
    rules_option,
    run_options,
    source_argument,
)
from snapreport.commands.output import progress_bars, say_errors, say_skipped
from snapreport.ground.errors import InputError, OutputError
from snapreport.ground.files import report_format
from snapreport.ground.units import plural
from snapreport.model.asked import (
    Cut,
    NamesWanted,
    cut_size,
)

if TYPE_CHECKING:
    from snapreport.model.roles import Rule

_GITHUB_LIMIT = "25MB"
"""The largest file that GitHub accepts as an attachment."""


@click.command()
@source_argument("SNAPSHOT|BUNDLE|RUN...", "sources", several=True)
@output_option("REPORT")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "md", "zip"]),
    help="A page, or Markdown for an issue comment; for a run also a zip, from which both can be"
    " made. By default from REPORT's extension, else html.",
)
@device_option("Report only on this device")
@click.option("--title", metavar="TEXT", help="Title of the report; by default the input's name.")
@click.option(
    "--notes",
    metavar="FILE.md",
    type=ANY_PATH,
    help="Show this Markdown at the top of the report.",
)
@rules_option
@click.option(
    "--colour",
    type=click.Choice(["site", "category", "role", "stage", "context"]),
    help="How the page's timeline is coloured at first; by default by role where roles are known"
    " for 90 % of the peak, else by site (call site).",
)
@card_option
@allow_option
@click.option(
    "--allocator",
    is_flag=True,
    help="Compare allocator settings even if that takes long: up to half a minute for a million"
    " events. Reports of short recordings have the comparison anyway.",
)
@ignore_option
@cut_options
@click.option(
    "--fit",
    metavar="SIZE",
    callback=reads(cut_size),
    help="Thin the page until it is at most this size, 25MB or bytes; it says what was left out. "
    "Peaks, failed requests, stages and call sites stay exact.",
)
@click.option(
    "--for",
    "for_",
    type=click.Choice(["github"]),
    help=f"Fit the limit of this site: github means --fit {_GITHUB_LIMIT}.",
)
@click.option(
    "--pages",
    type=click.Choice(["all", "odd", "none"]),
    help="Ranks that get a page of their own beside the run's page: odd means ranks that differ"
    " from the others, one rank of each group, and the first that failed.  [default: odd]",
)
@run_options
@force_option
@names_options
@quiet_option
def render(
    sources: tuple[Path, ...],
    output: Path | None,
    format_: str | None,
    notes: Path | None,
    rules: tuple[Rule, ...] | None,
    colour: str | None,
    allocator: bool,
    cut: Cut | None,
    fit: int | None,
    for_: str | None,
    pages: str | None,
    run: RunWanted,
    quiet: bool,
    names: NamesWanted,
    **options: Any,
) -> None:
    """Make a report of a SNAPSHOT, of the BUNDLE made from one, or of a RUN.

    The page is one self-contained file that opens offline; the Markdown fits into an issue
    comment. The report's path is printed.

    A RUN is several files, such as one per rank, folders of them, or the zip that this command
    makes of them. Its report compares the ranks: which differ from the others, and why. Pages of
    single ranks go into the folder ranks beside the run's page; -o may name a folder for both.
    Folders are searched for snapshots and bundles, subfolders too; a snapshot with its bundle
    beside it is left out.

    \b
    Example:
      snapreport render snap.zip -o report.html
      snapreport render run/ -o run.html
    """
    many = is_run(sources)
    if not many:
        refuse_for_file(run, pages=pages)
        if format_ == "zip":
            raise click.UsageError("--format zip is for a run; snapreport convert makes a bundle.")
        from snapreport.api.loading import target_path

        format_ = format_ or report_format(output)
        output = target_path(sources[0], output, f".{format_}", names)
        if notes is not None and _is_same(output, notes):
            raise OutputError(f"{output} is the file of --notes; name another file with -o.")
    options |= {
        "notes": None if notes is None else _read_notes(notes),
        "rules": rules,
        "colour": colour or (None if rules is None else "category"),
        "allocator": allocator or (None if many else False),
        "fit": fit or (_GITHUB_LIMIT if for_ == "github" else None),
        **(cut.arguments if cut else {}),
        **vars(names),
    }
    if many:
        _render_run(sources, output, format_, quiet, pages=pages, **vars(run), **options)
        if for_ == "github" and format_ != "md" and not quiet:
            say("Drag the page that matters into the issue, or a zip of the folder.")
        return
    with progress_bar(quiet) as progress:
        path = snapreport.render(sources[0], output, format=format_, progress=progress, **options)
    if for_ == "github" and not quiet and format_ is not None:
        say(_how_to_attach(path, format_))
    print_path(path)


def _render_run(
    sources: tuple[Path, ...],
    output: Path | None,
    format_: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Render a run and print the outcome; exits with 1 if a file gave no figures."""
    with progress_bars(quiet) as progress:
        report = snapreport.render_run(
            sources, output, format=format_, progress=progress, **options
        )
    if not quiet:
        say_skipped(report.skipped)
        if report.path is not None:
            say(report.loaded.findings.headline)
        if report.pages:
            say(f"{plural(len(report.pages), 'page')} of single ranks beside it.")
    say_errors(report.errors)
    if report.path is not None:
        print_path(report.path)
    if report.errors:
        raise click.exceptions.Exit(1)


def _how_to_attach(path: Path, format_: str) -> str:
    if format_ == "md":
        return f"gh issue comment NUMBER -F {path} posts it as a comment."
    return f"Drag {path} into the issue: GitHub takes .html of up to {_GITHUB_LIMIT}."


def _is_same(target: Path, notes: Path) -> bool:
    return target.is_file() and notes.is_file() and target.samefile(notes)


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
