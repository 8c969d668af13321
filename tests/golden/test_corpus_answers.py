"""Answers about real files: every view of a moment sums to the curve, on every device."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import snapreport
from snapreport.model.answer_tables import GROUPINGS
from tests.corpus import every_corpus_file


@every_corpus_file
def test_every_view_of_a_moment_sums_to_the_curve(path: Path) -> None:
    snapshot = snapreport.load(path)
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        events = {-1, device.events // 3, device.at().event, device.events - 1}
        for curve in ("allocated", "requested", "active"):
            for event in sorted(event for event in events if event < device.events):
                moment = device.at(event, curve=curve)
                assert int(moment.live().bytes.sum()) == moment.bytes
                assert int(moment.tree().bytes[0]) == moment.bytes
                assert sum(line.bytes for line in moment.lines()) == moment.bytes
                assert sum(line.bytes for line in moment.lines(("model",))) == moment.bytes
                assert getattr(moment.amounts, curve) == moment.bytes
                for by in GROUPINGS:
                    assert sum(group.bytes for group in moment.by(by)) == moment.bytes
            profile = device.profile(curve=curve)
            summed = sum(
                (group.bytes for group in profile.groups), np.zeros(device.events + 1, np.int64)
            )
            assert np.array_equal(summed, device.curve(curve))
