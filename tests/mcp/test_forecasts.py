"""Agents are told with every answer that a file is a forecast."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from snapreport.commands.mcp_server.questions import Question
from snapreport.ground.progress import silent
from tests.forecasts import forecast
from tests.mcp.desks import DeskBelow

HEAD = "Forecast for an H100 80 GB: nothing was computed, and no card was used."


@pytest.fixture
def desk(tmp_path: Path) -> DeskBelow:
    (tmp_path / "snap.pickle").write_bytes(pickle.dumps(forecast()))
    (tmp_path / "run").mkdir()
    for rank in range(2):
        (tmp_path / "run" / f"rank{rank}.pickle").write_bytes(pickle.dumps(forecast()))
    return DeskBelow(tmp_path)


@pytest.mark.parametrize("tool", ["open", "summary", "findings", "at", "whatif"])
def test_every_answer_about_a_forecast_says_so(desk: DeskBelow, tool: str) -> None:
    assert desk.ask(tool, "snap.pickle")["forecast"] == HEAD


def test_the_first_answer_says_how_sure_it_is(desk: DeskBelow) -> None:
    found = desk.ask("open", "snap.pickle")
    assert found["expected"].startswith("The peak of allocated memory is expected at 30.00 MiB")
    assert found["caveats"][0].startswith("7 values were assumed")


def test_a_run_of_forecasts_says_so(desk: DeskBelow) -> None:
    place = desk.files.find("run", folders=True)
    question = Question("run", (place,), {}, roots=desk.files.roots)
    assert desk.desk.answer(question, silent)["forecast"] == HEAD
