"""What the commands about one moment share: loading, naming the moment, text or JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import snapreport
from snapreport.commands.console import print_bytes, progress_bar
from snapreport.commands.moments import MomentChoice
from snapreport.commands.naming import paths_kept
from snapreport.model.answers import GROUPINGS
from snapreport.safe_text import plain_json

if TYPE_CHECKING:
    from snapreport.device import Device, Moment
    from snapreport.reporters.answers_text import MomentName
    from snapreport.reporters.tables import Page


def load_device(source: Path, device: str | None, quiet: bool) -> Device:
    """Load a snapshot or bundle, and pick a device: the one that a report opens with if None."""
    with progress_bar(quiet) as progress:
        return snapreport.load(source, keep_paths=paths_kept(), progress=progress).device(device)


def load_moment(source: Path, device: str | None, choice: MomentChoice, quiet: bool) -> Moment:
    """Load a device and find the moment on it.

    Raises:
        MomentError: it has no such moment, or no such curve.
    """
    found = load_device(source, device, quiet)
    if choice.curve not in found.findings.curves:
        raise snapreport.MomentError(
            f"{found.name} has no {choice.curve} bytes: no allocator reserved memory in this file."
        )
    return choice.of(found)


def moment_name(moment: Moment) -> MomentName:
    """Return how a moment is announced in text."""
    from snapreport.reporters.answers_text import MomentName

    return MomentName(moment.device.name, moment.step, moment.time_us, moment.curve, moment.bytes)


def moment_json(moment: Moment, **values: Any) -> dict[str, Any]:
    """Return a moment with its answer as plain objects."""
    return {
        "file": moment.device.file.source.name,
        "device": moment.device.name,
        "step": moment.step,
        "time_us": moment.time_us,
        "curve": moment.curve,
        "bytes": moment.bytes,
        **values,
    }


def event_json(moment: Moment) -> dict[str, Any] | None:
    """Return the event that led to a moment, with its call stack innermost first."""
    event = moment.event()
    if event is None:
        return None
    stacks = moment.device.file.stacks
    frames = stacks.frames
    stack = [
        {"name": frames.names[f], "filename": frames.filenames[f], "line": int(frames.lines[f])}
        for f in stacks.path(event.stack)
    ]
    return {**asdict(event), "stack": stack}


def print_json(answer: Any) -> None:
    """Write an answer to stdout as indented JSON."""
    import orjson

    print_bytes(plain_json(orjson.dumps(answer, option=orjson.OPT_INDENT_2)) + b"\n")


def new_page(full: bool = False) -> Page:
    """Return a page as wide as the terminal, or as its texts with ``full``."""
    from snapreport.reporters.tables import Page, terminal_width

    return Page(terminal_width(full))


def print_page(page: Page) -> None:
    """Write a page to stdout."""
    print_bytes(page.render())


by_option = click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    help="Group what is live.",
)
