"""``snapreport strings``: what a report, bundle, export or snapshot gives away."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from snapreport.commands.check import FAILED
from snapreport.commands.console import print_bytes, progress_bar, say
from snapreport.commands.options import json_option, quiet_option, source_argument
from snapreport.commands.output import print_json
from snapreport.ground.safe_text import visible

_LONGEST = 1000
"""The most characters of a string that are listed."""

_WIDEST_KIND = 40
"""The largest width of the column of kinds: a setting's kind has its name, which may be long."""


@click.command()
@source_argument("FILE", folders=True)
@click.option(
    "--check",
    is_flag=True,
    help="List only what should not be public; the exit status is 3 if there is any.",
)
@json_option
@quiet_option
def strings(source: Path, check: bool, as_json: bool, quiet: bool) -> None:
    """List every distinct string of a report, bundle, export or snapshot.

    Each is on a line with its kind and count: whoever has FILE can read all of these. --json has
    very long ones in full. Data packed into a page is included. The extension of FILE tells whether
    it is a page, text, SVG, CSV, pprof profile or Perfetto trace. --check looks for home folders,
    user and host names (yours, and those in paths to home folders), e-mail addresses, URLs, and
    anything that looks like a key.

    \b
    Example:
      snapreport strings --check snap.zip
    """
    from snapreport.names.file_strings import find_leaks, list_strings
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
    """Return the beginning of a very long string; --check looks at all of it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which a file can hold and JSON cannot."""
    return {
        key: value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, str)
        else value
        for key, value in answer.items()
    }


def _print(lines: list[str]) -> None:
    text = "".join(f"{visible(line)}\n" for line in lines)
    print_bytes(text.encode("utf-8", "replace"))
