"""A made run as files: PyTorch could have written them, and what is planted is found in them."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import snapreport
from dev.benchmarks.runs.files import TRUTH, play, write_run
from dev.benchmarks.runs.pattern import read_pattern
from dev.benchmarks.runs.plan import Plan, make_plan, vary
from dev.benchmarks.runs.truth_check import mistakes
from dev.simulator.invariants import violations
from snapreport.api.rank_figures import rank_facts
from snapreport.diagnosis.ranks.find_run import find_run
from snapreport.model.run import RankFacts, RankName, Run, place_in

RANKS, SEED = 24, 4


@pytest.fixture(scope="module")
def plan(request: pytest.FixtureRequest) -> Plan:
    sample = request.config.rootpath / "sample_snapshots" / "training_step.pickle"
    return make_plan(read_pattern(sample, 4, most=250), RANKS, SEED)


def test_an_allocator_could_have_made_every_file(plan: Plan) -> None:
    failed = next(each.ranks[0] for each in plan.planted if each.what == "failure")
    leaking = next(each.ranks[0] for each in plan.planted if each.what == "leak")
    for rank in (failed, leaking):
        assert violations(play(plan, vary(plan, rank), rank)) == []


def test_what_is_planted_is_found_in_the_files(plan: Plan, tmp_path: Path) -> None:
    write_run(plan, tmp_path)
    truth = orjson.loads((tmp_path / TRUTH).read_bytes())
    ranks = []
    for path in tmp_path.glob("*/rank*.gz"):
        number = int(path.name.partition("_")[0].removeprefix("rank"))
        facts = RankFacts(
            path.name,
            f"rank {number}",
            RankName(number, coordinates=place_in(plan.layout, number)),
            0,
            "",
            (),
        )
        try:
            ranks.append(replace(facts, devices=rank_facts(snapreport.load(path).findings())))
        except snapreport.SnapreportError as error:
            ranks.append(replace(facts, error=str(error)))
    ranks.sort(key=lambda each: each.name.rank or 0)
    run = Run("", tuple(ranks), plan.layout, RANKS)
    assert mistakes(truth | {"known_layout": True}, run, find_run(run)) == []


def test_equal_arguments_give_equal_files(plan: Plan, tmp_path: Path) -> None:
    again = make_plan(plan.pattern, RANKS, SEED)
    assert pickle.dumps(play(plan, vary(plan, 1), 1)) == pickle.dumps(
        play(again, vary(again, 1), 1)
    )
    few = replace(plan, ranks=1)
    assert (
        write_run(few, tmp_path)
        == (tmp_path / "node000").joinpath("rank0_memory_snapshot.pickle.gz").stat().st_size
    )
    assert gzip.decompress(next((tmp_path / "node000").iterdir()).read_bytes())[:1] == b"\x80"
