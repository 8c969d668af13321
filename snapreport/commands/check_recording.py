"""``snapreport check-recording``: what a recording covers, lost, and knows exactly."""

from __future__ import annotations

from pathlib import Path

import click

import snapreport
from snapreport.commands.answers import new_page, print_json, print_page
from snapreport.commands.console import progress_bar
from snapreport.commands.naming import keep_paths_option, paths_kept
from snapreport.commands.options import (
    device_option,
    full_option,
    json_option,
    quiet_option,
    source_argument,
)


@click.command("check-recording", short_help="Say whether a recording can be trusted.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Only this device")
@json_option
@full_option
@keep_paths_option
@quiet_option
def check_recording(
    source: Path, device: str | None, as_json: bool, full: bool, quiet: bool
) -> None:
    """Say whether the figures of a SNAPSHOT or BUNDLE can be trusted, and why.

    What the recording covers, whether events were lost, which call stacks are missing, what is
    exact, whether all adds up to the byte; and how to record better. The status is 0 whatever the
    answer is; `snapreport check` fails instead.

    \b
    Example:
      snapreport check-recording snap.zip
    """
    with progress_bar(quiet) as progress:
        found = snapreport.load(source, keep_paths=paths_kept(), progress=progress).findings(
            device=device
        )
        devices = [(str(each.device), each.trust) for each in found.devices]
    if as_json:
        from snapreport.reporters.words.trust_words import trust_as_json

        print_json(
            "check-recording",
            {
                "file": found.history.source.name,
                "devices": [{"device": name, **trust_as_json(trust)} for name, trust in devices],
            },
        )
        return
    from snapreport.reporters.terminal import trust_text

    page = new_page(full)
    for i, (name, trust) in enumerate(devices):
        if i:
            page.say()
        trust_text.trust(page, name, trust)
    print_page(page)
