"""``snapreport whatif``: the peak that would remain without some of the allocations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from snapreport.commands.console import progress_bar
from snapreport.commands.options import (
    curve_option,
    device_option,
    reads,
    rules_option,
    size_with_unit,
    source_argument,
)
from snapreport.commands.output import (
    Answer,
    answer_options,
    device_json,
    groups_json,
    print_json,
)
from snapreport.model.asked import (
    COUNTED,
    WHAT_IF_GROUPINGS,
)
from snapreport.model.roles import Rule

if TYPE_CHECKING:
    from snapreport.api.device import Device


RECORDED, TABLE = "recorded", "table"
"""Values of ``--allocator`` that are not settings of PyTorch."""


@click.command()
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Ask about this device")
@click.option(
    "--without",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Take away everything whose name matches: part of it, a glob or /regex/; may be repeated.",
)
@click.option(
    "--by",
    type=click.Choice(WHAT_IF_GROUPINGS),
    default="site",
    show_default=True,
    help="What to take away one at a time, and what PATTERN names.",
)
@click.option(
    "--allocator",
    metavar="[SETTINGS]",
    is_flag=False,
    flag_value=TABLE,
    help="Replay the recording under these settings of PYTORCH_ALLOC_CONF. As the last option,"
    " without a value: compare common settings. 'recorded' checks the replay itself.",
)
@click.option(
    "--capacity",
    metavar="SIZE",
    callback=reads(size_with_unit),
    help="Say whether the recording would fit into this much reserved memory, under the settings of"
    " --allocator or common ones.",
)
@curve_option(COUNTED, "The curve whose peak counts.")
@rules_option
@answer_options(15)
def whatif(
    source: Path,
    device: str | None,
    patterns: tuple[str, ...],
    by: str,
    allocator: str | None,
    capacity: int | None,
    curve: str,
    rules: tuple[Rule, ...] | None,
    answer: Answer,
) -> None:
    """Print the peak of a SNAPSHOT or BUNDLE had a call site, role or stage allocated nothing.

    The peak is exact: without some allocations another moment may be the peak. Everything else
    stays as recorded.

    With --allocator or --capacity the recording is replayed through a model of PyTorch's allocator
    under other settings: the smallest capacity that serves it, and the peak of reserved memory
    without a limit. These are not measured. They are printed only if the model puts every recorded
    allocation at its recorded address.

    \b
    Example:
      snapreport whatif snap.zip
      snapreport whatif snap.zip --without model.py
      snapreport whatif snap.zip --allocator expandable_segments:True
    """  # fmt: skip
    if capacity is not None and allocator is None:
        allocator = TABLE
    if capacity is not None and allocator == RECORDED:
        raise click.UsageError("--capacity needs settings; --allocator recorded has none.")
    if allocator is not None:
        if patterns or rules is not None:
            raise click.UsageError("--allocator does not go with --without or --rules.")
        _replayed(answer.device(source, device), allocator, capacity, answer)
        return
    if rules is not None and by != "category":
        raise click.UsageError(f"--rules define categories and have no effect with --by {by}.")
    found = answer.device(source, device)
    was = found.peaks[curve]
    about = {
        **device_json(found), "curve": curve, "by": by,
        "peak_bytes": was.bytes, "peak_event": was.event,
    }  # fmt: skip
    from snapreport.reporters import answers

    said = answers.peak_as_it_was(found.name, curve, was.bytes, was.event)
    if patterns:
        left = found.peak_without(*patterns, by=by, curve=curve, rules=rules)
        if answer.as_json:
            plain = asdict(left) | {"held": groups_json(found, left.held, by)}
            print_json("whatif", {**about, "without": plain})
        else:
            answer.print(answers.without_document(found.name, said, left, by, answer.top))
        return
    every = found.what_if(by, curve, rules)
    if answer.as_json:
        print_json("whatif", {**about, "groups": [asdict(each) for each in every]})
    else:
        answer.print(answers.what_if_document(found.name, said, every, by, answer.top))


def _replayed(device: Device, wanted: str, capacity: int | None, answer: Answer) -> None:
    """Print how exact the recording's own replay is, or what other settings would need."""
    from snapreport.reporters.settings import replay_document, settings_document

    if wanted == RECORDED:
        factual = device.replay
        if answer.as_json:
            print_json("whatif", {**device_json(device), "replay": asdict(factual)})
        else:
            answer.print(replay_document(device.name, factual))
        return
    settings = () if wanted == TABLE else (wanted,)
    with progress_bar(answer.quiet) as progress:
        found = device.other_settings(*settings, capacity=capacity, progress=progress)
    if answer.as_json:
        others = asdict(found)
        replay = others.pop("factual")
        print_json("whatif", {**device_json(device), "replay": replay, "allocator": others})
    else:
        answer.print(settings_document(device.name, found))
