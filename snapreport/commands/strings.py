"""``snapreport strings``: what a report, bundle, export or snapshot gives away."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from snapreport.commands.check import FAILED
from snapreport.commands.options.shared_options import json_option, quiet_option, source_argument
from snapreport.commands.output.answer_printing import print_json
from snapreport.commands.output.console import print_bytes, progress_bar, say
from snapreport.ground.safe_text import visible

_LONGEST = 1000
"""Letters of a text that is listed on a line."""

_WIDEST_KIND = 40
"""Columns for kinds; a setting's name, which may be any text, is part of its kind."""


@click.command(short_help="List what a file gives away.")
@source_argument("FILE")
@click.option(
    "--check",
    is_flag=True,
    help="Only what should not be in public; the status is 3 if there is any.",
)
@json_option
@quiet_option
def strings(source: Path, check: bool, as_json: bool, quiet: bool) -> None:
    """List every distinct string of a report, bundle, export or snapshot.

    One on a line, with its kind and how often it is there: whoever has FILE has these. Of very
    long ones --json has all. What is packed in a page is looked into. Pages, text, SVG, CSV,
    pprof's profiles and Perfetto's traces are told by the ending of FILE. --check looks for
    homes, user and host names (yours, and those in homes that are named), e-mail addresses,
    URLs, and what looks like a key.

    \b
    Example:
      snapreport strings --check snap.zip
    """
    from snapreport.names.file_strings import list_strings
    from snapreport.names.leaks import find_leaks
    from snapreport.names.personal_data import known_here

    with progress_bar(quiet) as progress:
        given = list_strings(source, progress)
        leaks = find_leaks(given, known_here()) if check else []
    answer = _plain({"file": source.name})
    if check:
        if as_json:
            print_json("strings", answer | {"leaks": [_plain(asdict(leak)) for leak in leaks]})
        else:
            lines = [
                f"{leak.what}: {leak.found} ({leak.why}) in {leak.kind}: {leak.text}"
                for leak in leaks
            ]
            _print(lines)
            if not leaks and not quiet:
                say(f"No personal data found in {len(given):,} strings.")
        if leaks:
            raise click.exceptions.Exit(FAILED)
        return
    if as_json:
        print_json("strings", answer | {"strings": [_plain(asdict(each)) for each in given]})
        return
    wide = min(max((len(each.kind) for each in given), default=0), _WIDEST_KIND)
    _print([f"{_begin(each.kind):{wide}}  {each.count:>7,}  {_begin(each.text)}" for each in given])


def _begin(text: str) -> str:
    """Cut a text that would fill the screen; --check looks at all of it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} letters)"


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """Replace halves of letters, which a file can have and JSON cannot."""
    return {
        key: value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, str)
        else value
        for key, value in answer.items()
    }


def _print(lines: list[str]) -> None:
    text = "".join(f"{visible(line)}\n" for line in lines)
    print_bytes(text.encode("utf-8", "replace"))
