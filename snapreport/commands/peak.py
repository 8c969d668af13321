"""``snapreport peak``: the peak of a curve, what made it and who held it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from snapreport.commands.answers import (
    event_json,
    groups_json,
    load_moment,
    moment_json,
    moment_name,
    new_page,
    print_json,
    print_page,
)
from snapreport.commands.moments import MomentChoice, moment_options
from snapreport.commands.naming import keep_paths_option
from snapreport.commands.options import (
    device_option,
    full_option,
    json_option,
    quiet_option,
    source_argument,
    top_option,
)


@click.command(short_help="Print the peak of a curve and the call stacks that held it.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Of this device")
@moment_options
@top_option(10)
@json_option
@full_option
@keep_paths_option
@quiet_option
def peak(
    source: Path,
    device: str | None,
    choice: MomentChoice,
    top: int,
    as_json: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Print the peak of a SNAPSHOT or BUNDLE: its step, the event that made it, and who held it.

    Memory from before the recording and memory made in it are told apart. With --between or
    --stage it is the peak in there.

    \b
    Example:
      snapreport peak snap.zip --top 5
    """
    moment = load_moment(source, device, choice, quiet)
    amounts, parts = moment.amounts, moment.parts()
    stacks = moment.by("stack")
    if as_json:
        print_json(
            "peak",
            moment_json(
                moment,
                event=event_json(moment),
                amounts=asdict(amounts),
                parts=asdict(parts),
                stacks=groups_json(moment.device, stacks, "stack"),
            ),
        )
        return
    from snapreport.reporters.terminal.answers_text import groups, usage

    page = new_page(full)
    usage(page, moment_name(moment), amounts, parts, moment.event())
    page.say()
    groups(page, "stack", stacks, moment.bytes, None if full else top)
    print_page(page)
