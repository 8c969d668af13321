"""``snapreport explore``: explore a recording in the terminal."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from snapreport.commands.options import allow_option, card_option, device_option, source_argument
from snapreport.ground.cards import wanted_card
from snapreport.ground.errors import InputError, OutputError


@click.command()
@source_argument("SNAPSHOT|BUNDLE")
@source_argument("[OTHER]", "other", required=False)
@device_option("Start with this device")
@click.option(
    "--theme",
    type=click.Choice(["dark", "light", "terminal"]),
    help="Colours; terminal uses the terminal's own 16. By default they are detected.",
)
@card_option
@allow_option
@click.option("--no-cache", is_flag=True, help="Keep no bundle of the snapshot in your cache.")
def explore(
    source: Path,
    other: Path | None,
    device: str | None,
    theme: str | None,
    card: str | None,
    allow: str | None,
    no_cache: bool,
) -> None:
    """Explore a SNAPSHOT or BUNDLE in the terminal, over SSH too, without a browser.

    It has the report's views, all at one moment: overview, timeline, call stacks and so on; ?
    lists the keys. An OTHER file is shown side by side with the first. A snapshot's bundle is kept
    in your cache, which holds 2 GiB at most, so that it opens at once the next time.

    This needs Textual: pip install textual platformdirs

    \b
    Example:
      snapreport explore snap.pickle
      snapreport explore before.zip after.zip
    """  # fmt: skip
    paths = [source] if other is None else [source, other]
    _check_ready(paths)
    from snapreport.commands.explorer.app import explore as run

    run(
        paths,
        device=device,
        keep=not no_cache,
        theme=theme,
        card=wanted_card(card, allow),
    )


def _check_ready(paths: Sequence[Path]) -> None:
    """Check that the files, a terminal and Textual are there.

    Raises:
        InputError: a file is missing.
        OutputError: there is no terminal, or Textual is not installed.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist.")
    if importlib.util.find_spec("textual") is None:
        raise OutputError("The explorer needs Textual: pip install textual platformdirs")
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise OutputError(
            "The explorer needs a terminal for its input and output;"
            " `snapreport summary` and `snapreport live` print to a pipe or file."
        )
