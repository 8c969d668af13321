"""``snapreport render``: a snapshot or bundle becomes a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import snapreport
from snapreport.commands.options.card_options import allow_option, card_option
from snapreport.commands.options.cut_options import (
    GITHUB_LIMIT,
    cut_options,
    fit_option,
    for_option,
)
from snapreport.commands.options.name_options import names_options
from snapreport.commands.options.path_type import ANY_PATH
from snapreport.commands.options.shared_options import (
    device_option,
    force_option,
    ignore_option,
    output_option,
    quiet_option,
    rules_option,
)
from snapreport.commands.output.console import print_path, progress_bar, say
from snapreport.commands.output.several_files import (
    engine_option,
    is_many,
    jobs_option,
    render_several,
    sources_argument,
)
from snapreport.ground.errors import InputError, OutputError
from snapreport.ground.files import report_format
from snapreport.model.cut import Cut
from snapreport.model.name_treatment import NamesWanted


@click.command(short_help="Make a report of a snapshot or bundle.")
@sources_argument("SNAPSHOT|BUNDLE...")
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
    type=ANY_PATH,
    help="Put this Markdown on top of the report.",
)
@rules_option
@click.option(
    "--colour",
    type=click.Choice(["site", "category", "role", "stage", "context"]),
    help="What the page's timeline is coloured by at first; site by default.",
)
@card_option
@allow_option
@click.option(
    "--allocator",
    is_flag=True,
    help="Compare settings of PyTorch's allocator even where that takes long: up to half a minute"
    " for a million events. Otherwise the report of a short recording has it.",
)
@ignore_option
@cut_options
@fit_option
@for_option
@jobs_option
@engine_option
@force_option
@names_options
@quiet_option
def render(
    sources: tuple[Path, ...],
    output: Path | None,
    format_: str | None,
    device: str | None,
    title: str | None,
    notes: Path | None,
    rules: str | None,
    colour: str | None,
    card: str | None,
    allow: str | None,
    allocator: bool,
    ignore: tuple[str, ...],
    cut: Cut | None,
    fit: int | None,
    for_: str | None,
    jobs: int | None,
    engine: str,
    force: bool,
    quiet: bool,
    names: NamesWanted,
) -> None:
    """Make a report of a SNAPSHOT, or of the BUNDLE made from one.

    The page is one file that opens offline, with everything in it; the Markdown fits into an
    issue comment. The report's path is printed.

    Several files, or folders of them, such as the ranks of one run, are rendered in several
    processes. Then -o names a folder, made if there is none, and index.html (or index.md) in it
    lists the reports with their peaks and verdicts. Of a folder, and of those in it, snapshots and
    bundles are taken: of a snapshot with its bundle beside it the bundle alone.

    \b
    Example:
      snapreport render snap.zip -o report.html
    """
    many = is_many(sources)
    format_ = format_ or ("html" if many else report_format(output))
    target = None
    if not many:
        from snapreport.api.making import target_path

        target = target_path(sources[0], output, f".{format_}", names)
    if target is not None and notes is not None and _is_same(target, notes):
        raise OutputError(f"{target} is the file with the notes; name another file with -o.")
    chosen = None if rules is None else snapreport.load_rules(rules)
    options: dict[str, Any] = {
        "format": format_,
        "device": device,
        "title": title,
        "notes": None if notes is None else _read_notes(notes),
        "rules": chosen,
        "colour": colour or ("site" if chosen is None else "category"),
        "card": card,
        "allow": allow,
        "allocator": allocator or (None if many else False),
        "ignore": ignore,
        "fit": fit or (GITHUB_LIMIT if for_ == "github" else None),
        "force": force,
        **(cut.arguments if cut else {}),
        **vars(names),
    }
    if many:
        render_several(sources, output, jobs, engine, quiet, **options)
        if for_ == "github" and format_ == "html" and not quiet:
            say("GitHub attaches no .html: zip the folder, or gzip -k the page that matters.")
        return
    with progress_bar(quiet) as progress:
        path = snapreport.render(sources[0], target, progress=progress, **options)
    if for_ == "github" and not quiet:
        say(_how_to_attach(path, format_))
    print_path(path)


def _how_to_attach(path: Path, format_: str) -> str:
    if format_ == "md":
        return f"gh issue comment NUMBER -F {path} posts it as a comment."
    # It takes .html in no issue, but .zip and .gz.
    return f"GitHub attaches no .html: gzip -k {path}, and drag {path}.gz into the issue."


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
