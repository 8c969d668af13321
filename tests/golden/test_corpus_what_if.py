"""What-if peaks of real files equal those of curves made anew, for every call site of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.figures.what_if import find_members
from snapreport.ground.native.columns import sum_live
from tests.corpus import every_corpus_file, loaded


@pytest.mark.parametrize("by", ["site", "category", "stage"])
@every_corpus_file
def test_what_if_peaks_are_those_of_a_curve_made_anew(path: Path, by: str) -> None:
    snapshot = loaded(path)
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        rows, curve = device.allocations, device.curve("allocated")
        row, group, names = find_members(device.file, history, by)
        expected = []
        for number, name in enumerate(names):
            gone = row[group == number]
            if not len(gone):
                continue
            kept = rows.block_size.copy()
            kept[gone] = 0
            left = sum_live(kept, rows.alloc_event, rows.free_requested_event, history.events)
            expected.append((name, int(left.max()), int(left.argmax()) - 1))
        found = device.what_if(by)
        assert sorted(expected) == sorted(
            (each.name, each.peak_bytes, each.peak_event) for each in found
        )
        assert all(each.falls == int(curve.max()) - each.peak_bytes for each in found)
        assert all(0 <= each.falls <= each.held for each in found)


def test_the_second_highest_peak_of_a_training_step_is_elsewhere(corpus: Path) -> None:
    device = loaded(corpus / "medium_512_training.pickle").device(0)
    found = {each.name: each for each in device.what_if("category")}["activation"]
    assert (device.peak.allocated, device.peak.event) == (12434494464, 3485)
    assert (found.peak_bytes, found.peak_event) == (12434494464 - 5346697216, 12869)
    assert found.held > found.falls
