"""``snapreport diagnose``: what went wrong, can the recording be trusted, and what to do."""

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
    ignore_option,
    json_option,
    quiet_option,
    source_argument,
)


@click.command(short_help="Say what went wrong, and what to do about it.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Only this device")
@ignore_option
@json_option
@full_option
@keep_paths_option
@quiet_option
def diagnose(
    source: Path,
    device: str | None,
    ignore: tuple[str, ...],
    as_json: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Say what went wrong in a SNAPSHOT or BUNDLE, and what to do about it.

    Why memory ran out or what held the peak, whether the recording can be trusted, leaks, churn
    and what the allocator lost: each finding with its evidence, and with what would help in bytes.
    The status is 0 whatever is found; `snapreport check` fails instead.

    \b
    Example:
      snapreport diagnose snap.zip
    """
    with progress_bar(quiet) as progress:
        snapshot = snapreport.load(source, keep_paths=paths_kept(), progress=progress)
        found = snapshot.findings(device=device, ignore=ignore)
        devices = [(each, each.diagnosis) for each in found.devices]
    from snapreport.reporters.terminal import diagnosis_text
    from snapreport.reporters.words.finding_words import diagnosis_as_json, finding_as_json, tally
    from snapreport.reporters.words.plain_text import one_line

    if as_json:
        print_json(
            "diagnose",
            {
                "file": found.history.source.name,
                "findings": [finding_as_json(each) for each in found.warnings],
                "devices": [
                    {"device": str(each.device), **diagnosis_as_json(diagnosis)}
                    for each, diagnosis in devices
                ],
            },
        )
        return
    page = new_page(full)
    if found.warnings:
        page.say(one_line(found.history.source.name), "title")
        diagnosis_text.findings(page, found.warnings, full=True)
    for each, diagnosis in devices:
        if each.history.events or len(each.history.allocations) or len(devices) == 1:
            if not page.empty:
                page.say()
            page.say(f"{each.device}: {tally(diagnosis.findings)}", "title")
            diagnosis_text.findings(page, diagnosis.findings, full=full)
            if diagnosis.silenced:
                page.say()
                page.say(f"Silenced: {', '.join(diagnosis.silenced)}")
    print_page(page)
