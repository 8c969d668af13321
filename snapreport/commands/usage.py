"""``snapreport usage``: every amount at one moment."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from snapreport.commands.answers import (
    event_json,
    load_moment,
    moment_json,
    moment_name,
    new_page,
    print_json,
    print_page,
)
from snapreport.commands.moments import MomentChoice, moment_options
from snapreport.commands.naming import keep_paths_option
from snapreport.commands.options import device_option, json_option, quiet_option, source_argument


@click.command(short_help="Print how many bytes were live at a moment.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Of this device")
@moment_options
@json_option
@keep_paths_option
@quiet_option
def usage(
    source: Path, device: str | None, choice: MomentChoice, as_json: bool, quiet: bool
) -> None:
    """Print every amount of a SNAPSHOT or BUNDLE at a moment, the peak by default.

    Allocated, requested, active and reserved bytes, slack, inactive bytes and fragmentation.

    \b
    Example:
      snapreport usage snap.zip --step 1
    """
    moment = load_moment(source, device, choice, quiet)
    if as_json:
        print_json(
            "usage",
            moment_json(
                moment,
                event=event_json(moment),
                amounts=asdict(moment.amounts),
                parts=asdict(moment.parts()),
            ),
        )
        return
    from snapreport.reporters.terminal import answers_text

    page = new_page()
    event = moment.event()
    answers_text.usage(page, moment_name(moment), moment.amounts, moment.parts(), event)
    print_page(page)
