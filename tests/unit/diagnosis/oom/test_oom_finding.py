"""Verdicts on requests that failed for a known reason, and what is said about the peak."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.settings import AllocatorSettings
from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer
from snapreport.diagnosis.conclude import find_figures, find_memory
from snapreport.diagnosis.oom.verdict import OomVerdict, Removal, judge
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Finding, Frees, Table
from tests import diseases
from tests.builders import KIB, MIB, TraceBuilder, frame, history_of, trace


def verdict_on(made: Simulator) -> OomVerdict:
    file = history_of(made.snapshot())
    device = find_figures(file, 0)
    found = judge(file, device, device.ooms[-1])
    assert found is not None
    return found


def findings_of(made: Simulator | TraceBuilder) -> list[Finding]:
    file = history_of(made.snapshot())
    return list(find_memory(file, find_figures(file, 0)))


def table(finding: Finding, start: str) -> Table:
    return next(each for each in finding.tables if each.title.startswith(start))


@pytest.mark.parametrize("cause", diseases.OOM_CAUSES)
def test_a_request_that_fails_for_a_known_reason_gets_that_verdict(cause: str) -> None:
    made = diseases.OOM_CAUSES[cause]()
    found = verdict_on(made)
    assert (found.cause, found.alone) == (cause, True)
    counters = made.allocators[0].counters
    assert found.allocated == counters.allocated
    assert found.reserved == counters.reserved
    assert found.pending == counters.active - counters.allocated
    assert found.inactive == counters.reserved - counters.active
    assert sum(each.reserved for each in found.pools) == counters.reserved
    (finding,) = findings_of(made)
    assert (finding.code, finding.severity) == ("oom", "critical")
    assert finding.title.startswith("Out of memory: ")
    assert "The request came from request (train.py:7)." in finding.explanation
    assert finding.view is not None
    assert (finding.view.event, finding.view.oom) == (found.event, True)
    assert all(each.frees or re.search(r"\d [KMG]iB", each.text) for each in finding.suggestions)
    assert finding.suggestions, "a reader has to know what to do"


@pytest.mark.parametrize("expandable", [False, True])
def test_a_full_device_misses_what_the_request_lacks(expandable: bool) -> None:
    found = verdict_on(diseases.full(expandable))
    assert (found.size, found.device_free, found.needed) == (60 * MIB, 24 * MIB, 60 * MIB)
    assert (found.missing, found.pieces, found.hole) == (36 * MIB, 0, 0)
    assert found.ceiling == 924 * MIB
    assert found.removals == tuple(Removal((f"site_{i}  train.py:1",), 300 * MIB) for i in range(3))


def test_no_cause_is_named_where_some_of_the_memory_in_use_lies_in_no_segment() -> None:
    made = (
        trace()
        .segment("known", 60 * MIB)
        .alloc("unknown", 36 * MIB)
        .event("oom", addr=None, size=90 * MIB, device_free=MIB)
    )
    (finding,) = findings_of(made)
    assert finding.code == "oom"
    assert "Why is not known" in finding.explanation
    assert finding.evidence == ()


def test_pieces_are_counted_with_the_largest_hole_and_who_splits_them() -> None:
    made = diseases.fragmented()
    found = verdict_on(made)
    assert (found.missing, found.pieces, found.hole) == (156 * MIB, 550 * MIB, 50 * MIB)
    assert found.removals == (Removal(("kept  train.py:1",), 330 * MIB),)
    (finding,) = findings_of(made)
    *settings, room = finding.suggestions
    assert [each.code for each in settings] == ["allocator-setting"] * 2
    assert (room.code, room.frees) == ("make-room", Frees.exactly(330 * MIB))
    assert room.sites == ("kept  train.py:1",)


def test_settings_are_estimated_where_the_model_is_not_asked() -> None:
    """A request had failed before: what would have followed had it been served, nobody knows."""
    made = diseases.fail(diseases.start(), 2000 * MIB)
    (finding,) = findings_of(diseases.fragmented(made=made))
    split, pages, _ = finding.suggestions  # the most bytes first
    assert split.change == "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"
    assert "550.0 MiB were free in segments of at least 64 MiB" in split.text
    # 330 MiB in use and 200 asked for take 27 pages of 20 MiB: 10 MiB stay unused.
    assert pages.change == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert "up to 540.0 MiB of what was free" in pages.text
    assert split.frees is pages.frees is None  # no more than the most is known


@pytest.mark.parametrize(
    "settings",
    [AllocatorSettings(max_split_size=64 * MIB), AllocatorSettings(expandable_segments=True)],
)
def test_the_settings_that_are_suggested_serve_the_request(settings: AllocatorSettings) -> None:
    with pytest.raises(AssertionError, match="was served"):
        diseases.fragmented(settings)


def test_private_pools_streams_and_pending_blocks_are_told_apart() -> None:
    locked = verdict_on(diseases.locked())
    assert (locked.locked, locked.pieces, locked.pool) == (500 * MIB, 0, "default")
    private = next(each for each in locked.pools if each.pool == "private 1,0")
    assert (private.inactive, private.returnable, private.serves) == (500 * MIB, 0, False)
    waiting = verdict_on(diseases.waiting())
    assert (waiting.pending, waiting.missing) == (400 * MIB, 96 * MIB)
    side = verdict_on(diseases.other_stream())
    assert (side.other_streams, side.pieces) == (480 * MIB, 0)
    assert side.pools[0].stream == diseases.SIDE_STREAM


def test_whole_segments_that_a_pool_keeps_are_no_pieces_and_no_setting_frees_them() -> None:
    made = diseases.stranded()
    found = verdict_on(made)
    assert (found.stranded, found.pieces, found.pool) == (400 * MIB, 0, "private 0,1")
    (finding,) = findings_of(made)
    said = finding.title + finding.explanation
    assert not re.search("pieces|partly in use", said)
    assert (
        "Private pool 0,1 held 800.0 MiB, of which 400.0 MiB were free, all of it in whole segments"
        in finding.explanation
    )
    first = finding.suggestions[0]
    assert (first.code, "Begin with the pool" in first.text) == ("release-pool", True)
    assert "allocator-setting" not in {each.code for each in finding.suggestions}


def test_a_request_that_fits_into_another_pool_may_use_it_before_it_fails() -> None:
    made = diseases.start()
    made.allocators[0].begin_pool((0, 1))
    diseases.at(made, "load")
    made.free(made.malloc(500 * MIB))
    made.allocators[0].end_pool()
    (finding,) = findings_of(diseases.fail(made, 450 * MIB))
    assert "Private pool 0,1 held 500.0 MiB, of which 500.0 MiB were free" in finding.explanation
    (offered,) = [each for each in finding.suggestions if each.code == "release-pool"]
    assert offered.change == "pool = torch.cuda.MemPool(use_on_oom=True)"
    (too_small,) = findings_of(diseases.locked())
    assert "release-pool" not in {each.code for each in too_small.suggestions}


def test_what_others_took_is_known_from_what_could_be_had_before() -> None:
    found = verdict_on(diseases.foreign())
    assert found.foreign == 700 * MIB - (100 + 324) * MIB
    assert found.ceiling == 424 * MIB


def test_a_limit_lies_between_what_was_reserved_and_what_would_have_been() -> None:
    made = diseases.limited()
    found = verdict_on(made)
    assert (found.most_reserved, found.reserved + found.needed) == (100 * MIB, 300 * MIB)
    assert found.missing < 0
    (finding,) = findings_of(made)
    assert "between 100.0 MiB and 300.0 MiB" in finding.explanation
    assert "missing" not in {each.label for each in finding.evidence}


def test_a_recorded_limit_is_named_and_explains_a_request_that_was_refused_at_once() -> None:
    """600 MiB are cached: any other process would have given them back first."""
    settings = ("per_process_memory_fraction:0.5", "throw_on_cudamalloc_oom:True")
    made = diseases.start(AllocatorSettings(also=settings))
    diseases.at(made, "kept")
    made.free(made.malloc(600 * MIB))
    allocator = made.allocators[0]
    allocator.limit = 600 * MIB
    free = allocator.driver.free_bytes
    diseases.at(made, "step")
    allocator._record("oom", free, 700 * MIB, 0, allocator.large, made.recorder.gather(1))
    found = verdict_on(made)
    assert (found.cause, found.limits) == ("limit", settings)
    (finding,) = findings_of(made)
    assert f"recorded with {settings[0]} and {settings[1]}." in finding.explanation


def test_a_program_that_goes_on_after_a_failed_request_is_warned_about() -> None:
    made = diseases.full()
    for block in list(made.allocators[0].active.values()):
        made.free(block)
    diseases.at(made, "smaller")
    made.malloc(60 * MIB)
    (finding,) = findings_of(made)
    assert finding.severity == "warning"
    assert "went on" in finding.explanation


def test_requests_that_fail_at_one_place_are_one_finding() -> None:
    made = diseases.full()
    diseases.fail(made, 70 * MIB)
    diseases.at(made, "elsewhere")
    with pytest.raises(OutOfMemoryError):
        made.malloc(80 * MIB)
    found = findings_of(made)
    assert [each.title[:30] for each in found] == [
        "Out of memory: 80.00 MiB asked",
        "Out of memory: 70.00 MiB asked",
    ]
    assert "2 requests failed there" in found[1].explanation
    assert len({each.id for each in found}) == 2


def test_two_call_sites_that_only_together_make_room_are_found() -> None:
    made = diseases.start()
    for i in range(9):
        diseases.at(made, f"site_{i}")
        made.malloc(100 * MIB)
    found = verdict_on(diseases.fail(made, 200 * MIB))
    assert found.checked == 9
    assert len(found.removals) == 6
    assert {len(each.sites) for each in found.removals} == {2}
    assert {each.bytes for each in found.removals} == {200 * MIB}


def test_three_call_sites_are_found_where_two_are_not_enough() -> None:
    made = diseases.start()
    for i in range(9):
        diseases.at(made, f"site_{i}")
        made.malloc(100 * MIB)
    found = verdict_on(diseases.fail(made, 300 * MIB))
    assert [len(each.sites) for each in found.removals] == [3]


def training(steps: int, **sizes: int) -> Simulator:
    made = Simulator()
    made.start_recording()
    run = TrainingRun(made, Transformer(layers=3, **sizes))
    run.build()
    run.train(steps)
    return made


def test_rounding_is_offered_where_sizes_vary_and_what_it_costs_is_taken_off() -> None:
    made = diseases.fail(diseases.start(), 2000 * MIB)  # so that the model is not asked
    diseases.at(made, "first")
    for block in [made.malloc(80 * MIB) for _ in range(11)]:
        made.free(block)
    gone = []
    for i in range(11):  # 30 MiB stays as it is, the others up to 31.25 become 32
        diseases.at(made, "kept")
        made.malloc(30 * MIB + i * 128 * KIB)
        diseases.at(made, "freed")
        gone.append(made.malloc(50 * MIB - i * 128 * KIB))
    for block in gone:
        made.free(block)
    diseases.fail(made, 200 * MIB)
    kept = [30 * MIB + i * 128 * KIB for i in range(11)]
    free = 11 * 80 * MIB - sum(kept)
    cost = sum(32 * MIB - size for size in kept[1:])
    (finding,) = findings_of(made)
    (offered,) = [each for each in finding.suggestions if "roundup" in each.change]
    assert f"At most {format_bytes(free - cost)} of what was free" in offered.text
    before = diseases.fail(diseases.start(), 2000 * MIB)
    (plain,) = findings_of(diseases.fragmented(made=before))
    assert not any("roundup" in each.change for each in plain.suggestions)


def test_a_request_while_a_graph_is_captured_cannot_use_what_is_cached() -> None:
    made = diseases.start()
    diseases.at(made, "first")
    for block in [made.malloc(100 * MIB) for _ in range(8)]:
        made.free(block)
    made.allocators[0].begin_pool((1, 0))
    diseases.at(made, "capture")
    made.malloc(5 * MIB)
    found = verdict_on(diseases.fail(made, 200 * MIB))
    assert (found.cause, found.pool, found.locked) == ("locked", "private 1,0", 800 * MIB)
    (finding,) = findings_of(made)
    emptied = [each for each in finding.suggestions if "empty_cache" in each.change]
    assert [each.frees for each in emptied] == [Frees.exactly(800 * MIB)]
    assert "private pool (1,0)" in finding.explanation


def test_without_segment_events_no_cause_is_named() -> None:
    made = trace().alloc("a", 8 * MIB)
    made.event("oom", addr=None, size=64 * MIB, device_free=MIB).free("a")
    (finding,) = findings_of(made)
    assert finding.title == "Out of memory: 64.00 MiB asked for, 1.00 MiB free on the device"
    assert "Why is not known" in finding.explanation
    assert finding.suggestions == ()


def test_what_an_earlier_failure_left_free_shows_what_others_took_since() -> None:
    made = diseases.fail(diseases.start(), 1000 * MIB)
    made.allocators[0].driver.take(300 * MIB)
    found = verdict_on(diseases.fail(made, 700 * MIB))
    assert (found.cause, found.foreign, found.missing) == ("foreign", 300 * MIB, 76 * MIB)


def test_a_lone_failed_request_is_judged_by_the_final_state() -> None:
    made = trace().event("oom", addr=None, size=64 * MIB, device_free=MIB)
    made.segment("a", 20 * MIB, (5 * MIB, 5 * MIB, "live"))
    (finding,) = findings_of(made)
    assert (finding.code, finding.id) == ("oom", "oom")
    assert {each.label: each.value for each in finding.evidence}["largest hole"] == 15 * MIB


def test_the_peak_is_a_note_with_the_peaks_that_would_be_left() -> None:
    made = training(2)
    file = history_of(made.snapshot())
    device = find_figures(file, 0)
    (finding,) = find_memory(file, device)
    assert (finding.code, finding.severity) == ("peak", "note")
    assert finding.bytes == device.peak.allocated
    without = table(finding, "The peak without a call site")
    assert all(row[1] + row[2] == device.peak.allocated for row in without.rows)  # type: ignore[operator]
    *changes, begin = finding.suggestions
    assert {each.code for each in changes} >= {"checkpoint", "smaller-batch"}
    assert begin.code == "largest-site"
    assert begin.frees is not None
    assert begin.frees.expected == without.rows[0][1]
    assert begin.frees.least < begin.frees.expected  # other blocks may then be larger
    assert begin.sites == (without.rows[0][4],)


def accumulating(releases: bool) -> tuple[Simulator, TrainingRun]:
    made = Simulator()
    made.start_recording()
    run = TrainingRun(made, Transformer(layers=3, batch=2, length=128))
    run.build()
    with run.call("<module>", "train.py", 88):
        run._backward(run._forward())
        if releases:
            run.drop(*run.gradients.values())
        run._forward()
    return made, run


@pytest.mark.parametrize("releases", [False, True])
def test_gradients_that_may_be_added_up_are_not_said_to_be_in_the_way(releases: bool) -> None:
    (finding,) = findings_of(accumulating(releases)[0])
    assert "free-earlier" not in [each.code for each in finding.suggestions]


def test_without_a_history_the_state_is_described_and_nothing_promised() -> None:
    made = trace().segment("a", 8 * MIB, (5 * MIB, 5 * MIB, "live"))
    (finding,) = findings_of(made)
    assert finding.title == "5.00 MiB allocated when the snapshot was written"
    assert finding.suggestions == ()


def test_the_call_site_to_begin_with_is_named_with_the_line_of_the_project_above_it() -> None:
    made = trace()
    library = [frame("mlp", "/env/lib/python3.12/site-packages/timm/layers/mlp.py", 41)]
    called = [*library, frame("train", "/home/me/project/train.py", 7), frame("main", "run.py", 9)]
    made.alloc("x", 8 * MIB, frames=called)
    made.alloc("y", 2 * MIB, frames=[frame("train", "/home/me/project/train.py", 8)])
    (finding,) = findings_of(made)
    (begin,) = [each for each in finding.suggestions if each.code == "largest-site"]
    assert "Begin with mlp (mlp.py:41), called from train (train.py:7):" in begin.text
    (finding,) = findings_of(trace().alloc("x", MIB, frames=called[1:]).free("x"))
    (begin,) = [each for each in finding.suggestions if each.code == "largest-site"]
    assert "Begin with train (train.py:7): without" in begin.text


def test_nothing_is_said_of_a_device_that_did_nothing() -> None:
    assert findings_of(trace()) == []


def test_a_device_that_is_nearly_full_besides_is_said_to_be() -> None:
    made = diseases.start()
    for i in range(46):  # segments of 20 MiB with 1.5 free: 851 of 924 MiB are in use
        diseases.at(made, f"site_{i % 4}")
        made.malloc(9 * MIB + 256 * KIB)
        made.malloc(9 * MIB + 256 * KIB)
    (finding,) = findings_of(diseases.fail(made, 60 * MIB))
    assert "in pieces: 69.00 MiB" in finding.explanation
    assert "Even so, 92% of all that PyTorch could have had was in use" in finding.explanation
    (roomy,) = findings_of(diseases.fragmented())
    assert "Even so" not in roomy.explanation


def test_a_training_that_is_offered_expandable_segments_gets_further_with_them() -> None:
    model = Transformer(layers=4, batch=6, length=300)

    def train(capacity: int, expandable: bool) -> tuple[Simulator, int]:
        made = Simulator(
            AllocatorSettings(expandable_segments=expandable), capacity=capacity, others=100 * MIB
        )
        made.start_recording()
        run = TrainingRun(made, model)
        with suppress(OutOfMemoryError):
            run.build()
            run.train(3)
        return made, len(made.allocators[0].lives)

    offered = further = 0
    for capacity in range(700, 2700, 60):
        made, reached = train(capacity * MIB, expandable=False)
        file = history_of(made.snapshot())
        device = find_figures(file, 0)
        changes = [each.change for found in find_memory(file, device) for each in found.suggestions]
        reached_with = train(capacity * MIB, expandable=True)[1]
        if any("expandable_segments" in change for change in changes):
            offered += 1
            further += reached_with > reached
        elif device.ooms and verdict_on(made).cause == "full":
            assert reached_with == reached, "the setting would have helped"
    assert offered >= 5
    assert further == offered
