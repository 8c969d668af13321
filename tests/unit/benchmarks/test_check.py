"""What is worse than the committed ratios allow fails, and nothing else does."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from dev.benchmarks.check import (
    ALLOWED,
    BASELINE,
    improvements,
    judge,
    new_baseline,
    regressions,
)
from dev.benchmarks.workloads.named import BY_NAME
from tests.unit.benchmarks.test_run import result

Figures = dict[str, dict[str, float]]


def baseline(**figures: float) -> dict[str, Any]:
    allowed = {"time": {"factor": 1.5, "slack": 0.2}, "bytes": {"factor": 1.1, "slack": 0.0}}
    named = {name.replace("_", ": "): value for name, value in figures.items()}
    return {"allowed": allowed, "workloads": {"steps": named}}


def measured(**figures: float) -> Figures:
    return {"steps": {name.replace("_", ": "): value for name, value in figures.items()}}


def test_a_figure_within_its_factor_passes() -> None:
    kept = baseline(time_convert=2.0, bytes_convert=0.1)
    assert regressions(kept, measured(time_convert=3.0, bytes_convert=0.11)) == []
    assert judge(kept, measured(time_convert=2.9, bytes_convert=0.1)) == 0


def test_each_kind_of_figure_has_a_factor_of_its_own() -> None:
    kept = baseline(time_convert=2.0, bytes_convert=0.1)
    worse = regressions(kept, measured(time_convert=3.01, bytes_convert=0.12))
    assert [each.figure for each in worse] == ["time: convert", "bytes: convert"]
    assert [each.limit for each in worse] == pytest.approx([3.0, 0.11])


def test_a_small_figure_may_change_by_the_slack() -> None:
    kept = baseline(time_find=0.02)
    assert regressions(kept, measured(time_find=0.2)) == []
    assert len(regressions(kept, measured(time_find=0.23))) == 1


def test_a_figure_that_is_gone_fails_and_a_new_one_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = baseline(time_convert=2.0)
    assert judge(kept, {"steps": {"time: other": 9.0}}) == 1
    assert "was 2.000, and is not measured any more" in capsys.readouterr().out
    assert judge(kept, {}) == 1
    assert judge(kept, measured(time_convert=2.0, time_render=99.0)) == 0


def test_what_became_better_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    kept = baseline(time_convert=2.0, bytes_convert=0.1)
    found = measured(time_convert=1.0, bytes_convert=0.099)
    assert [each.figure for each in improvements(kept, found)] == ["time: convert"]
    assert judge(kept, found) == 0
    out = capsys.readouterr().out
    assert "better: steps, time: convert: 2.000 to 1.000" in out
    assert "2 figures compared, 0 worse than allowed." in out


def test_an_update_passes_its_own_check() -> None:
    results = [result("steps-20k", 20_000, 2.0)]
    made = orjson.loads(orjson.dumps(new_baseline(results)))
    ratios = {each.name: each.ratios() for each in results}
    assert regressions(made, ratios) == []
    ratios["steps-20k"]["memory: convert"] *= 1.5
    assert [each.figure for each in regressions(made, ratios)] == ["memory: convert"]


def test_the_committed_file_is_about_workloads_that_exist() -> None:
    kept = orjson.loads(BASELINE.read_bytes())
    assert set(kept["workloads"]) <= set(BY_NAME)
    assert kept["allowed"] == ALLOWED
    for figures in kept["workloads"].values():
        assert {"time: convert", "time: render", "bytes: convert"} <= set(figures)
        assert {figure.partition(":")[0] for figure in figures} == set(ALLOWED)
