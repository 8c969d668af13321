"""``snapreport profile``: memory by category or role over time."""

from __future__ import annotations

from pathlib import Path

import click

from snapreport.commands.console import print_bytes
from snapreport.commands.options import (
    curve_option,
    device_option,
    json_option,
    keep_paths_option,
    quiet_option,
    rules_option,
    source_argument,
)
from snapreport.commands.output import Answer, device_json, print_json, print_page
from snapreport.model.answers import COUNTED
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
@json_option
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print the curves as CSV, one column per group."
)
@keep_paths_option
@quiet_option
def profile(
    source: Path,
    device: str | None,
    by: str,
    rules: tuple[Rule, ...] | None,
    curve: str,
    points: int,
    as_json: bool,
    as_csv: bool,
    quiet: bool,
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
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other; give one.")
    answer = Answer(as_json, quiet=quiet)
    found = answer.device(source, device)
    result = found.profile(by, rules, curve, points)
    from snapreport.reporters.answers_text import profile_csv, profile_json, write_profile

    if as_json:
        print_json("profile", {**device_json(found), "by": by, **profile_json(result)})
    elif as_csv:
        print_bytes(profile_csv(result, found.times_of(result.events)).encode())
    else:
        page = answer.page()
        page.say(f"{found.name} of {found.file.source.name}")
        write_profile(page, result, by)
        print_page(page)
