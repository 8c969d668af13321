"""Whether a recording fits on a card: hand-checked cases, and the law that more never fits less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snapreport
from snapreport.diagnosis.card_fit import fit_card, judge_fit, words
from snapreport.diagnosis.conclude import find_figures
from snapreport.ground.cards import Card, CardWanted, find_card
from snapreport.history.block_sizes import LiveFloor
from snapreport.model.answers import Allowance, CardFit
from snapreport.model.replays import Between
from tests.builders import MIB, TraceBuilder, history_of, trace

ALL = 700 * MIB


def fit(made: TraceBuilder, mib: int, allow: int | None = 0, noted: Any = None) -> CardFit:
    snapshot = made.snapshot()
    if noted is not None:
        snapshot["snapreport"] = {"format": 1, **noted}
    file = history_of(snapshot)
    wanted = CardWanted(Card("x", "a card of x", mib * MIB), allow)
    return fit_card(file, find_figures(file, made.ordinal), wanted)


def half_used() -> TraceBuilder:
    """40 MiB reserved in two segments, of which 24 are ever live, where no allocator puts them."""
    made = trace().segment("a", 20 * MIB)
    made.segment("b", 20 * MIB, (8 * MIB, 0, "free"), (12 * MIB, 12 * MIB, "live"))
    inside = made.address("b") + 8 * MIB
    return made.alloc("a", 12 * MIB).alloc(inside, 12 * MIB).free("a")


def cached() -> TraceBuilder:
    """30 MiB that were freed stay in the cache beside the 40 that come next; 70 are reserved."""
    made = trace()
    for name, size in (("x", 30 * MIB), ("y", 40 * MIB)):
        made.event("segment_alloc", addr=made.address(name), size=size).alloc(name, size)
        if name == "x":
            made.free(name)
    made.segment("x", 30 * MIB)
    return made.segment("y", 40 * MIB, (40 * MIB, 40 * MIB, "live"))


def in_twenties() -> TraceBuilder:
    """Three blocks of 8 MiB, of which one segment of 20 holds two: 40 are reserved, 24 live."""
    made = trace()
    one, other = made.address("one"), made.address("other")
    made.event("segment_alloc", addr=one, size=20 * MIB).alloc(one, 8 * MIB)
    made.alloc(one + 8 * MIB, 8 * MIB)
    made.event("segment_alloc", addr=other, size=20 * MIB).alloc(other, 8 * MIB)
    live = (8 * MIB, 8 * MIB, "live")
    made.segment(one, 20 * MIB, live, live, (4 * MIB, 0, "free"))
    return made.segment(other, 20 * MIB, live, (12 * MIB, 0, "free"))


@pytest.mark.parametrize(
    ("mib", "outcome"), [(23, "cannot"), (24, "depends"), (39, "depends"), (40, "fits")]
)
def test_between_what_was_live_and_reserved_it_depends(mib: int, outcome: str) -> None:
    found = fit(half_used(), mib)
    assert found.outcome == outcome
    assert (found.live, found.live_event, found.replayed) == (24 * MIB, 1, None)
    assert (found.reserved, found.reserved_event) == (40 * MIB, -1)


@pytest.mark.parametrize(
    ("mib", "outcome"), [(39, "cannot"), (40, "replayed"), (69, "replayed"), (70, "fits")]
)
def test_a_replay_tells_that_the_cache_would_have_been_given_back(mib: int, outcome: str) -> None:
    found = fit(cached(), mib)
    assert found.outcome == outcome
    assert found.replayed == (Between(40 * MIB, 40 * MIB) if outcome == "replayed" else None)


@pytest.mark.parametrize(
    ("mib", "outcome"), [(23, "cannot"), (24, "short"), (39, "short"), (40, "fits")]
)
def test_a_replay_tells_that_segments_take_more_than_what_is_live(mib: int, outcome: str) -> None:
    assert fit(in_twenties(), mib).outcome == outcome


def test_each_verdict_has_its_words() -> None:
    assert fit(half_used(), 23, None).text == (
        "Cannot fit on a card of x, whatever the settings: at least 24.00 MiB were live at once,"
        " and the card has 23.00 MiB."
    )
    assert fit(half_used(), 700, None).text == (
        "Whether it fits on a card of x depends on the allocator: at least 24.00 MiB were live at"
        " once, 40.00 MiB were reserved at most, 700.0 MiB are allowed for CUDA and its libraries,"
        " and the card has 700.0 MiB."
    )
    assert fit(half_used(), 740, None).text == (
        "Fits on a card of x as recorded: 40.00 MiB were reserved at most, 700.0 MiB are allowed"
        " for CUDA and its libraries, and the card has 740.0 MiB."
    )
    assert fit(cached(), 750, None).text == (
        "Fits on a card of x: replayed through a model of the allocator, the recording needs 40.00"
        " MiB, 700.0 MiB are allowed for CUDA and its libraries, and the card has 750.0 MiB. As"
        " recorded, 70.00 MiB were reserved at most."
    )
    assert fit(in_twenties(), 39, None).text == (
        "Does not fit on a card of x under the recorded settings: replayed through a model of the"
        " allocator, the recording needs 40.00 MiB, 700.0 MiB are allowed for CUDA and its"
        " libraries, and the card has 39.00 MiB. Others may need less: see snapreport whatif"
        " --allocator."
    )


def test_where_it_depends_on_the_driver_the_range_is_said() -> None:
    made = fit(cached(), 750, None)
    between = replace(made, outcome="depends", replayed=Between(30 * MIB, 60 * MIB))
    file = cached().file()
    assert words(between, find_figures(file, 0), 0, "") == (
        "Whether it fits on a card of x depends on where the driver puts segments: replayed through"
        " a model of the allocator, the recording needs 30.00 to 60.00 MiB, 700.0 MiB are allowed"
        " for CUDA and its libraries, and the card has 750.0 MiB."
    )


def test_an_allowance_that_was_given_is_certain() -> None:
    assert fit(half_used(), 33, 10 * MIB).outcome == "cannot"
    assert fit(half_used(), 34, 10 * MIB).outcome == "depends"
    assert "10.00 MiB are kept for what is outside" in fit(half_used(), 34, 10 * MIB).text
    # What is only usual may be less.
    assert fit(half_used(), 34, None).outcome == "depends"


def test_below_what_was_reserved_at_the_start_no_replay_tells_what_was_needed_before() -> None:
    made = trace().segment("a", 20 * MIB).segment("b", 20 * MIB, (12 * MIB, 12 * MIB, "live"))
    made.alloc("a", 12 * MIB).alloc("b", 12 * MIB).free("a")
    found = fit(made, 39)
    assert (found.outcome, found.replayed) == ("unknown", Between(24 * MIB, 24 * MIB))
    assert found.text == (
        "A card of x has room for what is recorded: replayed through a model of the allocator, the"
        " recording needs about 24.00 MiB, 0 B are kept for what is outside of PyTorch's allocator,"
        " and the card has 39.00 MiB. What was needed before the recording began is not known."
    )


def test_below_what_was_reserved_at_the_start_nothing_surely_fails_in_a_replay(
    corpus: Path,
) -> None:
    """11.73 GiB were reserved at the start: a card with less had had them in other places."""
    device = snapreport.load(corpus / "medium_512_training.pickle").device()
    below, above = device.fits("12100MiB", 100 * MIB), device.fits("12060MiB", 0)
    assert (below.outcome, above.outcome) == ("short", "short")
    assert below.text.startswith("Probably does not fit on a card of 12100MiB under the recorded")
    assert "needs about 11.79 GiB" in below.text
    assert (
        "how the allocator would have placed that memory on it is not known. Others may"
        in below.text
    )
    assert above.text.startswith("Does not fit on a card of 12060MiB under the recorded settings:")
    assert "about" not in above.text


def test_several_processes_are_allowed_more() -> None:
    found = fit(half_used(), 9999, None, {"world_size": 8})
    assert found.allowance == Allowance(1536 * MIB, 0, "assumed")


def _device(**values: Any) -> dict[str, Any]:
    return {"devices": [{"device": "cuda:0", "name": "NVIDIA H200", **values}]}


def test_what_was_measured_outside_counts_instead() -> None:
    noted = _device(
        capacity=1000 * MIB, total_after=1000 * MIB, free_after=800 * MIB,
        stats_after={"allocated_bytes.all.peak": 24 * MIB, "reserved_bytes.all.current": 40 * MIB},
    )  # fmt: skip
    found = fit(half_used(), 9999, None, noted)
    assert found.allowance == Allowance(160 * MIB, 0, "measured")
    assert "160.0 MiB were measured outside of PyTorch's allocator, other" in found.text


def test_a_card_that_it_was_recorded_on_has_what_was_measured() -> None:
    snapshot = half_used().snapshot()
    snapshot["snapreport"] = {"format": 1, **_device(capacity=123_456 * MIB)}
    file = history_of(snapshot)
    for name, size in (("h200", 123_456 * MIB), ("b200", find_card("b200").bytes)):
        wanted = CardWanted(find_card(name), None)
        assert fit_card(file, find_figures(file, 0), wanted).bytes == size


def test_the_most_that_pytorch_itself_counted_is_what_fits() -> None:
    stats = {"allocated_bytes.all.peak": 90 * MIB, "reserved_bytes.all.peak": 99 * MIB}
    found = fit(half_used(), 98, 0, _device(stats_after=stats))
    assert (found.outcome, found.reserved, found.reserved_event) == ("depends", 99 * MIB, None)
    assert fit(half_used(), 99, 0, _device(stats_after=stats)).outcome == "fits"


def failing() -> TraceBuilder:
    """12 of 20 MiB reserved are live when 30 more are asked for, and 2 are free."""
    made = trace().segment("a", 20 * MIB, (12 * MIB, 12 * MIB, "live")).alloc("a", 12 * MIB)
    return made.event("oom", size=30 * MIB, addr=2 * MIB, device_free=2 * MIB)


def test_what_would_have_followed_a_failed_request_is_not_known() -> None:
    assert fit(failing(), 41).outcome == "cannot"
    assert "42.00 MiB were live at once with the request that failed" in fit(failing(), 41).text
    assert fit(failing(), 49).outcome == "short"
    found = fit(failing(), 50)
    assert (found.outcome, found.reserved) == ("unknown", 50 * MIB)
    assert found.text.startswith("A card of x has room for what is recorded: replayed through")
    assert found.text.endswith(
        "What the program would have asked for after a request failed is not known."
    )


def test_nor_is_it_on_other_devices() -> None:
    snapshot = failing().snapshot()
    other = trace(1).segment("z", 2 * MIB, large=False).alloc("z", MIB).snapshot()
    snapshot["device_traces"].append(other["device_traces"][1])
    snapshot["segments"] += other["segments"]
    file = history_of(snapshot)
    wanted = CardWanted(Card("x", "a card of x", 9999 * MIB), 0)
    found = fit_card(file, find_figures(file, 1), wanted)
    assert found.outcome == "unknown"
    assert "after a request failed on cuda:0 is not known" in found.text


def test_without_a_history_only_what_cannot_fit_is_known() -> None:
    made = trace().segment("a", 20 * MIB, (12 * MIB, 12 * MIB, "live"))
    assert fit(made, 11).outcome == "cannot"
    assert fit(made, 12).outcome == "depends"
    assert fit(made, 20).outcome == "unknown"
    assert "how high the peak was" in fit(made, 20).text


def test_what_was_given_back_for_a_request_would_be_at_other_moments() -> None:
    frames = [{"name": "f", "filename": "a.py", "line": 1}]
    made = trace().segment("b", 20 * MIB, (12 * MIB, 12 * MIB, "live"))
    made.event("segment_free", addr=made.address("a"), size=20 * MIB, frames=frames)
    made.event("segment_alloc", addr=made.address("b"), size=20 * MIB, frames=frames)
    made.alloc("b", 12 * MIB, frames=frames)
    found = fit(made, 9999)
    assert found.outcome == "depends"
    assert "given back once to serve a request; on another card" in found.text


def test_memory_of_a_cpu_fits_on_no_card() -> None:
    sample = Path(__file__).parents[3] / "sample_snapshots" / "cpu_profile.pickle"
    (device,) = snapreport.load(sample).findings(card="1MiB").devices
    assert device.card is not None
    assert device.card.outcome == "unknown"
    assert device.card.text == (
        "Whether it fits on a card of 1MiB is not known: cpu:0 is not a GPU."
    )


ORDER = ("cannot", "short", "depends", "replayed", "fits")
SIZES = st.integers(0, 100)
RANGES = st.builds(lambda least, more: Between(least, least + more), SIZES, SIZES)


@given(SIZES, SIZES, SIZES, SIZES, st.booleans(), st.none() | RANGES, SIZES, SIZES)
def test_a_larger_card_never_fits_less(
    live: int,
    reserved: int,
    allowed: int,
    least: int,
    alike: bool,
    replayed: Between | None,
    card: int,
    more: int,
) -> None:
    allowance = Allowance(allowed, min(least, allowed), "assumed")
    floor = LiveFloor(live, 0, failed=False)
    small, large = (
        judge_fit(size, floor, reserved, allowance, alike, replayed) for size in (card, card + more)
    )
    assert ORDER.index(small) <= ORDER.index(large)


def test_on_a_real_recording_the_line_and_the_table_of_settings_agree(corpus: Path) -> None:
    device = snapreport.load(corpus / "sgd_annotated.pickle").device()
    recorded = device.other_settings("default").outcomes[0]
    least, most = recorded.capacity.least, recorded.capacity.most
    assert most < device.peaks["reserved"].bytes
    found = [device.fits(str(size), 0) for size in (least - 1, most)]
    assert [each.outcome for each in found] == ["short", "replayed"]
    for each in found:
        assert each.replayed == recorded.capacity
        serves = device.other_settings("default", capacity=each.room).outcomes[0].serves
        assert serves is (each.outcome == "replayed")


def failed(free: int) -> TraceBuilder:
    """4 GiB were live when 2 GiB were asked for and the driver had less."""
    made = trace()
    a = made.address("a")
    made.event("segment_alloc", addr=a, size=4096 * MIB).alloc(a, 4096 * MIB)
    made.event("oom", size=2048 * MIB, device_free=free)
    return made.segment(a, 4096 * MIB, (4096 * MIB, 4096 * MIB, "live"))


def test_a_failure_beside_others_is_not_told_to_have_room() -> None:
    found = fit(failed(free=1024 * MIB), 16 * 1024, allow=None)
    assert (found.outcome, found.others) == ("unknown", 11 * 1024 * MIB)
    assert "has room" not in found.text
    assert "If it was recorded on one, 11.00 GiB of its 16.00 GiB were not PyTorch's" in found.text
    assert "needs 6.00 GiB" in found.text


def test_what_cuda_takes_of_a_card_is_no_other_program() -> None:
    assert fit(failed(free=1024 * MIB), 5 * 1024 + 699, allow=None).others is None


def test_where_the_card_is_known_what_others_had_is_measured() -> None:
    card = find_card("t4")
    about = {"device": "cuda:0", "name": "Tesla T4", "capacity": card.bytes, "total": card.bytes}
    snapshot = failed(free=1024 * MIB).snapshot()
    snapshot["snapreport"] = {"format": 1, "devices": [about]}
    file = history_of(snapshot)
    found = fit_card(file, find_figures(file, 0), CardWanted(card, None))
    assert (found.outcome, found.others) == ("short", None)
    assert found.allowance == Allowance(card.bytes - 5 * 1024 * MIB, 0, "measured")
