"""``snapreport profile``: memory by category or role over time."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from snapreport.commands.console import print_bytes
from snapreport.commands.options import (
    curve_option,
    device_option,
    rules_option,
    source_argument,
)
from snapreport.commands.output import Answer, answer_options, device_json, print_json
from snapreport.ground.safe_text import csv_cell
from snapreport.model.answers import (
    Profile,
)
from snapreport.model.asked import (
    COUNTED,
)
from snapreport.model.roles import Rule


@click.command()
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Show this device")
@click.option(
    "--by",
    type=click.Choice(["category", "role", "stage", "context"]),
    default="category",
    show_default=True,
    help="Group allocations by category, role, stage or compiled graph.",
)
@rules_option
@curve_option(COUNTED)
@click.option(
    "--points",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Write about N events in JSON and CSV, the maxima included; 0 for all.",
)
@answer_options(csv="Print the curves as CSV, one column per group.")
def profile(
    source: Path,
    device: str | None,
    by: str,
    rules: tuple[Rule, ...] | None,
    curve: str,
    points: int,
    answer: Answer,
) -> None:
    """Print the memory of a SNAPSHOT or BUNDLE by category: at the peak, and each one's own peak.

    Rules assign categories by call stack; the first that matches wins and is named, and what none
    matches is unknown. --rules takes your own, as JSON or YAML, in a file or inline:
    {"attention": "attn|attention", "mlp": "mlp.py"}.

    Roles follow from when allocations were made and freed, and from what ran then; each is shown
    with its evidence.

    \b
    Example:
      snapreport profile snap.zip --by role
    """  # fmt: skip
    if rules is not None and by != "category":
        raise click.UsageError(f"--rules define categories and have no effect with --by {by}.")
    found = answer.device(source, device)
    result = found.profile(by, rules, curve, points)
    if answer.as_json:
        print_json("profile", {**device_json(found), "by": by, **_as_json(result)})
    elif answer.as_csv:
        print_bytes(_as_csv(result, found.times_of(result.events)).encode())
    else:
        from snapreport.reporters.answers import profile_document

        answer.print(profile_document(found.name, found.file.source.name, result, by))


def _as_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain objects: one list of events, and a list of bytes for each group."""
    from snapreport.reporters.json_report import fields_of

    return {
        **fields_of(profile, "curve peak_event peak_bytes"),
        "events": profile.events.tolist(),
        "total": profile.total.tolist(),
        "groups": [
            {
                **fields_of(group, "name rule peak_bytes peak_event at_peak"),
                "allocations": group.count,
                "bytes": group.bytes.tolist(),
            }
            for group in profile.groups
        ],
    }


def _as_csv(profile: Profile, times: list[int | None]) -> str:
    """Return a profile as CSV: a row for each event, a column for each group.

    Args:
        profile: the profile.
        times: the time of each of its events in microseconds, None where unknown.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["event", "time_us", "total", *(csv_cell(group.name) for group in profile.groups)]
    )
    columns = [group.bytes.tolist() for group in profile.groups]
    rows = zip(profile.events.tolist(), times, profile.total.tolist(), *columns, strict=True)
    for event, time, *values in rows:
        writer.writerow([event, "" if time is None else time, *values])
    return text.getvalue()
