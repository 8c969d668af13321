"""Real traces through the model of the allocator: every allocation at its recorded address."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from snapreport.figures.allocator.factual import ModelledDevice, failed_capacity
from snapreport.figures.allocator.settings import replay_settings, table_of_settings
from snapreport.figures.allocator.tape import FAIL, MADE, MAPPED, RETURNED, UNMAPPED
from snapreport.history.allocator_settings import parse_settings
from snapreport.model.replays import OtherSettings
from snapreport.reporters.settings import settings_document
from tests.corpus import corpus_files, every_corpus_file, loaded
from tests.documents import text_of
from tests.reference.allocator import Replay
from tests.reference.allocator_parts import Rules
from tests.reference.replays import (
    conf_of,
    is_exact,
    modelled_devices,
    recorded_bounds,
    replay,
    same_outcome,
    without_first,
)

MIB = 1 << 20
TRACES = 12
"""Device traces of more than one event in the files of the format notes."""


@cache
def devices(path: Path) -> list[ModelledDevice]:
    return modelled_devices(loaded(path).history)


@cache
def replays(path: Path) -> list[tuple[ModelledDevice, Replay]]:
    """Return what the reference does with each device, by the rules as they are."""
    return [(each, replay(each)) for each in devices(path)]


@every_corpus_file
def test_every_allocation_is_on_its_recorded_address(path: Path) -> None:
    for each in devices(path):
        found = each.factual
        assert found.exact, found
        assert (found.placed, found.segment_events_met) == (
            found.allocations,
            found.segment_events,
        )
        assert found.reserved_equal
        assert found.peak_reserved == found.peak_reserved_model


@every_corpus_file
def test_the_model_and_the_reference_do_the_same(path: Path) -> None:
    for each, found in replays(path):
        assert is_exact(each, found)
        conf = conf_of(each.settings, **recorded_bounds(each), room=each.tape.room)
        same_outcome(each, conf, found)


@pytest.mark.parametrize(("part", "traces"), [(0.25, 12), (0.5, 12), (0.75, 11)])
def test_a_ring_that_lost_its_first_events_is_as_exact(
    corpus: Path, part: float, traces: int
) -> None:
    """Of one failed request with the last quarter of its events, no allocation is left."""
    names = [p for p in corpus_files() if p.parent == corpus and p.suffix == ".pickle"]
    found = [each for path in names for each in modelled_devices(without_first(path, part))]
    for each in found:
        assert each.factual.exact, (each.history.device, each.factual)
        assert is_exact(each, replay(each))
    if len([each for path in names for each in devices(path)]) != TRACES:
        pytest.skip("other files than those of the format notes")
    assert len(found) == traces


@pytest.mark.parametrize(
    ("rules", "exact", "peaks"),
    [
        (Rules(), 12, 12),
        (Rules(lowest_address_wins=False), 0, 12),
        (Rules(best_fit=False), 0, 6),
        (Rules(medium_segments=False), 6, 7),
        (Rules(large_remainder=512), 7, 12),
        (Rules(small_up_to=MIB - 1), 10, 11),
    ],
    ids=[
        *("as it is", "highest address of equal ones", "lowest address"),
        *("no segments of 20 MiB", "large blocks split from 512 bytes on", "small below 1 MiB"),
    ],
)
def test_each_rule_that_is_broken_loses_traces(
    corpus: Path, rules: Rules, exact: int, peaks: int
) -> None:
    """Addresses are the test, and peaks are not: those stay right under most broken rules."""
    names = [path for path in corpus_files() if path.parent == corpus and devices(path)]
    if rules == Rules():
        found = [pair for path in names for pair in replays(path)]
    else:
        found = [(each, replay(each, rules)) for path in names for each in devices(path)]
    if len(found) != TRACES:
        pytest.skip("other files than those of the format notes")
    assert sum(is_exact(*pair) for pair in found) == exact
    assert sum(each.peak == it.factual.peak_reserved for it, each in found) == peaks


def test_the_request_that_failed_does_so_as_it_was_recorded(corpus: Path) -> None:
    """Six unmaps and a map before another request, then the failure: see the format notes."""
    path = corpus / "three_gpus_expandable_oom.pickle"
    each, found = replays(path)[1]
    kinds = [kind for op, kind, _, _ in found.events if op in each.tape.retried]
    assert kinds == [UNMAPPED] * 6 + [MAPPED]
    assert list(each.tape.op).count(FAIL) == 1
    assert int(each.tape.failed_size.max()) == 5_308_694_528
    assert each.tape.op[found.failed_op] == FAIL
    assert each.factual.capacity == 84_202_749_952


def test_no_setting_serves_the_request_that_failed(corpus: Path) -> None:
    """Live requests take 85,231 MiB with it, and the card gives 80,393."""
    each = devices(corpus / "three_gpus_expandable_oom.pickle")[1]
    there = failed_capacity(each)
    assert there == 84_298_432_512
    assert there // MIB == 80_393
    found = replay_settings(each, table_of_settings(each.settings), there)
    assert found.hopeless
    assert (found.floor // MIB, found.floor_event) == (85_231, 421)
    assert found.outcomes == ()
    assert "No setting could have helped: 83.23 GiB needed, 78.51 GiB available" in said(found)


def said(found: OtherSettings) -> str:
    return text_of(settings_document("cuda:1", found))


@pytest.mark.parametrize(
    ("name", "plain", "expandable"),
    [
        ("mem_snapshot", (3606, 3606), (3142, 3142)),
        ("sgd_annotated", (1782, 1782), (1704, 1704)),
        ("snapshot_event_inside", (5698, 5698), (5482, 5502)),
        ("memory_ctx128_forward_", (18756, 18756), (18500, 18624)),
    ],
)
def test_the_smallest_capacities_of_real_programs(
    corpus: Path, name: str, plain: tuple[int, int], expandable: tuple[int, int]
) -> None:
    """In MiB: what the model says, never below the floor. Nobody measured them."""
    (each,) = devices(corpus / f"{name}.pickle")
    found = replay_settings(each, table_of_settings(each.settings)[:2])
    told = [(o.capacity.least // MIB, o.capacity.most // MIB) for o in found.outcomes]
    assert told == [plain, expandable]
    assert all(found.floor <= o.capacity.least for o in found.outcomes)


def test_private_pools_keep_their_segments_and_serve_nobody_else(corpus: Path) -> None:
    ((each, found),) = replays(corpus / "private_pools_eight_devices.pickle")
    assert [pool for pool, _ in each.tape.lanes] == [(0, 0), (0, 1)]
    made = [size for _, kind, _, size in found.events if kind == MADE]
    back = [size for _, kind, _, size in found.events if kind == RETURNED]
    assert (len(made), len(back)) == (422, 181)
    assert each.factual.peak_reserved == 28_768_731_136


def test_a_capacity_fits_surely_only_where_no_larger_one_fails(corpus: Path) -> None:
    """At 11.70 GiB all is served under expandable segments, and somewhat above it is not. The
    recording began late, too: what was there could lie so that 11.70 GiB are too little."""
    (each,) = devices(corpus / "medium_512_training.pickle")
    there = 11_980 * MIB
    found = replay_settings(each, table_of_settings(each.settings), there)
    serves = {o.settings: o.serves for o in found.outcomes}
    assert serves["expandable_segments:True"] is None
    assert serves["max_split_size_mb:64"] is None
    (ample,) = replay_settings(each, [parse_settings("max_split_size_mb:64")], 40 << 30).outcomes
    assert ample.serves
    for o in found.outcomes:
        assert o.serves is not True or o.capacity.most <= there
        assert o.serves is not False or there < o.capacity.most
