"""Answers about real files: every view of a moment sums to the curve, on every device."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from snapreport.model.answer_tables import GROUPINGS
from tests.corpus import every_corpus_file, loaded


@every_corpus_file
def test_every_view_of_a_moment_sums_to_the_curve(path: Path) -> None:
    snapshot = loaded(path)
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        chance = random.Random(path.name).sample(range(device.events), min(2, device.events))
        events = {-1, *chance, device.at().event, device.events - 1}
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
            for by in ("category", "role"):
                profile = device.profile(by, curve=curve)
                summed = sum(
                    (group.bytes for group in profile.groups), np.zeros(device.events + 1, np.int64)
                )
                assert np.array_equal(summed, device.curve(curve))
        held = device.figures.held_by_role
        assert sum(each.bytes for each in held) == device.peak.allocated
        assert sum(each.bytes for role in held for each in role.evidence) == device.peak.allocated
