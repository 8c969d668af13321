"""``snapreport stages``: memory at the start, peak and end of annotated stages and of steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from snapreport.commands.options import device_option, source_argument
from snapreport.commands.output import (
    Answer,
    answer_options,
    device_json,
    groups_json,
    print_json,
)
from snapreport.ground.errors import MomentError

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.model.answers import Group
    from snapreport.model.findings import StageUse

_STEPS = 20


@click.command()
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Show this device")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="TEXT",
    help="Show only stages whose name contains this, in any case; may be repeated.",
)
@click.option(
    "--stacks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also print the N largest call stacks at each stage's peak.",
)
@answer_options()
def stages(
    source: Path,
    device: str | None,
    names: tuple[str, ...],
    stacks: int | None,
    answer: Answer,
) -> None:
    """Print allocated bytes at the start, peak and end of each stage of a SNAPSHOT or BUNDLE.

    Stages that share a name are numbered: NAME[2] is the second, also in --stage of other commands.
    Steps of the program's loop follow, if the recording shows them.

    \b
    Example:
      snapreport stages snap.zip
    """  # fmt: skip
    found = answer.device(source, device)
    numbered = [
        (label, stage)
        for label, stage in zip(stage_labels(found.stages), found.stages, strict=True)
        if not names or any(name.lower() in stage.name.lower() for name in names)
    ]
    if names and not numbered and found.stages:
        every = sorted({stage.name for stage in found.stages})
        some = ", ".join(every[:5]) + (", ..." if every[5:] else "")
        raise MomentError(
            f"no stage's name contains {' or '.join(names)}; this recording has {some}."
        )
    tops = [_top_stacks(found, stage, stacks) for _, stage in numbered]
    if answer.as_json:
        ids = {id(stage): number for number, stage in enumerate(found.stages)}
        rows = [
            {
                "id": ids[id(stage)],
                "label": label,
                **asdict(stage),
                "stacks": groups_json(found, top, "stack"),
            }
            for (label, stage), top in zip(numbered, tops, strict=True)
        ]
        from snapreport.reporters.json_report import steps_as_json

        of_loop = None if found.steps is None else steps_as_json(found.steps)
        print_json("stages", {**device_json(found), "stages": rows, "steps": of_loop})
        return
    from snapreport.reporters.answers import stages_document

    steps = None if names else found.steps
    most = None if answer.full else _STEPS
    answer.print(stages_document(found.name, numbered, tops, steps, most))


def stage_labels(stages: tuple[StageUse, ...]) -> list[str]:
    """Number stages that share a name: ``forward[1]``, ``forward[2]``; a unique name has none."""
    alike = Counter(stage.name for stage in stages)
    counts: dict[str, int] = {}
    labels = []
    for name in (stage.name for stage in stages):
        counts[name] = counts.get(name, 0) + 1
        labels.append(f"{name}[{counts[name]}]" if alike[name] > 1 else name)
    return labels


def _top_stacks(device: Device, stage: StageUse, most: int | None) -> tuple[Group, ...]:
    if most is None or stage.peak_event is None:
        return ()
    return device.at(stage.peak_event).by("stack")[:most]
