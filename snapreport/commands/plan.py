"""``snapreport plan``: the cheapest changes that make the peak fit, or the largest batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from snapreport.commands.check import FAILED
from snapreport.commands.options import device_option, reads, size_with_unit, the_recording
from snapreport.commands.output import Answer, answer_options, device_json, print_json
from snapreport.ground.stores import as_path
from snapreport.model.answers import LARGEST_BATCH

if TYPE_CHECKING:
    from snapreport.api.device import Device

_DIGITS = 20
"""A batch size with more digits is rejected unread."""


@click.command()
@click.argument("sources", metavar="SNAPSHOT|BUNDLE", nargs=-1, type=click.Path())
@click.option(
    "--fit",
    metavar="SIZE",
    callback=reads(size_with_unit),
    help="Make the allocated peak fit into this size, such as 24GB or 22GiB.",
)
@click.option(
    "--free",
    metavar="SIZE",
    callback=reads(size_with_unit),
    help="Or lower the peak by this much.",
)
@click.option(
    "--batch-from",
    metavar="N:FILE",
    multiple=True,
    help="A recording at batch size N; from several, find the largest batch expected to fit.",
)
@device_option("Plan for this device")
@answer_options()
def plan(
    sources: Sequence[str],
    fit: int | None,
    free: int | None,
    batch_from: Sequence[str],
    device: str | None,
    answer: Answer,
) -> None:
    """Print the cheapest changes that lower the peak of a SNAPSHOT or BUNDLE to a target.

    Each change is tried on the recorded history. The target is allocated memory: leave room for
    what PyTorch reserves beyond it, and for the driver. The exit status is 0 if the changes reach
    the target, for certain or as expected, and 3 if not; 1 and 2 are errors, as everywhere.

    With --batch-from 8:a.zip 16:b.zip and so on, it finds the largest batch expected to fit from
    recordings of one program at several batch sizes. Status 3 then means that not even 1 fits.

    \b
    Example:
      snapreport plan snap.zip --fit 24GB
    """  # fmt: skip
    if batch_from:
        if free is not None:
            raise click.UsageError("--free belongs to one recording; give --fit SIZE.")
        _largest_batch(_sized((*batch_from, *sources)), fit, device, answer)
        return
    if len(sources) != 1:
        raise click.UsageError(
            "Name one SNAPSHOT or BUNDLE; several, at different batch sizes, go with --batch-from."
        )
    if (fit is None) == (free is None):
        raise click.UsageError("Give a target, --fit SIZE or --free SIZE: one of the two.")
    found = answer.device(the_recording(as_path(sources[0])), device)
    made = found.plan(fit=fit, free=free)
    beyond = _reserved_beyond(found)
    if answer.as_json:
        print_json("plan", {**device_json(found), **asdict(made), "reserved_beyond": beyond})
    else:
        from snapreport.reporters.plans import plan_document

        failed = bool(found.figures.ooms)
        answer.print(plan_document(found.name, made, beyond, failed=failed, full=answer.full))
    if made.reached == "no":
        raise click.exceptions.Exit(FAILED)


def _sized(texts: Sequence[str]) -> dict[int, Path]:
    """Read ``8:a.zip`` and so on."""
    found: dict[int, Path] = {}
    for text in texts:
        number, colon, path = text.partition(":")
        if not (colon and path and number.isdecimal()):
            raise click.UsageError(
                f"Write the batch size, a colon and the file, such as 8:a.zip, not {text!r}."
            )
        size = int(number) if len(number) <= _DIGITS else LARGEST_BATCH + 1
        if not 1 <= size <= LARGEST_BATCH:
            raise click.UsageError(
                f"A batch must be at least 1 and at most {LARGEST_BATCH}, not {number[:20]}."
            )
        if size in found:
            raise click.UsageError(f"There are two recordings at batch {size}.")
        found[size] = the_recording(as_path(path))
    if len(found) < 2:
        raise click.UsageError("--batch-from needs recordings at two or more sizes.")
    return found


def _largest_batch(
    paths: dict[int, Path], fit: int | None, device: str | None, answer: Answer
) -> None:
    from snapreport.api.comparison import growth_of

    devices = {size: answer.device(path, device) for size, path in sorted(paths.items())}
    growth = growth_of(devices, fit)
    largest = devices[max(devices)]
    beyond = _reserved_beyond(largest)
    if answer.as_json:
        files = [
            {"batch": size, "file": one.file.source.name, "device": one.name}
            for size, one in devices.items()
        ]
        print_json("plan", {"files": files, **asdict(growth), "reserved_beyond": beyond})
    else:
        from snapreport.reporters.plans import growth_document

        failed = any(one.figures.ooms for one in devices.values())
        answer.print(growth_document(largest.name, growth, beyond, failed=failed))
    if growth.fits == 0:
        raise click.exceptions.Exit(FAILED)


def _reserved_beyond(device: Device) -> int | None:
    """Return reserved minus allocated bytes at the peak; None if unknown."""
    at_peak = device.peak
    return None if at_peak.reserved is None else at_peak.reserved - at_peak.allocated
