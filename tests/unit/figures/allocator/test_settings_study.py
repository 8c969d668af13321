"""What a report tells of other settings: curves against the recording, and when it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snapreport
from snapreport.figures.allocator import (
    factual,
)
from snapreport.figures.allocator import (
    settings as other_settings,
)
from snapreport.figures.allocator import (
    settings as settings_study,
)
from snapreport.figures.allocator.factual import ModelledDevice, model_device
from snapreport.figures.allocator.replaying import AllocatorModel
from snapreport.figures.allocator.settings import (
    is_quick,
    replay_settings,
    reserved_curve,
    study_settings,
)
from snapreport.figures.allocator.tape import ReplayTape
from snapreport.history.allocator_settings import AllocatorSettings
from snapreport.model.history import DeviceHistory
from snapreport.model.replays import FactualReplay, ReservedCurve
from tests import diseases
from tests.builders import MIB, TraceBuilder, history_of, trace


def cached() -> TraceBuilder:
    """30 MiB that were freed stay in the cache beside the 40 that come next."""
    made = trace()
    for name, size in (("x", 30 * MIB), ("y", 40 * MIB)):
        made.event("segment_alloc", addr=made.address(name), size=size).alloc(name, size)
        if name == "x":
            made.free(name)
    made.segment("x", 30 * MIB)
    return made.segment("y", 40 * MIB, (40 * MIB, 40 * MIB, "live"))


def modelled(made: TraceBuilder) -> ModelledDevice:
    file = made.file()
    found = model_device(file, file.devices[0])
    assert found is not None
    return found


def test_each_setting_but_the_recorded_one_has_its_curve() -> None:
    study = study_settings(modelled(cached()), compare=True)
    recorded, paged, *_ = study.found.outcomes
    assert (recorded.recorded, recorded.peak.most) == (True, 70 * MIB)
    # Pages grow in place: 30 MiB are two of 20 MiB, and 40 MiB as many again with what is free.
    assert paged.settings == "expandable_segments:True"
    curve = study.curves[0]
    assert curve.settings == paged.settings
    assert int(curve.bytes.max()) == paged.peak.most == 40 * MIB
    assert [each.settings for each in study.curves] == [
        each.settings for each in study.found.outcomes[1:]
    ]


def test_under_the_recorded_setting_the_curve_is_the_recorded_one(samples: Path) -> None:
    """After each allocation: the segments that it got came just before. No limit was felt there."""
    device = snapreport.load(samples / "training_step.pickle").device()
    found = model_device(device.file, device.history)
    assert found is not None
    curve = reserved_curve(found, found.settings)
    after = device.allocations.alloc_event
    place = np.searchsorted(curve.events, after, side="right") - 1
    assert curve.bytes[place].tolist() == device.curve("reserved")[after + 1].tolist()


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 50)), min_size=1, max_size=600))
def test_a_thinned_curve_keeps_the_most_of_each_run_and_its_end(
    changes: list[tuple[int, int]],
) -> None:
    by_event = dict(sorted(changes))
    events, values = np.array(list(by_event)), np.array(list(by_event.values()))
    kept, held = settings_study._thinned(events, values, 1000)
    assert len(kept) <= 2 * settings_study._RUNS
    assert (np.diff(kept) > 0).all()
    assert int(held.max()) == int(values.max())
    assert int(held[-1]) == int(values[-1])
    runs = [column * settings_study._RUNS // 1000 for column in (events, kept)]
    for run in np.unique(runs[0]):
        assert held[runs[1] == run].max() == values[runs[0] == run].max()
        assert held[runs[1] == run][-1] == values[runs[0] == run][-1]


def test_a_long_recording_is_compared_where_it_was_asked_for() -> None:
    found = modelled(cached())
    study = study_settings(found, compare=False)
    assert (study.found.outcomes, study.curves, study.left_out) == ((), (), True)
    assert not study_settings(found, compare=True).left_out


def test_all_devices_together_are_to_be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    found = modelled(cached())  # two allocations and a free
    monkeypatch.setattr(settings_study, "QUICK", 5)
    assert is_quick([found])
    assert not is_quick([found, found])
    inexact = replace(found, factual=replace(found.factual, divergence=1))
    assert is_quick([found, inexact])


def test_what_no_setting_could_have_helped_is_said_without_a_comparison() -> None:
    file = history_of(diseases.full().snapshot())
    found = model_device(file, file.devices[0])
    assert found is not None
    study = study_settings(found, compare=False)
    assert study.found.hopeless
    assert (study.found.outcomes, study.curves, study.left_out) == ((), (), False)


def test_without_an_exact_replay_nothing_is_compared() -> None:
    made = trace().segment("b", 20 * MIB, (8 * MIB, 0, "free"), (12 * MIB, 12 * MIB, "live"))
    made.alloc("b", 8 * MIB).free("b").alloc(made.address("b") + 8 * MIB, 12 * MIB)
    study = study_settings(modelled(made), compare=True)
    assert study.found.refused
    assert not study.left_out
    assert study.curves == ()


def test_a_start_is_made_where_something_is_replayed_from_it(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start is as long as the recording, and most long recordings are told of nothing else."""
    device = snapreport.load(samples / "training_step.pickle").device()
    found = model_device(device.file, device.history)
    assert found is not None
    late = replace(found, tape=replace(found.tape, segments=np.array([[1 << 40, MIB, 0, 1, 0, 0]])))
    made: list[ReplayTape] = []

    def note(tape: ReplayTape) -> ReplayTape:
        made.append(tape)
        return tape

    monkeypatch.setattr(other_settings, "from_scratch", note)
    assert study_settings(late, compare=False).found.starts == 2
    assert not made
    assert replay_settings(late, [late.settings]).starts == 2
    assert len(made) == 1


def test_a_recording_that_owes_nothing_to_stacks_is_replayed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No request gave segments back: to tell that without stacks is to make the same tape again."""
    made = trace().segment("b", 20 * MIB, (8 * MIB, 0, "free"), (12 * MIB, 12 * MIB, "live"))
    made.alloc("b", 8 * MIB).free("b").alloc(made.address("b") + 8 * MIB, 12 * MIB)
    replayed: list[DeviceHistory] = []
    replay = factual.replay_as_recorded

    def note(
        device: DeviceHistory, model: AllocatorModel, settings: AllocatorSettings
    ) -> tuple[FactualReplay, bool]:
        replayed.append(device)
        return replay(device, model, settings)

    monkeypatch.setattr(factual, "replay_as_recorded", note)
    assert not modelled(made).factual.exact
    assert len(replayed) == 1


def test_a_report_asks_and_a_summary_does_not(samples: Path) -> None:
    file = snapreport.load(samples / "training_step.pickle")
    assert file.findings().devices[0].settings is None
    study = file.findings(allocator=False).devices[0].settings
    assert study is not None
    table = file.device().other_settings()
    assert study.found == table


def test_curves_of_a_real_recording_reach_the_peak_of_the_table(corpus: Path) -> None:
    file = snapreport.load(corpus / "sgd_annotated.pickle")
    (device,) = file.findings(allocator=False).devices
    assert device.settings is not None
    curves: dict[str, ReservedCurve] = {each.settings: each for each in device.settings.curves}
    for each in device.settings.found.outcomes[1:]:
        curve = curves[each.settings]
        assert each.peak.least <= int(curve.bytes.max()) <= each.peak.most
        assert len(curve.events) <= 2 * settings_study._RUNS + 1
