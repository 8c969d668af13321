"""What a recording's replay says in the trust panel: hand-checked, on a real file, and shared."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import snapreport
from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.trust import check_replay
from snapreport.figures.allocator.factual import model_device
from snapreport.model.replays import FactualReplay
from tests.builders import BASE, MIB, TraceBuilder, trace

EXACT = FactualReplay(
    settings="default",
    allocations=200,
    placed=200,
    segment_events=4,
    segment_events_met=4,
    reserved_equal=True,
    peak_reserved=40 * MIB,
    peak_reserved_model=40 * MIB,
    capacity=None,
    retries=0,
    undecided=0,
    divergence=None,
    cause="",
)


def two_blocks(second: int) -> TraceBuilder:
    """A segment of 20 MiB, a block of 4 MiB at its front and another somewhere behind it."""
    made = trace().event("segment_alloc", addr=BASE, size=20 * MIB)
    made.alloc(BASE, 4 * MIB).alloc(BASE + second, 4 * MIB)
    free = second - 4 * MIB
    gap = [(free, 0, "free")] if free else []
    return made.segment(
        BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"), *gap, (4 * MIB, 4 * MIB, "live")
    )


def test_a_recording_that_the_model_explains_says_so_to_the_byte() -> None:
    trust = find(two_blocks(4 * MIB).file()).devices[0].trust
    (check,) = [each for each in trust.checks if each.code == "replay"]
    assert check.mark == "ok"
    assert check.text == (
        "A model of PyTorch's allocator puts all 2 allocations at their recorded addresses, and"
        " reserves the same at every event, to the byte."
    )
    assert trust.facts.replay is not None
    assert trust.facts.replay.exact


def test_one_that_it_does_not_explain_reads_calmly_and_says_what_follows() -> None:
    """No allocator leaves 4 MiB free in front of the second block."""
    trust = find(two_blocks(8 * MIB).file()).devices[0].trust
    (check,) = [each for each in trust.checks if each.code == "replay"]
    assert check.mark == "unknown"
    assert check.text == (
        "A model of PyTorch's allocator puts 50.0% of the allocations at their recorded addresses;"
        " so no other settings are tried on this recording. Likely cause: the allocator followed a"
        " rule that is not modelled."
    )
    assert ("first departs at event", 2) in [(each.label, each.value) for each in check.figures]
    assert trust.verdict == "trusted"  # no figure rests on it


def test_right_addresses_with_other_segments_are_no_exact_replay() -> None:
    other = replace(EXACT, segment_events_met=3, divergence=7, cause="private-pool")
    assert check_replay(other).text == (
        "A model of PyTorch's allocator puts all 200 allocations at their recorded addresses, but"
        " handles segments otherwise; so no other settings are tried on this recording. Likely"
        " cause: a private pool (CUDA graphs, MemPool) changed without a recorded event."
    )


def test_what_has_no_allocator_or_no_events_has_nothing_to_replay() -> None:
    made = trace().segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    trust = find(made.file()).devices[0].trust
    assert trust.facts.replay is None
    assert "replay" not in {each.code for each in trust.checks}


def test_it_is_replayed_once_and_let_go_with_its_file() -> None:
    file = two_blocks(4 * MIB).file()
    find(file)
    one, other = (model_device(file, file.devices[0]) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.tape is other.tape
    file = two_blocks(4 * MIB).file()
    assert model_device(file, file.devices[0]) is not None
    gone = weakref.ref(file.devices[0])
    del file
    gc.collect()
    assert gone() is None


def test_other_settings_of_the_same_events_are_another_replay() -> None:
    file = two_blocks(4 * MIB).file()
    paged = replace(file, settings={"expandable_segments": True})
    settings = [find(each).devices[0].trust.facts.replay for each in (file, paged)]
    assert [each and each.settings for each in settings] == ["default", "expandable_segments:True"]


def test_real_recordings_are_replayed_exactly(corpus: Path) -> None:
    device = snapreport.load(corpus / "private_pools_eight_devices.pickle").device()
    assert device.trust.facts.replay is not None
    assert device.trust.facts.replay.exact
    assert device.trust.facts.replay.placed == 1012
