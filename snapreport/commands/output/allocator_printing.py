"""What ``whatif --allocator`` prints: the recording replayed, as it was or under other settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from snapreport.commands.output.answer_printing import Answer, device_json, print_json, print_page
from snapreport.commands.output.console import progress_bar

if TYPE_CHECKING:
    from snapreport.api.device import Device

RECORDED, TABLE = "recorded", "table"
"""Values of ``--allocator`` that name no settings of PyTorch's."""


def replayed(device: Device, wanted: str, capacity: int | None, answer: Answer) -> None:
    """Print how exact the recording's own replay is, or what other settings come to."""
    from snapreport.reporters.terminal import allocator_text

    page = answer.page()
    if wanted == RECORDED:
        factual = device.replay
        if answer.as_json:
            print_json("whatif", {**device_json(device), "replay": asdict(factual)})
            return
        allocator_text.factual(page, device.name, factual)
    else:
        settings = () if wanted == TABLE else (wanted,)
        with progress_bar(answer.quiet) as progress:
            found = device.other_settings(*settings, capacity=capacity, progress=progress)
        if answer.as_json:
            others = asdict(found)
            replay = others.pop("factual")
            print_json("whatif", {**device_json(device), "replay": replay, "allocator": others})
            return
        allocator_text.others(page, device.name, found)
    print_page(page)
