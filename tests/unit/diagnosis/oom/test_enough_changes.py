"""The changes that would have made room are enough at the failed request, and only where full."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapreport
from snapreport.diagnosis.advice.situation import look_at, only_at
from snapreport.diagnosis.conclude import find_figures, find_memory
from snapreport.model.diagnoses import Suggestion
from tests import diseases
from tests.builders import history_of


def plans(found: snapreport.Device) -> list[Suggestion]:
    findings = found.diagnosis.findings
    return [each for one in findings for each in one.suggestions if each.code == "plan"]


def test_the_cheapest_changes_for_a_request_are_named_with_their_code(samples: Path) -> None:
    device = snapreport.load(samples / "out_of_memory.pickle.gz").device()
    (found,) = plans(device)
    assert "checkpoint alone. About 1.43 GiB less would have been live" in found.text
    assert "452.0 MiB were missing" in found.text
    assert found.change.startswith("x = torch.utils.checkpoint")
    assert found.frees is None  # that would be of the peak


def test_another_moment_counts_nothing(samples: Path) -> None:
    device = snapreport.load(samples / "out_of_memory.pickle.gz").device()
    event = device.figures.ooms[-1].event
    there = only_at(look_at(device.file, device.history), event)
    assert device.peak.event != event
    assert (there.event, there.peak) == (event, device.at(event=event).bytes)


@pytest.mark.parametrize("cause", ["full", "fragmented", "giant"])
def test_where_no_change_is_enough_or_memory_was_there_none_is_named(cause: str) -> None:
    file = history_of(diseases.OOM_CAUSES[cause]().snapshot())
    codes = [
        each.code for one in find_memory(file, find_figures(file, 0)) for each in one.suggestions
    ]
    assert "plan" not in codes
