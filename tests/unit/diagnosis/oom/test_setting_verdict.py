"""What settings could have done for a failed request: the simulator is run again under each."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import snapreport
from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from dev.simulator.settings import NO_DIVISIONS, AllocatorSettings
from dev.simulator.simulator import GIB, Simulator
from snapreport.diagnosis.conclude import find_figures, find_memory
from snapreport.diagnosis.oom.settings import SettingVerdict, judge_settings, settings_words
from snapreport.diagnosis.oom.verdict import judge
from snapreport.history.allocator_settings import UNLIMITED, parse_settings
from snapreport.model.diagnoses import Finding
from tests import diseases
from tests.builders import MIB, history_of
from tests.reference.replays import modelled_devices
from tests.thorough import IN_FULL

MODEL = "By a model of the allocator, which puts all"


def finding_of(snapshot: dict[str, Any]) -> Finding:
    file = history_of(snapshot)
    (found,) = find_memory(file, find_figures(file, 0))
    return found


def verdict_of(made: Simulator) -> SettingVerdict | None:
    """Say what is said of the settings for the only request that failed; None of no verdict."""
    file = history_of(made.snapshot())
    device = find_figures(file, 0)
    verdict = judge(file, device, device.ooms[0])
    return None if verdict is None else judge_settings(file, device, verdict)


def simulated(text: str) -> AllocatorSettings:
    settings = parse_settings(text)
    limit = settings.max_split_size
    return AllocatorSettings(
        expandable_segments=settings.expandable_segments,
        max_split_size=limit if limit < UNLIMITED else -1,
        roundup_power2_divisions=settings.roundup_power2_divisions or NO_DIVISIONS,
    )


def test_settings_that_serve_a_request_are_named_with_what_to_type() -> None:
    found = finding_of(diseases.fragmented().snapshot())
    assert (
        f"{MODEL} 33 allocations where they were recorded, expandable_segments:True would have"
        " served this request, and so would max_split_size_mb:64. What the program would have asked"
        " for next is not known."
    ) in found.explanation
    pages, split, _ = found.suggestions
    assert pages.change == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert split.change == "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"
    assert "with the 924.0 MiB that PyTorch could have had" in pages.text
    # 330 MiB live, and 200 asked for.
    assert {each.label: each.value for each in found.evidence}["needed under any setting"] == (
        530 * MIB
    )
    for settings in (pages, split):
        with pytest.raises(AssertionError, match="was served"):
            diseases.fragmented(simulated(settings.change.partition("=")[2]))
    assert diseases.fragmented(simulated("max_split_size_mb:128"))  # fails as well


def test_where_live_requests_need_more_than_there_was_nothing_could_have_helped() -> None:
    """900 MiB live and 60 asked for, on 924."""
    found = finding_of(diseases.full().snapshot())
    assert "No setting could have helped: 960.0 MiB were needed, 924.0 MiB were available." in (
        found.explanation
    )
    assert MODEL not in found.explanation
    assert all(each.code != "allocator-setting" for each in found.suggestions)


def test_what_lacks_little_is_said_by_what_it_lacks() -> None:
    words = settings_words(SettingVerdict(78 * GIB + 512, 78 * GIB, None))
    assert (
        words == "No setting could have helped: 78.00 GiB were available, 512 B less than needed."
    )


def test_that_all_settings_tried_fail_is_said() -> None:
    found = finding_of(diseases.locked().snapshot())
    assert (
        "this request would probably have failed under expandable_segments:True, max_split_size_mb"
        " from 32 to 512 or roundup_power2_divisions:8 as well."
    ) in found.explanation
    assert all(each.code != "allocator-setting" for each in found.suggestions)


def test_a_replay_that_is_not_exact_says_nothing() -> None:
    made = diseases.fragmented().snapshot()
    trace = made["device_traces"][0]
    first = next(event for event in trace if event["action"] == "alloc")
    back = [
        event
        for event in trace
        if event.get("addr") == first["addr"] and event["action"].startswith("free")
    ][:2]
    for event in (first, *back):
        event["addr"] += 512  # as no allocator would do it
    (modelled,) = modelled_devices(history_of(made))
    assert not modelled.factual.exact
    found = finding_of(made)
    assert "model" not in found.explanation
    assert "could have served this request" in found.suggestions[1].text


@pytest.mark.parametrize("name", ["waiting", "limit", "foreign"])
def test_where_the_memory_that_was_there_is_not_known_the_model_is_not_asked(name: str) -> None:
    found = verdict_of(diseases.OOM_CAUSES[name]())
    assert found is not None
    assert found.replayed is None


def test_without_what_the_driver_had_left_nothing_is_said() -> None:
    snapshot = diseases.full().snapshot()
    snapshot["device_traces"][0][-1]["device_free"] = 0
    assert "No setting" not in finding_of(snapshot).explanation


def test_a_real_request_that_nothing_could_have_served(corpus: Path) -> None:
    """Live requests take 85,231 MiB with it, and the card gives 80,393."""
    device = snapreport.load(corpus / "three_gpus_expandable_oom.pickle").device(1)
    found = next(each for each in device.diagnosis.findings if each.code == "oom")
    assert "No setting could have helped: 83.23 GiB were needed, 78.51 GiB were available." in (
        found.explanation
    )
    assert {each.label: each.value for each in found.evidence}["needed under any setting"] == (
        89_372_053_504
    )
    assert all(each.code != "allocator-setting" for each in found.suggestions)


def program(seed: int, settings: AllocatorSettings, late: int = 0) -> tuple[Simulator, int | None]:
    """Run a program of mixed sizes; return at which call its memory ran out, None for never."""
    drawn = random.Random(seed)
    made = Simulator(settings, capacity=GIB, others=60 * MIB)
    live: list[Block] = []
    for call in range(400):
        if call == late:
            made.start_recording()
        if live and drawn.random() < 0.42:
            made.free(live.pop(drawn.randrange(len(live))))
            continue
        sizes = (1, MIB), (MIB, 12 * MIB), (8 * MIB, 90 * MIB)
        size = drawn.choice([drawn.randrange(*between) for between in sizes])
        try:
            live.append(made.malloc(size))
        except OutOfMemoryError:
            return made, call
    return made, None


def test_programs_get_further_under_the_settings_that_are_said_to_serve() -> None:
    """And under no setting where none could have helped; nearly never where all seem to fail."""
    served = hopeless = failed = wrong = 0
    for seed in range(240 if IN_FULL else 60):
        recorded = "expandable_segments:True" if seed % 5 == 0 else "default"
        made, reached = program(seed, simulated(recorded))
        verdict = None if reached is None else verdict_of(made)
        if reached is None or verdict is None:
            continue

        def further(text: str, seed: int = seed, reached: int = reached) -> bool:
            at = program(seed, simulated(text))[1]
            return at is None or at > reached

        if verdict.hopeless:
            hopeless += 1
            for text in ("default", "expandable_segments:True", "max_split_size_mb:64"):
                assert not further(text), (seed, text)
        if verdict.replayed is None:
            continue
        assert not verdict.replayed.late
        for text in verdict.replayed.serve:
            served += 1
            assert further(text), (seed, text)
        for text in verdict.replayed.fail:
            if "from" not in text:
                failed += 1
                wrong += further(text)
    assert hopeless > 0
    assert served > 20
    assert failed > 40
    assert wrong * 50 < failed


def test_memory_from_before_the_recording_makes_it_probable_only() -> None:
    said = 0
    for seed in range(20):
        made, reached = program(seed, simulated("default"), late=20)
        verdict = None if reached is None or reached <= 20 else verdict_of(made)
        if verdict is not None and verdict.replayed is not None and verdict.replayed.serve:
            assert verdict.replayed.late
            assert "would probably have served this request" in settings_words(verdict)
            assert "from before the recording" in settings_words(verdict)
            said += 1
    assert said


@pytest.mark.parametrize(
    ("told", "pool"), [(None, "default"), ((0, 0), "default"), ((1, 0), "private 1,0")]
)
def test_the_pool_that_the_event_names_is_the_one_that_was_asked(
    told: tuple[int, int] | None, pool: str
) -> None:
    """Since torch 2.13 the event says so; the pool of the allocation before was the default one."""
    snapshot = diseases.locked().snapshot()
    (failed,) = [each for each in snapshot["device_traces"][0] if each["action"] == "oom"]
    failed.pop("pool_id", None)
    if told is not None:
        failed["pool_id"] = told
    file = history_of(snapshot)
    device = find_figures(file, 0)
    verdict = judge(file, device, device.ooms[0])
    assert verdict is not None
    assert verdict.pool == pool
