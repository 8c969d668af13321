"""``snapreport plan``: the cheapest changes with which the peak fits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from snapreport.commands.check import FAILED
from snapreport.commands.options.name_options import answer_options
from snapreport.commands.options.shared_options import device_option, source_argument
from snapreport.commands.output.answer_printing import (
    device_json,
    load_device,
    new_page,
    print_json,
    print_page,
)
from snapreport.ground.units import parse_size

_TINY = 1024
"""Fewer bytes than this are a number whose unit was forgotten."""


def _read_size(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
    if size < _TINY:
        raise click.BadParameter(f"{text!r} is {size} bytes; write a unit, such as 24GiB or 24GB.")
    return size


@click.command(short_help="Print the cheapest changes with which the peak fits.")
@source_argument("SNAPSHOT|BUNDLE")
@click.option(
    "--fit",
    metavar="SIZE",
    callback=_read_size,
    help="What the allocated peak is to fit into, such as 24GB or 22GiB.",
)
@click.option(
    "--free", metavar="SIZE", callback=_read_size, help="By how much the peak is to fall instead."
)
@device_option("On this device")
@answer_options
def plan(
    source: Path,
    fit: int | None,
    free: int | None,
    device: str | None,
    as_json: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Print the cheapest changes that lower the peak of a SNAPSHOT or BUNDLE to a target.

    Each change is tried on the recorded history. The target is of allocated memory: leave room
    for what PyTorch reserves beyond it, and for the driver. The exit status is 0 if the target is
    reached, surely or as expected, and 3 if it is not; 1 and 2 are errors, as everywhere.

    \b
    Example:
      snapreport plan snap.zip --fit 24GB
    """  # fmt: skip
    if (fit is None) == (free is None):
        raise click.UsageError("Give a target, --fit SIZE or --free SIZE: one of the two.")
    found = load_device(source, device, quiet)
    made = found.plan(fit=fit, free=free)
    at_peak = found.peak
    beyond = None if at_peak.reserved is None else at_peak.reserved - at_peak.allocated
    if as_json:
        print_json("plan", {**device_json(found), **asdict(made), "reserved_beyond": beyond})
    else:
        from snapreport.reporters.terminal.plan_text import write_plan

        page = new_page(full)
        failed = bool(found.figures.ooms)
        write_plan(page, found.name, made, beyond, failed=failed, full=full)
        print_page(page)
    if made.reached == "no":
        raise click.exceptions.Exit(FAILED)
