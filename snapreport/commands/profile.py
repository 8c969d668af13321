"""``snapreport profile``: memory by category over time."""

from __future__ import annotations

from pathlib import Path

import click

import snapreport
from snapreport.commands.answers import (
    device_json,
    json_bytes,
    load_device,
    new_page,
    print_json,
    print_page,
)
from snapreport.commands.console import print_bytes, print_path
from snapreport.commands.naming import keep_paths_option, paths_kept
from snapreport.commands.options import (
    device_option,
    force_option,
    json_option,
    quiet_option,
    rules_option,
    source_argument,
)
from snapreport.ground.errors import OutputError
from snapreport.ground.files import check_output, output_path, write_atomically

_BY = {"category": "category", "annotation": "stage", "compile-context": "context"}


@click.command(short_help="Print memory by category over time.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Of this device")
@click.option(
    "--by",
    type=click.Choice([*_BY, "custom"]),
    default="category",
    show_default=True,
    help="What tells allocations apart; custom takes --rules alone.",
)
@rules_option
@click.option(
    "--curve",
    type=click.Choice(["allocated", "requested", "active"]),
    default="allocated",
    show_default=True,
    help="What to count.",
)
@click.option(
    "--points",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="N",
    help="About so many steps in JSON and CSV, the maxima among them; 0 for every step.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a report coloured this way (.html), or .json or .csv, instead of the table.",
)
@json_option
@force_option
@keep_paths_option
@quiet_option
def profile(
    source: Path,
    device: str | None,
    by: str,
    rules: str | None,
    curve: str,
    points: int,
    output: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Print the memory of a SNAPSHOT or BUNDLE by category: at the peak, and each one's own peak.

    Categories are told from call stacks by rules, of which the first that matches wins and is
    named; what none matches is unknown. --rules takes your own, as JSON or YAML, in a file or as
    they are: {"attention": "attn|attention", "mlp": "mlp.py"}.

    \b
    Example:
      snapreport profile snap.zip --by category
    """  # fmt: skip
    if by == "custom" and rules is None:
        raise click.UsageError("--by custom needs --rules.")
    if rules is not None and by not in ("custom", "category"):
        raise click.UsageError(f"--rules tell categories; they have no part in --by {by}.")
    chosen = None if rules is None else snapreport.load_rules(rules)
    ending = "" if output is None else output.suffix.lower()
    if output is not None and ending not in (".html", ".json", ".csv"):
        raise OutputError(f"{output} should end in .html, .json or .csv.")
    if output is not None and ending == ".html":
        path = snapreport.render(
            source, output, device=device, rules=chosen, colour=_BY.get(by, "category"),
            keep_paths=paths_kept(), force=force,
        )  # fmt: skip
        print_path(path)
        return
    if output is not None:
        check_output(output_path(source, output, ending), force)
    found = load_device(source, device, quiet)
    result = found.profile(_BY.get(by, "category"), chosen, curve, points)
    from snapreport.reporters.terminal.profile_text import profile_csv, profile_json, write_profile

    answer = {**device_json(found), "by": by, **profile_json(result)}
    if output is None:
        if as_json:
            print_json("profile", answer)
            return
        page = new_page()
        page.say(f"{found.name} of {found.file.source.name}")
        write_profile(page, result, by)
        print_page(page)
        return
    if ending == ".csv":
        text = profile_csv(result, found.times_of(result.steps)).encode()
    else:
        text = json_bytes("profile", answer)
    if str(output) == "-":
        print_bytes(text)
        return
    target = output_path(source, output, ending)
    with write_atomically(target, force, [source]) as out:
        out.write(text)
    print_path(target)
